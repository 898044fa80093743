//! Participants: the hub and the DFSPs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::base::stored::stored_struct;
use crate::scheme::binding::Binding;
use crate::scheme::endpoint::EndpointType;

/// A participant of the scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    pub id: ParticipantId,
    /// Name, as in `FSPIOP-Source`.
    pub name: FspId,
    /// Whether the participant may be a party of new transfers.
    pub is_active: bool,
    /// Whether the participant represents other schemes.
    pub is_proxy: bool,
    pub created_at: Timestamp,
    /// Accounts, in order of creation.
    pub accounts: Vec<AccountRef>,
    /// Net debit caps, one per currency.
    pub limits: Vec<Limit>,
    /// Callback URLs and e-mail addresses, by type, in order of type.
    pub endpoints: Vec<(EndpointType, Box<str>)>,
    /// Credentials that prove which participant a client is, sorted.
    pub bindings: Vec<Binding>,
}

impl Participant {
    /// Creates an active participant without accounts that is not a proxy.
    pub const fn new(id: ParticipantId, name: FspId, created_at: Timestamp) -> Self {
        Self {
            id,
            name,
            is_active: true,
            is_proxy: false,
            created_at,
            accounts: Vec::new(),
            limits: Vec::new(),
            endpoints: Vec::new(),
            bindings: Vec::new(),
        }
    }
}

/// An entry in a participant's list of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRef {
    pub currency: Currency,
    pub kind: LedgerAccountTypeId,
    pub id: AccountId,
}

/// A net debit cap: the highest position that a prepare may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The currency of the positions that the cap limits.
    pub currency: Currency,
    pub value: Amount,
    /// Share of the cover, in hundredths of a percent, above which operators are warned (1000 is 10 %).
    pub alarm_basis_points: u16,
}

impl Limit {
    /// Alarm threshold without another one, in hundredths of a percent. Mojaloop hubs set 10 %, which nearly every DFSP
    /// always exceeds.
    pub const ALARM_BASIS_POINTS_DEFAULT: u16 = 8_000;
}

impl Participant {
    /// The account of a type in a currency.
    pub fn account(&self, currency: Currency, kind: LedgerAccountTypeId) -> Option<AccountId> {
        self.accounts
            .iter()
            .find(|account| account.currency == currency && account.kind == kind)
            .map(|account| account.id)
    }

    /// The net debit cap in a currency.
    pub fn limit(&self, currency: Currency) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.currency == currency)
    }

    /// The value of an endpoint type.
    pub fn endpoint(&self, kind: EndpointType) -> Option<&str> {
        let at = self.endpoints.binary_search_by_key(&kind, |(kind, _)| *kind).ok()?;
        Some(&self.endpoints[at].1)
    }
}

stored_struct! {
    AccountRef { currency, kind, id }
    Limit { currency, value, alarm_basis_points }
    Participant { id, name, is_active, is_proxy, created_at, accounts, limits, endpoints, bindings }
}

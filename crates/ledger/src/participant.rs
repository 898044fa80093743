//! Participants: the hub and the DFSPs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp};

use crate::binding::Binding;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::endpoint::EndpointType;
use crate::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::state::Ledger;
use crate::stored::{Stored, stored_struct};

/// A participant of the scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Identifier.
    pub id: ParticipantId,
    /// Name, as in `FSPIOP-Source`.
    pub name: FspId,
    /// Whether the participant may be a party of new transfers.
    pub is_active: bool,
    /// Whether the participant represents other schemes.
    pub is_proxy: bool,
    /// When it was created.
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
    /// Currency.
    pub currency: Currency,
    /// Ledger account type.
    pub kind: LedgerAccountTypeId,
    /// The account.
    pub id: AccountId,
}

/// A net debit cap: the highest position that a prepare may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The currency to which it applies.
    pub currency: Currency,
    /// The cap.
    pub value: Amount,
    /// Share of the cover, in hundredths of a percent, above which operators are warned (1000 is 10 %).
    pub alarm_basis_points: u16,
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

// DFSPs of other schemes that are reached through proxies.
//
// Each is a participant without accounts and endpoints. It uses the accounts and endpoints of its proxy.

impl Ledger {
    /// The proxy in front of a participant, if any.
    pub fn proxy_of(&self, id: ParticipantId) -> Option<ParticipantId> {
        self.proxies.get(&id).copied()
    }

    /// Participants behind proxies, each with its proxy.
    pub fn proxied(&self) -> impl Iterator<Item = (ParticipantId, ParticipantId)> {
        self.proxies.iter().map(|(participant, proxy)| (*participant, *proxy))
    }

    /// The participant that is liable for a participant's payments: itself or its proxy.
    pub(crate) fn liable<'a>(&'a self, party: &'a Participant) -> &'a Participant {
        self.proxy_of(party.id).map_or(party, |proxy| self.participant(proxy))
    }

    /// Whether the same participant is liable for both parties.
    pub(crate) fn are_one(&self, one: &Participant, other: &Participant) -> bool {
        self.liable(one).id == self.liable(other).id
    }
}

pub(crate) fn write(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    let proxied: alloc::vec::Vec<_> = ledger.proxied().collect();
    encoder.list(proxied.iter(), |encoder, pair| pair.encode(encoder));
}

pub(crate) fn read(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    for (participant, proxy) in d.list(<(ParticipantId, ParticipantId)>::decode)? {
        if ledger.proxies.insert(participant, proxy).is_some() {
            return Err(DecodeError("it has a participant behind two proxies"));
        }
    }
    Ok(())
}

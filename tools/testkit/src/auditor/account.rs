//! The keys of accounts and currencies in the auditor's books.

use upesi_ledger::{LedgerAccountTypeId, ParticipantId};
use upesi_types::Currency;

use crate::message::CURRENCY;

/// An account, by the numbers of its owner, its type and its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountKey {
    pub(super) owner: u32,
    pub(super) kind: u8,
    pub(super) currency: u8,
}

impl AccountKey {
    pub(super) const fn position(owner: u32, currency: u8) -> Self {
        Self { owner, kind: POSITION, currency }
    }

    /// The account of the same owner and currency that holds the cover.
    pub(super) const fn cover(self) -> Self {
        Self { kind: SETTLEMENT, ..self }
    }
}

/// A movement: the debtor owes the amount to the creditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leg {
    pub(super) debtor: AccountKey,
    pub(super) creditor: AccountKey,
    pub(super) amount: i128,
}

/// Number of a currency; 0 is the scheme's currency.
pub(super) fn currency_of(currency: Currency) -> u8 {
    currency_number(currency.as_str())
}

pub(super) const HUB: u32 = ParticipantId::HUB.number();
pub(super) const MULTILATERAL: u8 = LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT.0;
pub(super) const INTERCHANGE_FEE: u8 = LedgerAccountTypeId::INTERCHANGE_FEE.0;
pub(super) const POSITION: u8 = LedgerAccountTypeId::POSITION.0;
pub(super) const SETTLEMENT: u8 = LedgerAccountTypeId::SETTLEMENT.0;

/// Number of a currency; 0 is the scheme's currency.
pub(crate) fn currency_number(currency: &str) -> u8 {
    u8::from(currency != CURRENCY)
}

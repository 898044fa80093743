//! The keys of accounts and currencies in the auditor's books.

use upesi_ledger::{LedgerAccountTypeId, ParticipantId};
use upesi_types::Currency;

use crate::message::CURRENCY;

/// An account: the numbers of its owner, its type and its currency.
pub(super) type AccountKey = (u32, u8, u8);

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

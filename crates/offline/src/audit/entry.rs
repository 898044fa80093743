//! The entries of the auditor's books: movements, findings, amounts.

use upesi_ledger::AccountId;
use upesi_types::Amount;

/// A movement of money between two accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Movement {
    pub(super) debtor: AccountId,
    pub(super) creditor: AccountId,
    /// The amount, in ten-thousandths.
    pub(super) units: i128,
}

/// An error describes a contradiction to the books.
pub(super) type CheckResult = Result<(), String>;

/// Ten-thousandths as an amount.
pub(super) fn decimal(units: i128) -> String {
    let amount = i64::try_from(units).ok().and_then(Amount::from_units);
    amount.map_or_else(|| format!("{units} ten-thousandths"), |amount| amount.to_string())
}

//! The invariants of conversions: what they reserve, count and refer to.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::Currency;

use super::{Conversion, ConversionSide};
use crate::account::AccountId;
use crate::state::Ledger;
use crate::transfer::TransferState;

/// Takes what live conversions reserve from the sums per currency.
pub(crate) fn take_reserved(ledger: &Ledger, sums: &mut BTreeMap<Currency, i128>) {
    for leg in ledger.live_conversions().filter_map(Conversion::reserved_leg) {
        *sums.entry(leg.money.currency).or_default() -= i128::from(leg.money.amount.units());
    }
}

/// Adds what the ends of live conversions may yet credit, per account.
pub(crate) fn add_pending(ledger: &Ledger, pending: &mut BTreeMap<AccountId, i128>) {
    for (account, amount) in ledger.live_conversions().flat_map(Conversion::pending_credits) {
        *pending.entry(account).or_default() += i128::from(amount.units());
    }
}

/// Totals match the conversions in memory; none is left behind by its transfer: while one on the payee's side is live,
/// its transfer is reserved, and one on the payer's side is live only before its transfer ends.
pub(crate) fn check(ledger: &Ledger, findings: &mut Vec<String>) {
    let totals = ledger.conversion_totals();
    // Wide, because a snapshot may hold any counts.
    let ended = u128::from(totals.committed) + u128::from(totals.aborted);
    if u128::from(totals.reserved) != ended + ledger.live_conversions_len() as u128 {
        findings.push(format!(
            "{} conversions were reserved, but {ended} ended and {} are live",
            totals.reserved,
            ledger.live_conversions_len()
        ));
    }
    for conversion in ledger.live_conversions() {
        let transfer = conversion.determining_transfer.and_then(|id| ledger.transfer(id));
        let is_left_behind = match (conversion.side, transfer) {
            (ConversionSide::Payee, None) => true,
            (ConversionSide::Payee, Some(transfer)) => transfer.state != TransferState::Reserved,
            (ConversionSide::Payer, None) => false,
            // Refused before it reached this conversion: it was somebody else's prepare.
            (ConversionSide::Payer, Some(transfer)) => {
                transfer.payer == conversion.initiator
                    && transfer.payer_account.is_some()
                    && transfer.state != TransferState::Reserved
            }
        };
        if is_left_behind {
            findings.push(format!("conversion {} is live, but its transfer is not", conversion.id));
        }
    }
}

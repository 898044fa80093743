//! The invariants of FX transfers: their reservations, totals and references.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::Currency;

use crate::base::ids::AccountId;
use crate::core::state::Ledger;
use crate::money::fx_transfer::{FxTransfer, FxTransferSide};
use crate::money::transfer::TransferState;

/// Subtracts the reservations of live FX transfers from the sums per currency.
pub(crate) fn take_reserved(ledger: &Ledger, sums: &mut BTreeMap<Currency, i128>) {
    for leg in ledger.live_fx_transfers().filter_map(FxTransfer::reserved_leg) {
        *sums.entry(leg.money.currency).or_default() -= i128::from(leg.money.amount.units());
    }
}

/// Adds the amounts that the ends of live FX transfers may still credit, per account.
pub(crate) fn add_pending(ledger: &Ledger, pending: &mut BTreeMap<AccountId, i128>) {
    for (account, amount) in ledger.live_fx_transfers().flat_map(FxTransfer::pending_credits) {
        *pending.entry(account).or_default() += i128::from(amount.units());
    }
}

/// Checks that totals match the FX transfers in memory, and that no FX transfer outlives its transfer. While one on the
/// payee's side is live, its transfer is reserved. One on the payer's side is live only until its transfer ends.
pub(crate) fn check_fx_transfers(ledger: &Ledger, findings: &mut Vec<String>) {
    let totals = ledger.fx_transfer_totals();
    // Wide integers, because a snapshot may contain any counts.
    let ended = u128::from(totals.committed) + u128::from(totals.aborted);
    if u128::from(totals.reserved) != ended + ledger.live_fx_transfers_len() as u128 {
        findings.push(format!(
            "{} FX transfers were reserved, but {ended} ended and {} are live",
            totals.reserved,
            ledger.live_fx_transfers_len()
        ));
    }
    for fx_transfer in ledger.live_fx_transfers() {
        let transfer = fx_transfer.determining_transfer.and_then(|id| ledger.transfer(id));
        let is_left_behind = match (fx_transfer.side, transfer) {
            (FxTransferSide::Payee, None) => true,
            (FxTransferSide::Payee, Some(transfer)) => transfer.state != TransferState::Reserved,
            (FxTransferSide::Payer, None) => false,
            // The transfer was rejected before it was linked to this FX transfer: another DFSP sent the prepare.
            (FxTransferSide::Payer, Some(transfer)) => {
                transfer.payer == fx_transfer.initiator
                    && transfer.payer_account.is_some()
                    && transfer.state != TransferState::Reserved
            }
        };
        if is_left_behind {
            findings.push(format!("FX transfer {} is live, but its transfer is not", fx_transfer.id));
        }
    }
}

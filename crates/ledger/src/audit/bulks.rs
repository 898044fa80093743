//! The invariants of bulk transfers: their totals and their references to transfers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::core::state::Ledger;
use crate::money::bulk::{BulkItem, ItemState};
use crate::money::transfer::TransferState;

/// Checks that totals match the bulk transfers in memory. An item is open exactly while its transfer is reserved, and
/// its transfer belongs to no other bulk transfer.
pub(crate) fn check_bulks(ledger: &Ledger, findings: &mut Vec<String>) {
    let totals = ledger.bulk_totals();
    // Wide integers, because a snapshot may contain any counts.
    let ended = u128::from(totals.completed) + u128::from(totals.rejected);
    if u128::from(totals.taken) != ended + ledger.live_bulks_len() as u128 {
        findings.push(format!(
            "{} bulk transfers were accepted, but {ended} ended and {} are live",
            totals.taken,
            ledger.live_bulks_len()
        ));
    }
    for entry in ledger.bulks.live_by_age() {
        let bulk = &entry.bulk;
        let is_open = |item: &&BulkItem| item.state == ItemState::Accepted;
        let open = bulk.items.iter().filter(is_open);
        if open.clone().count() != entry.open_len() {
            findings.push(format!(
                "bulk transfer {} counts {} open items, but has {}",
                bulk.id,
                entry.open_len(),
                open.clone().count()
            ));
        }
        for item in open {
            let transfer = ledger.transfer(item.transfer);
            if !transfer.is_some_and(|transfer| transfer.state == TransferState::Reserved) {
                findings.push(format!(
                    "bulk transfer {} waits for transfer {}, which ended",
                    bulk.id, item.transfer
                ));
            }
            if ledger.bulk_of(item.transfer).is_none_or(|(owner, _)| owner.id != bulk.id) {
                findings
                    .push(format!("transfer {} is not the item of bulk transfer {}", item.transfer, bulk.id));
            }
        }
    }
}

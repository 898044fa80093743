//! Finds the journal segments that a hub no longer needs, without a running hub, for use when the disk is full.

use std::sync::Arc;

use upesi_journal::{Disk, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig};

use crate::error::StartError;

/// The first record that a start or a callback still needs. All earlier records are covered by the oldest snapshot and
/// the archive, and concern no reserved transfer, no live FX transfer and no undelivered callback. Returns 1 without
/// a sound snapshot.
///
/// Only the newest snapshot is considered, so later deliveries do not free segments yet.
///
/// # Errors
/// The disk fails, or the newest snapshot has an unknown version.
pub fn first_needed_record(disk: &Arc<dyn Disk>) -> Result<u64, StartError> {
    let store = SnapshotStore::open_for_reading(Arc::clone(disk));
    let Some(newest) = store.latest()?.snapshot else { return Ok(1) };
    let ledger = Ledger::decode_snapshot(&newest.bytes, LedgerConfig::default())
        .map_err(|source| StartError::Snapshot { seq: newest.seq, source })?;
    let oldest_snapshot = store.list()?.iter().map(|snapshot| snapshot.seq).min().unwrap_or(0);
    let owed = ledger.outbox().oldest_seq();
    let reserved = ledger.oldest_reserved_seq();
    Ok([Some(oldest_snapshot + 1), owed, reserved].into_iter().flatten().min().unwrap_or(1))
}

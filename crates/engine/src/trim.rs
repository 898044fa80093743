//! Which segments of a journal a hub can do without, found without one: the way out where the disk is full.

use std::sync::Arc;

use upesi_journal::{Disk, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig};

use crate::error::StartError;

/// The first record that a start and the callbacks still need: all before are in the oldest snapshot, in the archive,
/// and concern no reserved transfer, no live conversion and no undelivered callback. 1 where there is no sound
/// snapshot.
///
/// It is judged by the newest snapshot alone, so later deliveries free nothing yet.
///
/// # Errors
/// When the disk fails or the newest snapshot is of an unknown version.
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

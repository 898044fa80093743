//! The snapshots of a data directory, decoded, for comparison with the replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_journal::{Disk, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig, Transfer};

use super::{Findings, note_damage};
use crate::exit::Failure;

/// The sound snapshots by the record they stand for.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    ledgers: BTreeMap<u64, Ledger>,
}

impl Snapshots {
    /// Reads them all; there are only a few at a time. Unsound ones are findings.
    pub fn read(disk: &Arc<dyn Disk>, findings: &mut Findings) -> Result<Self, Failure> {
        let store = SnapshotStore::open_for_reading(Arc::clone(disk));
        let mut snapshots = Self::default();
        for info in store.list().map_err(crate::inspect::journal_failure)? {
            let snapshot = match store.read(info.seq) {
                Ok(snapshot) => snapshot,
                // A hub that is using the directory has replaced it meanwhile.
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    note_damage(error, findings)?;
                    continue;
                }
            };
            match Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default()) {
                Ok(ledger)
                    if ledger.last_seq() == info.seq && ledger.last_time().as_ns() == snapshot.time_ns =>
                {
                    snapshots.ledgers.insert(info.seq, ledger);
                }
                Ok(ledger) => {
                    findings.add(format!(
                        "{}: it holds the state of record {}",
                        info.file,
                        ledger.last_seq()
                    ));
                }
                Err(error) => findings.add(format!("{}: {error}", info.file)),
            }
        }
        Ok(snapshots)
    }

    /// The oldest snapshot at or after a record; it and older ones are no longer compared.
    pub fn take_first_from(&mut self, seq: u64) -> Option<Ledger> {
        let first = *self.ledgers.range(seq..).next()?.0;
        self.ledgers = self.ledgers.split_off(&first);
        self.ledgers.remove(&first)
    }

    /// The snapshot of a record.
    pub fn take(&mut self, seq: u64) -> Option<Ledger> {
        self.ledgers.remove(&seq)
    }

    /// Those that were not reached by the replay.
    pub fn left(&self) -> impl Iterator<Item = u64> {
        self.ledgers.keys().copied()
    }

    /// How many finished transfers the replay must keep in memory to compare with those a snapshot holds.
    pub fn finished_len_max(&self) -> usize {
        self.ledgers.values().map(Ledger::finished_len).max().unwrap_or(0)
    }
}

/// Compares a replayed state with a snapshot; `Some` says how they differ.
///
/// How many finished transfers a state still holds depends on how far the archive was at that moment and not on the
/// journal alone. So those are compared one by one, and the rest byte for byte.
pub(super) fn difference(replayed: &Ledger, mut snapshot: Ledger) -> Option<String> {
    let held: Vec<Transfer> = snapshot.drain_finished(u64::MAX).collect();
    let mut replayed = replayed.clone();
    let finished: Vec<Transfer> = replayed.drain_finished(u64::MAX).collect();
    let same_tail = finished.len() >= held.len() && finished[finished.len() - held.len()..] == held;
    if !same_tail {
        return Some("its finished transfers are not those of the journal".to_owned());
    }
    let held: Vec<_> = snapshot.take_finished_conversions(u64::MAX).collect();
    let finished: Vec<_> = replayed.take_finished_conversions(u64::MAX).collect();
    if !finished.ends_with(&held) {
        return Some("its ended conversions are not those of the journal".to_owned());
    }
    let held: Vec<_> = snapshot.take_finished_bulks(u64::MAX).collect();
    let finished: Vec<_> = replayed.take_finished_bulks(u64::MAX).collect();
    if !finished.ends_with(&held) {
        return Some("its ended bulks are not those of the journal".to_owned());
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    replayed.encode_snapshot(&mut left);
    snapshot.encode_snapshot(&mut right);
    if left == right {
        return None;
    }
    let at = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    Some(format!("the state replayed from the journal differs from it at byte {at}"))
}

//! The snapshots of a data directory, decoded, for comparison with the replay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use upesi_journal::{Disk, SnapshotStore};
use upesi_ledger::{Ledger, LedgerConfig, Transfer};
use upesi_process::exit::Failure;

use super::findings::{Findings, note_damage};

/// The valid snapshots by their record.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    ledgers: BTreeMap<u64, Ledger>,
}

impl Snapshots {
    /// Reads all snapshots; there are only a few. Invalid ones are findings.
    pub fn read(disk: &Arc<dyn Disk>, findings: &mut Findings) -> Result<Self, Failure> {
        let store = SnapshotStore::open_for_reading(Arc::clone(disk));
        let mut snapshots = Self::default();
        for info in store.list().map_err(crate::directory::journal_failure)? {
            let snapshot = match store.read(info.seq) {
                Ok(snapshot) => snapshot,
                // A running hub has replaced it meanwhile.
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

    /// Snapshots that the replay did not reach.
    pub fn left(&self) -> impl Iterator<Item = u64> {
        self.ledgers.keys().copied()
    }

    /// Number of finished transfers that the replay must keep in memory for the comparison with snapshots.
    pub fn finished_len_max(&self) -> usize {
        self.ledgers.values().map(Ledger::finished_len).max().unwrap_or(0)
    }
}

/// Compares a replayed state with a snapshot; `Some` describes the difference.
///
/// The number of finished transfers in a state depends on the progress of the archive at that moment, and not only on
/// the journal. So these transfers are compared one by one, and all other parts byte for byte.
pub(super) fn difference(replayed: &Ledger, mut snapshot: Ledger) -> Option<String> {
    let held: Vec<Transfer> = snapshot.drain_finished(u64::MAX).collect();
    let mut replayed = replayed.clone();
    let finished: Vec<Transfer> = replayed.drain_finished(u64::MAX).collect();
    let same_tail = finished.len() >= held.len() && finished[finished.len() - held.len()..] == held;
    if !same_tail {
        return Some("its finished transfers differ from the journal".to_owned());
    }
    let held: Vec<_> = snapshot.take_finished_fx_transfers(u64::MAX).collect();
    let finished: Vec<_> = replayed.take_finished_fx_transfers(u64::MAX).collect();
    if !finished.ends_with(&held) {
        return Some("its ended FX transfers differ from the journal".to_owned());
    }
    let held: Vec<_> = snapshot.take_finished_bulks(u64::MAX).collect();
    let finished: Vec<_> = replayed.take_finished_bulks(u64::MAX).collect();
    if !finished.ends_with(&held) {
        return Some("its ended bulk transfers differ from the journal".to_owned());
    }
    if !ends_with_links(&replayed, &snapshot) {
        return Some("its ended links differ from the journal".to_owned());
    }
    replayed.forget_ended_links();
    snapshot.forget_ended_links();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    replayed.encode_snapshot(&mut left);
    snapshot.encode_snapshot(&mut right);
    if left == right {
        return None;
    }
    let at = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    Some(format!("the state replayed from the journal differs from it at byte {at}"))
}

/// Whether a snapshot has the newest ended links of the journal. It may lack older ones if its state derives from a
/// snapshot of a version that did not record them.
pub(super) fn ends_with_links(replayed: &Ledger, snapshot: &Ledger) -> bool {
    let held: BTreeSet<_> = snapshot.ended_links().collect();
    let oldest = held.iter().map(|(.., seq)| *seq).min();
    let all: BTreeSet<_> = replayed.ended_links().collect();
    oldest.is_none_or(|oldest| held.iter().eq(all.iter().filter(|(.., seq)| *seq >= oldest)))
}

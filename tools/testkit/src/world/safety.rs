//! Safety: checked at every start, after every fault, and at the end.

use std::mem;
use std::sync::Arc;

use upesi_journal::Disk;
use upesi_journal::sim_disk::{Fault, Strike};

use super::World;

/// So many checks after faults have one among them that replays the journal.
const REPLAY_EVERY: u64 = 4;

impl World {
    /// Something goes wrong, and safety is to be checked.
    pub(super) const fn note_fault(&mut self) {
        self.counts.faults += 1;
        self.faults_unchecked += 1;
    }

    /// After each event: whether a fault that was prepared has befallen something, and the check that faults call for,
    /// at the first moment when the ledger and what is durable are at the same record.
    pub(super) fn watch_safety(&mut self) {
        let befallen = self.disk.befallen() + self.archive.befallen();
        if befallen > self.befallen {
            self.befallen = befallen;
            self.note_fault();
            self.note_strikes();
            self.note_deceptions();
        }
        if self.faults_unchecked > 0 && self.is_at_rest() {
            self.compare((self.counts.checks + 1).is_multiple_of(REPLAY_EVERY));
        }
    }

    /// Counts what the faults of the disk have befallen since the last time, by their kind.
    pub(super) fn note_strikes(&mut self) {
        let strikes = self.disk.strikes();
        for strike in &strikes[self.strikes_seen..] {
            let count = match strike {
                Strike::Operation { ordinal, fault: Fault::Crash } if self.start_cut_at == Some(*ordinal) => {
                    &mut self.counts.starts_cut_off
                }
                Strike::Operation { fault: Fault::Crash, .. } => &mut self.counts.crashes_at_operation,
                Strike::Operation { .. } => &mut self.counts.broken_operations,
                Strike::Read { .. } => &mut self.counts.broken_reads,
            };
            *count += 1;
        }
        self.strikes_seen = strikes.len();
    }

    /// Whether the hub runs, and the ledger, the journal and the auditor's books are at the same record.
    fn is_at_rest(&self) -> bool {
        self.hub.as_ref().is_some_and(|hub| {
            let durable_seq = hub.durable_seq();
            hub.ledger().last_seq() == durable_seq && self.auditor.last_seq() == durable_seq
        })
    }

    /// Safety, now: the ledger against the auditor's books, and everything acknowledged is there.
    pub(super) fn compare(&mut self, replays: bool) {
        let is_at_rest = self.is_at_rest();
        let Some(hub) = &self.hub else { return };
        self.auditor.compare(hub.ledger());
        self.auditor.compare_acknowledged(hub.ledger(), &*self.archive);
        self.auditor.compare_removed(&*self.archive, self.retention.removed_to);
        if !is_at_rest {
            return;
        }
        self.counts.checks += 1;
        self.counts.faults_checked += mem::take(&mut self.faults_unchecked);
        // What the medium has not kept cannot be replayed, and what is rotten may be found here first.
        if replays && self.disk.lies().is_empty() {
            self.counts.replays_compared += 1;
            let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
            self.auditor.compare_replay(&disk, hub.ledger(), self.is_rotten);
        }
    }
}

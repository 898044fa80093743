//! Safety is checked at every start and after every fault. At the end the faults stop, everything that was accepted
//! finishes, all parties learn the outcomes, and the books are compared.

use std::mem;
use std::sync::Arc;

use upesi_journal::Disk;
use upesi_journal::sim_disk::{DiskFault, FaultedOperation};

use super::World;
use super::event::Event;
use super::phase::Phase;
use crate::auditor::ObservedRequest;
use crate::clock::true_time;
use crate::hub::Hub;
use crate::message;

/// Interval between queries for unknown outcomes.
const ASK_PAUSE_US: u64 = 1_000_000;
/// Maximum number of simultaneous queries.
const QUESTIONS_MAX: usize = 64;

impl World {
    /// Ends all faults, perhaps with one more crash.
    pub(super) fn heal(&mut self) {
        self.say(format_args!("faults stop"));
        self.phase = Phase::Finishing;
        self.clock.heal();
        self.archive.heal();
        self.disk.set_capacity(u64::MAX);
        for dfsp in &mut self.dfsps {
            (dfsp.dead_until_us, dfsp.slow_until_us, dfsp.failing_until_us) = (0, 0, 0);
        }
        self.disk.clear_faults();
        self.heal_nodes();
        // A restart would hide data that this process has forgotten. So some worlds end without a restart.
        if self.hub.is_some() && self.random.one_in(2) {
            self.end_process();
        }
        self.operator_heals();
        self.after(ASK_PAUSE_US, Event::Ask);
    }

    /// DFSPs query the transfers whose outcome they do not know, and the operator sends parked callbacks again. When no
    /// query is left, the world ends.
    pub(super) fn ask(&mut self) {
        self.after(ASK_PAUSE_US, Event::Ask);
        self.operator_recalls();
        self.operator_ends_reservations();
        self.operator_accepts_clock();
        let is_live = self.auditor.live_fx_transfers() > 0 || self.auditor.live_bulks() > 0;
        if self.auditor.reserved() > 0 || is_live || self.hub.is_none() {
            return;
        }
        let unknown: Vec<_> = (0..self.specs.len()).filter(|spec| !self.is_settled(*spec)).collect();
        for spec in unknown.iter().take(QUESTIONS_MAX) {
            if self.ask_for_bulk(*spec) {
                continue;
            }
            let spec = self.specs[*spec];
            let request = message::get(spec.id, spec.payer, true_time(self.now_us));
            self.send(spec.payer, request, ObservedRequest::Get, 1);
        }
        // The requests of retention are decided before the last comparison.
        let hub_rests = self.hub.as_ref().is_none_or(|hub| !hub.waits());
        let rests = hub_rests
            && self.auditor.owed() == self.withheld()
            && self.calls.is_empty()
            && self.operator_is_idle();
        if unknown.is_empty() && rests && self.settlement_rests() {
            self.conclude();
        }
    }

    /// Whether a payer knows the outcome of its transfer, or that the hub never accepted it.
    fn is_settled(&mut self, spec: usize) -> bool {
        let spec = self.specs[spec];
        let told = self.auditor.outside.told_of(spec.id, spec.payer);
        if told.unknown && self.auditor.knows(spec.id) && !told.is_final {
            // The query may have arrived before the transfer.
            self.auditor.outside.told(spec.id, spec.payer, |told| told.unknown = false);
            return false;
        }
        told.is_final || told.unknown
    }

    /// The unfinished items of a world that does not come to rest.
    pub(super) fn unfinished(&mut self) -> String {
        let unknown = (0..self.specs.len()).filter(|spec| !self.is_settled(*spec)).count();
        format!(
            "{} transfers and {} conversions are reserved, {} bulks live, {} callbacks owed ({} parked), {unknown} ends unknown, {} calls open, \
             hub {}",
            self.auditor.reserved(),
            self.auditor.live_fx_transfers(),
            self.auditor.live_bulks(),
            self.auditor.owed(),
            self.auditor.parked().len(),
            self.calls.len(),
            if self.hub.is_some() { "runs" } else { "is down" },
        )
    }

    /// Makes the last comparisons: now, after an orderly shutdown, and after one more start.
    fn conclude(&mut self) {
        self.say(format_args!("the world ends"));
        self.phase = Phase::Over;
        self.counts.rot_withheld = u64::from(self.auditor.owed() > 0);
        self.compare(true);
        let Some(hub) = self.hub.take() else { return };
        if self.counts.clock_faults() > 0 || self.began_again() {
            // The hub's time may have been before the start of the fee rules.
            self.auditor.outside.fees = &[];
        }
        let (ledger, dfsps) = (hub.ledger(), self.locals());
        self.auditor.compare_outcome(ledger, &self.specs, self.exchange.specs(), dfsps);
        let ledger = hub.ledger().clone();
        Hub::shutdown(hub);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
        self.auditor.read_journal(&disk, ledger.last_seq());
        if self.disk.lies().is_empty() {
            self.auditor.compare_replay(&disk, &ledger, self.is_rotten);
        }
        self.compare_nodes(&ledger);
        self.auditor.process_ended();
        self.life += 1;
        self.start_process();
        self.pardon_rot();
        if self.counts.rot_found > 0 {
            return;
        }
        self.compare(true);
        self.counts.rot_harmless = u64::from(self.is_rotten);
        if self.hub.as_ref().is_none_or(|hub| hub.ledger().last_seq() != ledger.last_seq()) {
            self.auditor.findings.add("I7: an orderly restart does not restore the state".to_owned());
        }
    }
}

/// One check after a fault in this many replays the journal.
const REPLAY_EVERY: u64 = 7;

impl World {
    /// Notes a fault. A safety check follows it.
    pub(super) const fn note_fault(&mut self) {
        self.counts.faults += 1;
        self.faults_unchecked += 1;
    }

    /// Called after each event: notes whether a prepared fault has occurred, and makes the checks that faults require,
    /// as soon as the ledger and the durable records are at the same record.
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

    /// Counts the disk faults that have occurred since the last call, by kind.
    pub(super) fn note_strikes(&mut self) {
        let strikes = self.disk.strikes();
        for strike in &strikes[self.strikes_seen..] {
            let count = match strike {
                FaultedOperation::Operation { ordinal, fault: DiskFault::Crash }
                    if self.start_cut_at == Some(*ordinal) =>
                {
                    &mut self.counts.starts_cut_off
                }
                FaultedOperation::Operation { fault: DiskFault::Crash, .. } => {
                    &mut self.counts.crashes_at_operation
                }
                FaultedOperation::Operation { .. } => &mut self.counts.broken_operations,
                FaultedOperation::Read { .. } => &mut self.counts.broken_reads,
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

    /// Checks safety now: compares the ledger with the auditor's books, and checks that everything acknowledged is
    /// present.
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
        // Data that the medium has lost cannot be replayed, and damage may be detected here first.
        if replays && self.disk.lies().is_empty() {
            self.counts.replays_compared += 1;
            let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
            self.auditor.compare_replay(&disk, hub.ledger(), self.is_rotten);
        }
    }
}

//! The end: faults stop, everything that was accepted finishes, everybody learns how, and the books are compared.

use std::sync::Arc;

use upesi_journal::Disk;

use super::World;
use super::event::Event;
use crate::auditor::Seen;
use crate::clock::true_time;
use crate::hub::Hub;
use crate::message;

/// How often DFSPs ask for what they do not know yet.
const ASK_PAUSE_US: u64 = 1_000_000;
/// Questions that are sent at once.
const QUESTIONS_MAX: usize = 64;

/// Where the world stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Things go wrong.
    Trouble,
    /// They do not any more; what was accepted finishes.
    Finishing,
    /// It is over.
    Over,
}

impl World {
    /// From now on nothing goes wrong, after one more crash perhaps.
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
        // A restart would hide what this process has forgotten; where there is none, it would not be seen to come back.
        if self.hub.is_some() && self.random.one_in(2) {
            self.end_process();
        }
        self.operator_heals();
        self.after(ASK_PAUSE_US, Event::Ask);
    }

    /// DFSPs ask for the transfers whose end they do not know; the operator sends parked callbacks again. When nothing
    /// is left to ask, the world ends.
    pub(super) fn ask(&mut self) {
        self.after(ASK_PAUSE_US, Event::Ask);
        self.operator_recalls();
        self.operator_ends_reservations();
        self.operator_accepts_clock();
        let is_live = self.auditor.live_conversions() > 0 || self.auditor.live_bulks() > 0;
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
            self.send(spec.payer, request, Seen::Get, 1);
        }
        let rests =
            self.auditor.owed() == self.withheld() && self.calls.is_empty() && self.operator_is_idle();
        if unknown.is_empty() && rests && self.settlement_rests() {
            self.conclude();
        }
    }

    /// Whether a payer knows how its transfer ended, or that the hub never took it.
    fn is_settled(&mut self, spec: usize) -> bool {
        let spec = self.specs[spec];
        let told = self.auditor.outside.told_of(spec.id, spec.payer);
        if told.unknown && self.auditor.knows(spec.id) && !told.is_final {
            // It may have been asked about before it arrived.
            self.auditor.outside.told(spec.id, spec.payer, |told| told.unknown = false);
            return false;
        }
        told.is_final || told.unknown
    }

    /// What is left, for a world that does not finish.
    pub(super) fn unfinished(&mut self) -> String {
        let unknown = (0..self.specs.len()).filter(|spec| !self.is_settled(*spec)).count();
        format!(
            "{} transfers and {} conversions are reserved, {} bulks live, {} callbacks owed ({} parked), {unknown} ends unknown, {} calls open, \
             hub {}",
            self.auditor.reserved(),
            self.auditor.live_conversions(),
            self.auditor.live_bulks(),
            self.auditor.owed(),
            self.auditor.parked().len(),
            self.calls.len(),
            if self.hub.is_some() { "runs" } else { "is down" },
        )
    }

    /// The last comparisons: now, after an end in order, and after one more start.
    fn conclude(&mut self) {
        self.say(format_args!("the world ends"));
        self.phase = Phase::Over;
        self.counts.rot_withheld = u64::from(self.auditor.owed() > 0);
        self.compare(true);
        let Some(hub) = self.hub.take() else { return };
        if self.counts.clock_faults() > 0 {
            // The hub's time may have been before that from which rules for fees apply.
            self.auditor.outside.fees = &[];
        }
        self.auditor.compare_outcome(hub.ledger(), (&self.specs, self.exchange.specs()), self.locals());
        let ledger = hub.ledger().clone();
        Hub::shutdown(hub);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
        self.auditor.read_journal(&disk, ledger.last_seq());
        if self.disk.lies().is_empty() {
            self.auditor.compare_replay(&disk, &ledger, self.is_rotten);
        }
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
            self.auditor.findings.add("I7: a restart in order does not bring the state back".to_owned());
        }
    }
}

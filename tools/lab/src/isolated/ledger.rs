//! The ledger alone: deciding and folding, in memory, on this thread. There is no queue, no journal and no answers.

use std::time::Instant;

use upesi_engine::{Clock as _, SystemClock};
use upesi_ledger::{AdminCommand, Archived, Callback, Command, Decision, Facts, Ledger, LedgerConfig, Reply};
use upesi_types::Timestamp;

use super::measurement::{Measurement, ThreadTimes, nanosecond_histogram, record, timed_stage};
use super::scheme::Scheme;
use super::{Context, IsolatedError};
use crate::plan::stage::ledger::Settings;

/// The configuration of ledgers and engines that are fed: streams expire in 2099.
pub(super) fn config() -> LedgerConfig {
    LedgerConfig { transfer_validity_max_ms: i64::MAX, ..LedgerConfig::default() }
}

/// A ledger that is its own journal: every decision is folded at once.
pub(super) struct Folded {
    pub ledger: Ledger,
    decision: Decision,
    now: Timestamp,
}

impl Folded {
    pub fn onboarded(scheme: &Scheme) -> Result<Self, IsolatedError> {
        let now = SystemClock.now();
        let mut folded = Self { ledger: Ledger::new(config()), decision: Decision::default(), now };
        folded.operate(scheme.setup())?;
        let funds = scheme.funds(&folded.ledger);
        folded.operate(funds)?;
        Ok(folded)
    }

    fn operate(&mut self, commands: Vec<AdminCommand>) -> Result<(), IsolatedError> {
        for command in commands {
            self.decide(&Command::Admin(command));
            if let Reply::Admin(Err(refusal)) = &self.decision.reply {
                let reason = upesi_admin::rejection::describe(refusal);
                return Err(IsolatedError::Refused { what: "an operator's command", reason });
            }
        }
        Ok(())
    }

    /// Decides a command whose transfer is not in the archive, and folds the decision into the state.
    pub fn decide(&mut self, command: &Command) {
        self.now = Timestamp::from_ns(self.now.as_ns() + 1);
        self.decision.clear();
        self.ledger.decide(command, &Facts::new(self.now.into(), &Archived::Absent), &mut self.decision);
        if !self.decision.is_empty() {
            let Decision { events, callbacks, .. } = &mut self.decision;
            self.ledger.evolve(self.ledger.last_seq() + 1, self.now, events.drain(..), callbacks);
        }
    }

    /// The callbacks that the last decision owes.
    pub fn take_callbacks(&mut self) -> Vec<Callback> {
        std::mem::take(&mut self.decision.callbacks)
    }
}

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.kind)?;
        let count = self.source.messages;
        let (reserved, measured) = stream.decode_behind(self.kind, count)?;
        let [reserved, measured] = [reserved, measured]
            .map(|ready| ready.into_iter().map(|ready| ready.command).collect::<Vec<Command>>());
        let scheme = Scheme::of(&stream, None)?;
        let mut measurement = Measurement::new(self.kind.name(), "a ledger in this process");
        measurement.fed_with(&stream);
        for _ in 0..self.repetitions {
            let mut folded = Folded::onboarded(&scheme)?;
            reserved.iter().for_each(|command| folded.decide(command));
            let before = ThreadTimes::now();
            let mut latency_ns = nanosecond_histogram();
            let started = Instant::now();
            let mut last = started;
            for command in &measured {
                folded.decide(command);
                // One reading of the clock ends one decision and starts the next.
                let now = Instant::now();
                record(&mut latency_ns, now - last);
                last = now;
            }
            let used = before.since();
            let done = self.kind.done(&folded.ledger);
            measurement.failed += (count as u64).saturating_sub(done);
            measurement.repeat(last - started, done, &latency_ns, &used);
        }
        let wall = measurement.took();
        measurement.stages = vec![timed_stage("position", &measurement.latency_ns, wall)];
        Ok(measurement)
    }
}

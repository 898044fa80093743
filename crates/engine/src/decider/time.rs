//! The time of decisions, the guarded clock, and the ticks that expire transfers.

use std::mem;
use std::time::{Duration, Instant};

use upesi_ledger::{AdminCommand, AdminOutcome, Archived, Command, Ledger, Reply};
use upesi_types::{Present, Timestamp};

use super::Decider;
use crate::clock::Clock as _;
use crate::commit_thread::CommitThread;
use crate::record::Payload;

/// Maximum lead of a record's time over the clock, in milliseconds, without an event that states the clock's time.
/// Times on the wire are not finer.
const STAMP_AHEAD_MS: i64 = 1;

/// The times when deadlines are checked.
pub(crate) enum Ticks {
    /// The first tick is at this instant, the following ones at intervals.
    At(Instant),
    /// Ticks come only on request.
    Asked(bool),
}

impl Ticks {
    pub(super) fn is_due(&self) -> bool {
        match self {
            Self::At(instant) => Instant::now() >= *instant,
            Self::Asked(is_due) => *is_due,
        }
    }

    /// Sets the next check: immediately or after the interval.
    pub(super) fn rearm(&mut self, at_once: bool, interval: Duration) {
        match self {
            Self::At(instant) => *instant = Instant::now() + if at_once { Duration::ZERO } else { interval },
            Self::Asked(is_due) => *is_due = at_once,
        }
    }
}

/// The two times of a decision.
pub(super) struct DecisionTime {
    /// The time of the record, later than the previous record's time.
    pub(super) record: Timestamp,
    /// The time of the decision, by the hub's clock.
    pub(super) present: Present,
}

impl<H: CommitThread> Decider<H> {
    /// The present, and the time for its record, which is later than the last record's time. If that time is ahead of
    /// the clock, records advance by the smallest step, and deadlines use the clock.
    pub(super) fn moment(&self) -> DecisionTime {
        let present = self.shared.clock.present();
        let next = Timestamp::from_ns(self.ledger.last_time().as_ns().saturating_add(1));
        let record = present.at.max(next);
        if record.ms_since(present.at) >= STAMP_AHEAD_MS {
            return DecisionTime { record, present };
        }
        DecisionTime {
            record,
            present: Present { at: record, latest: present.latest.max(record), ..present },
        }
    }

    /// The jump of the wall clock that an operator's command accepts, in milliseconds; 0 for every other command.
    pub(super) fn jump_to_accept(&self, command: &Command) -> i64 {
        match command.admin() {
            Some(AdminCommand::AcceptClock { .. }) => {
                self.shared.clock.compare(self.ledger.last_time()).jump_ms
            }
            _ => 0,
        }
    }

    /// After an operator accepted a jump, the hub follows the wall clock.
    pub(super) fn follow_accepted(&mut self, command: &Command, reply: &Reply) {
        let Some(AdminCommand::AcceptClock { .. }) = command.admin() else { return };
        if reply.clone().into_outcome() == Some(Ok(AdminOutcome::Done)) {
            self.shared.clock.accept();
            self.compare_clocks();
        }
    }

    /// Compares the clocks and logs a change.
    fn compare_clocks(&mut self) {
        let state = self.shared.clock.compare(self.ledger.last_time());
        let before = mem::replace(&mut self.clock_state, state);
        state.report_change_from(before);
        self.metrics.clock_jump_seconds.set(state.jump_seconds());
        self.metrics.clock_ahead_seconds.set(state.ahead_seconds());
    }

    /// Ends everything whose deadline has passed, with a limit per turn. If more is due, the next turn follows
    /// immediately.
    pub(super) fn tick(&mut self, has_room: bool) {
        self.compare_clocks();
        let now = self.moment().present.at;
        self.ticks.rearm(false, self.options.tick_interval);
        if !has_room {
            return self.observe();
        }
        let is_due = |ledger: &Ledger| ledger.next_deadline().is_some_and(|deadline| deadline < now);
        if is_due(&self.ledger) {
            self.decide(&Command::Tick, &Archived::Absent, Payload::default());
        }
        if is_due(&self.ledger) {
            self.ticks.rearm(true, self.options.tick_interval);
        }
        self.observe();
    }
}

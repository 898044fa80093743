//! Reports of a follower to the leader: the outcomes of the callbacks that it delivers, and that it is alive.
//!
//! A report may be lost, with the leader or on the way. So the node retains each outcome until it has read its record
//! in the journal, and reports it again after a while.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use upesi_ledger::{CallbackKey, Command, Ledger, ParticipantId};

/// Time after which a report should have been recorded and read.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of outcomes in one report.
const ENDS_MAX: usize = 1_024;

/// A report, as it is sent between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of the reporting node.
    pub node: u32,
    /// Whether the node delivers callbacks; false while it stops or is behind.
    pub delivers: bool,
    ends: Vec<CallbackOutcome>,
}

/// Outcome of a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CallbackOutcome {
    participant: u32,
    record: u64,
    index: u8,
    /// Number of attempts and reason if it was parked; `None` if it was delivered.
    parked: Option<(u32, Box<str>)>,
}

impl CallbackOutcome {
    fn of(key: CallbackKey, parked: Option<(u32, Box<str>)>) -> Self {
        Self { participant: key.target.number(), record: key.seq, index: key.index, parked }
    }

    fn key(&self) -> Option<CallbackKey> {
        let target = ParticipantId::new(self.participant)?;
        Some(CallbackKey { target, seq: self.record, index: self.index })
    }

    /// Whether the journal does not contain it, as far as it was read.
    fn is_missing(&self, ledger: &Ledger) -> bool {
        let owed = self.key().and_then(|key| ledger.outbox().get(key).map(|entry| entry.parked.is_some()));
        owed.is_some_and(|is_parked| self.parked.is_none() || !is_parked)
    }
}

impl Report {
    /// Encodes the report.
    pub fn write(&self) -> Vec<u8> {
        // Writing numbers and texts cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes a report; `None` if the bytes are not one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let report: Self = serde_json::from_slice(bytes).ok()?;
        report.ends.iter().all(|end| end.key().is_some()).then_some(report)
    }

    /// The commands that record its outcomes.
    pub fn commands(self) -> Vec<Command> {
        let (mut delivered, mut commands) = (Vec::new(), Vec::new());
        for end in self.ends {
            match (end.key(), end.parked) {
                (Some(key), None) => delivered.push(key),
                (Some(key), Some((attempts, reason))) => {
                    commands.push(Command::Park { key, attempts, reason });
                }
                (None, _) => {}
            }
        }
        if !delivered.is_empty() {
            commands.push(Command::Delivered(delivered));
        }
        commands
    }
}

/// The outcomes that a node has to report.
#[derive(Debug, Default)]
pub struct Reports {
    state: Mutex<State>,
    noted: Notify,
}

#[derive(Debug, Default)]
struct State {
    to_tell: VecDeque<CallbackOutcome>,
    /// Ordered by the time of the report, the oldest first.
    told: VecDeque<(Instant, CallbackOutcome)>,
}

impl Reports {
    /// Records the report of a lane.
    pub(super) fn note(&self, command: Command) {
        let mut state = self.state();
        match command {
            Command::Delivered(keys) => {
                state.to_tell.extend(keys.into_iter().map(|key| CallbackOutcome::of(key, None)))
            }
            Command::Park { key, attempts, reason } => {
                state.to_tell.push_back(CallbackOutcome::of(key, Some((attempts, reason))));
            }
            _ => {}
        }
        drop(state);
        self.noted.notify_one();
    }

    /// Waits until there is something to report. Only one task may wait.
    pub async fn noted(&self) {
        if !self.has_more() {
            self.noted.notified().await;
        }
    }

    /// Ends [`Self::noted`].
    pub fn wake(&self) {
        self.noted.notify_one();
    }

    /// Number of outcomes that the leader has not recorded, as far as this node knows.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.to_tell.len() + state.told.len()
    }

    /// Whether all are recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is something to report now.
    pub fn has_more(&self) -> bool {
        !self.state().to_tell.is_empty()
    }

    /// The next report. Pass it to [`Self::told`] or [`Self::keep`] afterwards.
    pub fn next(&self, node: u32, delivers: bool) -> Report {
        let mut state = self.state();
        let count = state.to_tell.len().min(ENDS_MAX);
        Report { node, delivers, ends: state.to_tell.drain(..count).collect() }
    }

    /// Records that the leader has received it.
    pub fn told(&self, report: Report, now: Instant) {
        self.state().told.extend(report.ends.into_iter().map(|end| (now, end)));
    }

    /// Records that no node accepted it.
    pub fn keep(&self, report: Report) {
        let mut state = self.state();
        for end in report.ends.into_iter().rev() {
            state.to_tell.push_front(end);
        }
    }

    /// The outcomes that were reported so long ago that the journal should contain them. Call [`Self::report_again`]
    /// afterwards.
    pub fn take_old(&self, now: Instant) -> ReportedOutcomes {
        let mut state = self.state();
        let old = state.told.iter().take_while(|(at, _)| now >= *at + TOLD_AGAIN_AFTER).count();
        ReportedOutcomes(state.told.drain(..old).map(|(_, end)| end).collect())
    }

    /// Reports again the outcomes that the journal does not contain.
    pub fn report_again(&self, told: ReportedOutcomes) {
        if !told.0.is_empty() {
            self.state().to_tell.extend(told.0);
            self.noted.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcomes that were reported a while ago.
#[derive(Clone, Debug, Default)]
pub struct ReportedOutcomes(Vec<CallbackOutcome>);

impl ReportedOutcomes {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The outcomes that the journal does not contain.
    #[must_use]
    pub fn missing(self, ledger: &Ledger) -> Self {
        Self(self.0.into_iter().filter(|end| end.is_missing(ledger)).collect())
    }
}

#[cfg(test)]
mod tests {
    use upesi_ledger::{Callback, CallbackContent, LedgerConfig, ResourceId, Subject};
    use upesi_types::Timestamp;

    use super::*;

    fn key(seq: u64) -> CallbackKey {
        CallbackKey { target: ParticipantId::HUB, seq, index: 0 }
    }

    fn park(seq: u64) -> Command {
        Command::Park { key: key(seq), attempts: 3, reason: "answered 500".into() }
    }

    /// The content of a report.
    fn shown(report: Report) -> Vec<String> {
        report.commands().iter().map(|command| format!("{command:?}")).collect()
    }

    /// A ledger with undelivered callbacks of these records.
    fn owing(records: &[u64]) -> Ledger {
        let mut ledger = Ledger::new(LedgerConfig::default());
        let callback = Callback {
            target: ParticipantId::HUB,
            subject: Subject::transfer(ResourceId::Text("t".into())),
            content: CallbackContent::ConfirmFulfil,
        };
        for seq in records {
            ledger.evolve(*seq, Timestamp::from_ms(*seq as i64), [], std::slice::from_ref(&callback));
        }
        ledger
    }

    #[test]
    fn report_round_trips() {
        let reports = Reports::default();
        reports.note(park(9));
        reports.note(Command::Delivered(vec![key(7), key(8)]));
        let report = reports.next(2, true);
        assert_eq!(Report::read(&report.write()), Some(report.clone()));
        assert_eq!((report.node, report.delivers), (2, true));
        let expected = [park(9), Command::Delivered(vec![key(7), key(8)])];
        assert_eq!(shown(report), expected.map(|command| format!("{command:?}")));
        for bytes in
            ["", "{}", r#"{"node":1,"delivers":true,"ends":[{"participant":0,"record":1,"index":0}]}"#]
        {
            assert_eq!(Report::read(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn unaccepted_report_is_repeated_in_the_same_order() {
        let reports = Reports::default();
        reports.note(Command::Delivered((1..=ENDS_MAX as u64 + 1).map(key).collect()));
        let first = reports.next(2, true);
        assert!(reports.has_more());
        reports.keep(first.clone());
        assert_eq!(reports.next(2, true), first);
        assert_eq!(shown(reports.next(2, true)), [format!("{:?}", Command::Delivered(vec![key(1_025)]))]);
        assert!(!reports.has_more());
    }

    #[test]
    fn unrecorded_outcomes_are_reported_again() {
        let (reports, now) = (Reports::default(), Instant::now());
        reports.note(Command::Delivered(vec![key(1), key(2)]));
        reports.note(park(3));
        reports.note(park(4));
        let report = reports.next(2, true);
        reports.told(report, now);
        let early = now + TOLD_AGAIN_AFTER - Duration::from_millis(1);
        assert!(reports.take_old(early).is_empty() && reports.len() == 4);
        // Recorded in the meantime: 1 is delivered, and 3 is parked.
        let mut ledger = owing(&[1, 2, 3, 4]);
        for command in [Command::Delivered(vec![key(1)]), park(3)] {
            let mut decision = upesi_ledger::Decision::default();
            let at = ledger.last_time().plus_ms(1);
            ledger.decide(&command, &upesi_ledger::DecisionInput::at(at), &mut decision);
            ledger.evolve(ledger.last_seq() + 1, at, decision.events, &[]);
        }
        reports.report_again(reports.take_old(now + TOLD_AGAIN_AFTER).missing(&ledger));
        let again = [park(4), Command::Delivered(vec![key(2)])];
        assert_eq!(shown(reports.next(2, true)), again.map(|command| format!("{command:?}")));
        assert!(reports.is_empty());
    }
}

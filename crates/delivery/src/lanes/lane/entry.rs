//! A callback in the lane, and the outcome of its attempts.

use std::sync::Arc;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use crate::lanes::callback::{OwedCallback, Refusal, Repetition};

/// Reason of a failed attempt.
pub(super) type Reason = Arc<str>;

/// The attempts at a callback so far.
#[derive(Clone, Debug)]
pub(super) struct AttemptHistory {
    /// Time of its first arrival in the lane.
    pub(super) since: Instant,
    pub(super) attempts: u32,
    /// Start of the first attempt.
    pub(super) first_at: Option<Instant>,
    /// The end of all attempts. Set with the first one.
    pub(super) deadline: Option<Instant>,
    /// Reason of the last failed attempt.
    pub(super) reason: Option<Reason>,
    /// Whether the last attempt was answered.
    pub(super) was_refused: bool,
}

impl AttemptHistory {
    pub(super) const fn none(since: Instant) -> Self {
        Self { since, attempts: 0, first_at: None, deadline: None, reason: None, was_refused: false }
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// A callback in the lane.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) callback: OwedCallback,
    pub(super) tries: AttemptHistory,
    /// Whether this attempt probes if the DFSP is available again.
    pub(super) is_probe: bool,
    /// Whether this attempt tests if the DFSP accepts new callbacks again.
    pub(super) is_trial: bool,
}

impl Entry {
    pub(super) const fn new(callback: OwedCallback, tries: AttemptHistory) -> Self {
        Self { callback, tries, is_probe: false, is_trial: false }
    }

    /// Whether there was an attempt before the current one.
    pub(super) const fn is_repeated(&self) -> bool {
        self.tries.attempts > 1
    }
}

/// A callback that a slot is sending.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) key: CallbackKey,
    /// Number of completed attempts, without this one.
    pub(super) attempts: u32,
    pub(super) first_at: Instant,
    pub(super) reason: Option<Reason>,
    pub(super) was_refused: bool,
}

/// Outcome of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// Answered, but not with 2xx.
    Refused(Refusal),
    /// Not answered.
    Unreachable(String),
    /// Cannot be sent at all, or need not be sent any longer.
    Unroutable(String),
}

impl Outcome {
    /// Answered with an error that may be temporary.
    #[cfg(test)]
    pub(super) fn refused(reason: &str) -> Self {
        let repetition = Repetition::UntilDeadline;
        Self::Refused(Refusal { reason: reason.to_owned(), repetition, retry_after: None })
    }

    /// The failure, if the callback was not delivered.
    pub(super) fn failure(self) -> Option<Failure> {
        let (reason, repetition, is_answered) = match self {
            Self::Delivered => return None,
            Self::Refused(Refusal { reason, repetition, .. }) => (reason, Some(repetition), true),
            Self::Unreachable(reason) => (reason, Some(Repetition::UntilDeadline), false),
            Self::Unroutable(reason) => (reason, None, false),
        };
        Some(Failure { reason, repetition, is_answered })
    }
}

/// A failed attempt.
pub(super) struct Failure {
    pub(super) reason: String,
    /// `None`: the attempt is not repeated.
    pub(super) repetition: Option<Repetition>,
    /// Whether the DFSP answered.
    pub(super) is_answered: bool,
}

/// A callback that is given up.
#[derive(Debug, PartialEq, Eq)]
pub struct ParkedCallback {
    pub key: CallbackKey,
    /// The reason of the last failure.
    pub reason: String,
    pub attempts: u32,
}

/// Actions for the tasks of a lane.
#[derive(Debug, Default)]
pub(super) struct LaneActions {
    pub(super) parked: Vec<ParkedCallback>,
    pub(super) delivered: Vec<CallbackKey>,
    /// The keeper has new work or a new due time.
    pub(super) wake_keeper: bool,
    pub(super) fell_behind: bool,
}

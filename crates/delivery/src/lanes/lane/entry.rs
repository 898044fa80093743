//! A callback in the lane, and the outcome of its attempts.

use std::sync::Arc;

use tokio::time::Instant;
use upesi_ledger::CallbackKey;

use crate::lanes::callback::{OwedCallback, Refusal, Repetition};

/// Why an attempt failed.
pub(super) type Reason = Arc<str>;

/// The attempts at a callback so far.
#[derive(Clone, Debug)]
pub(super) struct Tries {
    /// When it first came into the lane.
    pub(super) since: Instant,
    pub(super) attempts: u32,
    /// When the first attempt began.
    pub(super) first_at: Option<Instant>,
    /// The end of all attempts. Set with the first one.
    pub(super) deadline: Option<Instant>,
    /// Why the last attempt failed.
    pub(super) reason: Option<Reason>,
    /// Whether the last attempt was answered.
    pub(super) was_refused: bool,
}

impl Tries {
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
    pub(super) tries: Tries,
    /// Whether this attempt tries if the DFSP is back.
    pub(super) is_probe: bool,
    /// Whether this attempt tries if the DFSP takes new callbacks again.
    pub(super) is_trial: bool,
}

impl Entry {
    pub(super) const fn new(callback: OwedCallback, tries: Tries) -> Self {
        Self { callback, tries, is_probe: false, is_trial: false }
    }

    /// Whether it was tried before the attempt that is under way.
    pub(super) const fn is_repeated(&self) -> bool {
        self.tries.attempts > 1
    }
}

/// A callback that a slot is sending.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) key: CallbackKey,
    /// Those that ended: this one is not among them.
    pub(super) attempts: u32,
    pub(super) first_at: Instant,
    pub(super) reason: Option<Reason>,
    pub(super) was_refused: bool,
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// Answered, but not with 2xx.
    Refused(Refusal),
    /// Not answered.
    Unreachable(String),
    /// Cannot be sent at all, or need not be sent any more.
    Unroutable(String),
}

impl Outcome {
    /// Answered with an error that may pass before the deadline.
    #[cfg(test)]
    pub(super) fn refused(reason: &str) -> Self {
        let repetition = Repetition::UntilDeadline;
        Self::Refused(Refusal { reason: reason.to_owned(), repetition, retry_after: None })
    }

    /// The reason of a failure, how it may be repeated (`None`: not at all), and whether it was answered.
    pub(super) fn failure(self) -> Option<(String, Option<Repetition>, bool)> {
        match self {
            Self::Delivered => None,
            Self::Refused(Refusal { reason, repetition, .. }) => Some((reason, Some(repetition), true)),
            Self::Unreachable(reason) => Some((reason, Some(Repetition::UntilDeadline), false)),
            Self::Unroutable(reason) => Some((reason, None, false)),
        }
    }
}

/// A callback that is given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParkedCallback {
    pub(super) key: CallbackKey,
    pub(super) reason: String,
    pub(super) attempts: u32,
}

/// Work for the tasks of a lane.
#[derive(Debug, Default)]
pub(super) struct LaneActions {
    /// To report as parked.
    pub(super) parked: Vec<ParkedCallback>,
    /// To report as delivered.
    pub(super) delivered: Vec<CallbackKey>,
    /// The keeper has something new to do or to wait for.
    pub(super) wake_keeper: bool,
    /// The lane has fallen behind.
    pub(super) fell_behind: bool,
}

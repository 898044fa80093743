//! What an operator sees of a lane.

use upesi_http::BreakerState;
use upesi_ledger::{CallbackKey, ParticipantId};

/// A callback that was tried in vain and is not given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The callback.
    pub key: CallbackKey,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
}

/// The state of one lane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// Owner of the lane.
    pub target: ParticipantId,
    /// Callbacks in memory that wait for their first attempt.
    pub queued: usize,
    /// Callbacks that wait to be repeated.
    pub retrying: usize,
    /// Those of them that are not in memory, because more wait than may be there.
    pub retrying_on_disk: usize,
    /// Callbacks that the DFSP has refused for ten seconds or longer and that are still repeated.
    pub refused: usize,
    /// Whether new callbacks are held back, because the DFSP refused many of them in a row.
    pub refuses_new: bool,
    /// Requests sent and not yet answered.
    pub in_flight: usize,
    /// Memory held by all of these that are in memory.
    pub bytes: usize,
    /// Whether the outbox may hold further callbacks that are not in memory.
    pub catching_up: bool,
    /// Whether it sends.
    pub breaker: BreakerState,
    /// Delivered since the start.
    pub delivered: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Times since the start that so much failed that the lane paused.
    pub breaker_opened: u64,
    /// Times since the start that the lane read the outbox, because it held more than fits into memory; 1 is the start.
    pub catch_ups: u64,
    /// Times since the start that the outbox could not be read.
    pub backlog_failures: u64,
    /// Parked since the start.
    pub parked: u64,
    /// Lookups, quotes and the like that the DFSP answered since the start.
    pub relayed: u64,
    /// Such messages that it did not answer, or that were not sent, since the start.
    pub relay_failures: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The oldest callback in memory that is not delivered.
    pub oldest_pending: Option<CallbackKey>,
}

impl LaneStatus {
    /// Whether the lane sends, in one word: `sending`, `refused`, `paused` or `probing`.
    pub fn state(&self) -> &'static str {
        match self.breaker {
            BreakerState::Closed if self.refused > 0 || self.refuses_new => "refused",
            BreakerState::Closed => "sending",
            BreakerState::Open => "paused",
            BreakerState::Probing => "probing",
        }
    }
}

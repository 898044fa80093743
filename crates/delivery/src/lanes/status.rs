//! The state of a lane, for operators.

use upesi_http::BreakerState;
use upesi_ledger::{CallbackKey, ParticipantId};

/// A callback that has failed so far and is still being repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub key: CallbackKey,
    pub attempts: u32,
    /// Reason of the last failure.
    pub reason: String,
}

/// The state of one lane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    pub target: ParticipantId,
    /// Whether another node of the cluster delivers its callbacks.
    pub elsewhere: bool,
    /// Callbacks in memory that wait for their first attempt.
    pub queued: usize,
    /// Callbacks that wait for repetition.
    pub retrying: usize,
    /// Callbacks that wait for repetition outside memory, because its capacity is used up.
    pub retrying_on_disk: usize,
    /// Callbacks that the DFSP has rejected for ten seconds or longer and that are still being repeated.
    pub refused: usize,
    /// Whether new callbacks are held back, because the DFSP rejected many of them in a row.
    pub refuses_new: bool,
    /// Requests that were sent and not yet answered.
    pub in_flight: usize,
    /// Size of all these in memory, in bytes.
    pub bytes: usize,
    /// Whether the outbox may hold further callbacks that are not in memory.
    pub catching_up: bool,
    pub breaker: BreakerState,
    /// Callbacks delivered since the start.
    pub delivered: u64,
    /// Failed attempts since the start.
    pub failed: u64,
    /// Number of times since the start that the lane paused after failures.
    pub breaker_opened: u64,
    /// Number of times since the start that the lane caught up from the outbox, because its memory was full; 1 is the
    /// start.
    pub catch_ups: u64,
    /// Number of failed reads of the outbox since the start.
    pub backlog_failures: u64,
    /// Callbacks parked since the start.
    pub parked: u64,
    /// Relayed messages, such as lookups and quotes, that the DFSP answered since the start.
    pub relayed: u64,
    /// Relayed messages that it did not answer, or that were not sent, since the start.
    pub relay_failures: u64,
    /// Reason of the last failure.
    pub last_error: Option<String>,
    /// The oldest undelivered callback in memory.
    pub oldest_pending: Option<CallbackKey>,
}

impl LaneStatus {
    /// State of the lane in one word: `sending`, `refused`, `paused`, `probing`, or `elsewhere` if another node
    /// delivers.
    pub fn state(&self) -> &'static str {
        match self.breaker {
            _ if self.elsewhere => "elsewhere",
            BreakerState::Closed if self.refused > 0 || self.refuses_new => "refused",
            BreakerState::Closed => "sending",
            BreakerState::Open => "paused",
            BreakerState::Probing => "probing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_state_follows_the_breaker_unless_callbacks_are_rejected() {
        let of = |breaker, refused, refuses_new| {
            let lane = LaneStatus {
                target: ParticipantId::HUB,
                elsewhere: false,
                queued: 0,
                retrying: 0,
                retrying_on_disk: 0,
                refused,
                refuses_new,
                in_flight: 0,
                bytes: 0,
                catching_up: false,
                breaker,
                delivered: 0,
                failed: 0,
                breaker_opened: 0,
                catch_ups: 0,
                backlog_failures: 0,
                parked: 0,
                relayed: 0,
                relay_failures: 0,
                last_error: None,
                oldest_pending: None,
            };
            lane.state()
        };
        assert_eq!(of(BreakerState::Closed, 0, false), "sending");
        assert_eq!(of(BreakerState::Closed, 1, false), "refused");
        assert_eq!(of(BreakerState::Closed, 0, true), "refused");
        assert_eq!(of(BreakerState::Open, 1, true), "paused");
        assert_eq!(of(BreakerState::Probing, 1, true), "probing");
    }
}

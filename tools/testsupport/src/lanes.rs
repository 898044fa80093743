//! Lanes of callbacks, as an admin port sees them.

use upesi_delivery::lanes::LaneStatus;
use upesi_http::BreakerState;
use upesi_ledger::ParticipantId;

/// A lane whose counts all differ. A test changes the fields that it needs.
pub fn lane(target: ParticipantId) -> LaneStatus {
    LaneStatus {
        target,
        elsewhere: false,
        queued: 1,
        retrying: 2,
        retrying_on_disk: 1,
        refused: 2,
        refuses_new: false,
        in_flight: 3,
        bytes: 4,
        catching_up: true,
        breaker: BreakerState::Closed,
        delivered: 5,
        failed: 6,
        breaker_opened: 0,
        catch_ups: 1,
        backlog_failures: 0,
        parked: 7,
        relayed: 8,
        relay_failures: 9,
        last_error: Some("connection refused".into()),
        oldest_pending: None,
    }
}

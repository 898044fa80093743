//! `GET /lanes`: how the callbacks to each participant are getting on.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{CallbackKey, ParticipantId};

use crate::callbacks::Key;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::json::ok;

/// Tells how the lanes are.
pub trait LaneStatus: Send + Sync {
    /// Every lane now.
    fn lanes(&self) -> Vec<Lane>;

    /// Those of these callbacks that were tried in vain and are not given up.
    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure>;
}

/// A callback that was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The callback.
    pub key: CallbackKey,
    /// How often.
    pub attempts: u32,
    /// What went wrong last.
    pub reason: String,
}

/// One participant's callbacks, as seen from outside the courier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Whose lane.
    pub target: ParticipantId,
    /// Whether it sends, in one word.
    pub state: &'static str,
    /// Callbacks in memory that wait for their first attempt.
    pub queued: usize,
    /// Callbacks that wait to be repeated.
    pub retrying: usize,
    /// Those of them that are on disk only.
    pub retrying_on_disk: usize,
    /// Callbacks that the participant has refused for ten seconds or longer and that are still repeated.
    pub refused: usize,
    /// Callbacks that are under way.
    pub in_flight: usize,
    /// Memory held by all of these, in bytes.
    pub bytes: usize,
    /// Whether further callbacks may wait in the outbox.
    pub catching_up: bool,
    /// Callbacks delivered since the start.
    pub delivered: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Callbacks given up since the start.
    pub parked: u64,
    /// Lookups, quotes and the like that the participant answered since the start.
    pub relayed: u64,
    /// Such messages that it did not answer, or that were not sent, since the start.
    pub relay_failures: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The oldest callback in memory.
    pub oldest_pending: Option<CallbackKey>,
}

/// For a process without a courier.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLanes;

impl LaneStatus for NoLanes {
    fn lanes(&self) -> Vec<Lane> {
        Vec::new()
    }

    fn failures(&self, _keys: &[CallbackKey]) -> Vec<Failure> {
        Vec::new()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneView {
    participant: Option<String>,
    state: &'static str,
    queued: usize,
    retrying: usize,
    retrying_on_disk: usize,
    refused: usize,
    in_flight: usize,
    bytes: usize,
    catching_up: bool,
    delivered: u64,
    failed: u64,
    parked: u64,
    relayed: u64,
    relay_failures: u64,
    last_error: Option<String>,
    oldest_pending: Option<Key>,
}

impl LaneView {
    fn of(lane: Lane, participant: Option<String>) -> Self {
        Self {
            participant,
            state: lane.state,
            queued: lane.queued,
            retrying: lane.retrying,
            retrying_on_disk: lane.retrying_on_disk,
            refused: lane.refused,
            in_flight: lane.in_flight,
            bytes: lane.bytes,
            catching_up: lane.catching_up,
            delivered: lane.delivered,
            failed: lane.failed,
            parked: lane.parked,
            relayed: lane.relayed,
            relay_failures: lane.relay_failures,
            last_error: lane.last_error,
            oldest_pending: lane.oldest_pending.map(Key),
        }
    }
}

pub(crate) async fn list(State(context): State<AdminContext>) -> Result<Response, ApiError> {
    let lanes = context.lanes.lanes();
    let views = context.ask(move |ledger| {
        let name = |lane: &Lane| {
            let index = lane.target.number() as usize - 1;
            ledger.participants().get(index).map(|participant| participant.name.to_string())
        };
        let views = lanes.into_iter().map(|lane| {
            let participant = name(&lane);
            LaneView::of(lane, participant)
        });
        views.collect::<Vec<_>>()
    });
    ok(&views.await?)
}

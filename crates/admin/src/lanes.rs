//! `GET /lanes`: the state of the callbacks to each participant.

use axum::response::Response;
use serde::Serialize;
use upesi_delivery::lanes::{Courier, Failure, LaneStatus};
use upesi_ledger::CallbackKey;

use crate::call::Call;
use crate::callbacks::Key;
use crate::error::ApiError;
use crate::json::ok;

/// The state of callbacks on their way.
pub trait Lanes: Send + Sync {
    /// Every lane now.
    fn lanes(&self) -> Vec<LaneStatus>;

    /// Those of these callbacks that were tried in vain and are not given up.
    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure>;
}

impl Lanes for Courier {
    fn lanes(&self) -> Vec<LaneStatus> {
        Self::lanes(self)
    }

    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure> {
        Self::failures(self, keys)
    }
}

/// For a process without a courier.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLanes;

impl Lanes for NoLanes {
    fn lanes(&self) -> Vec<LaneStatus> {
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
    fn of(lane: LaneStatus, participant: Option<String>) -> Self {
        Self {
            participant,
            state: lane.state(),
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

pub(crate) async fn list(Call(context): Call) -> Result<Response, ApiError> {
    let lanes = context.lanes.lanes();
    let views = context.ask(move |ledger| {
        let name = |lane: &LaneStatus| {
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

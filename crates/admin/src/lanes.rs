//! `GET /lanes`: the state of the callbacks to each participant, and its response times.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use upesi_delivery::lanes::LaneStatus;
use upesi_engine::{Clock as _, DfspSummary, KindSummary, PairSummary, RequestKind, ResponseTimes};
use upesi_ledger::{Ledger, ParticipantId, courier_of};

use crate::call::Call;
use crate::callbacks::Key;
use crate::error::ApiError;
use crate::json::ok;
use crate::parts::Lanes;

/// Maximum number of pairs with failures that a lane shows.
const PAIRS_SHOWN_MAX: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LaneView {
    participant: Option<String>,
    state: &'static str,
    /// The node of the cluster that delivers; absent if the leader delivers all.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
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
    response_times: ResponsesView,
}

/// A participant's answers to requests in the last minutes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponsesView {
    minutes: usize,
    /// Absent without requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    lookups: Option<KindView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quotes: Option<KindView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<KindView>,
    /// The senders of failed requests, the most failures first.
    failures_by_asker: Vec<PairView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KindView {
    answered: u64,
    failed: u64,
    unanswered: u64,
    undelivered: u64,
    /// Absent without a callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PairView {
    asker: String,
    requests: u64,
    failed: u64,
    failed_percent: u64,
}

impl ResponsesView {
    /// `askers` are the names of the senders, by pair.
    fn of(summary: Option<&DfspSummary>, askers: &[Option<String>]) -> Self {
        let kinds = summary.map(|summary| &*summary.kinds).unwrap_or_default();
        let kind = |kind| kinds.iter().find(|one| one.kind == kind).and_then(KindView::of);
        let pairs = summary.map(|summary| &*summary.pairs).unwrap_or_default();
        let failing = pairs.iter().zip(askers).filter(|(pair, _)| pair.failed > 0).take(PAIRS_SHOWN_MAX);
        let failing = failing.filter_map(|(pair, asker)| Some(PairView::of(pair, asker.clone()?)));
        Self {
            minutes: ResponseTimes::MINUTES,
            lookups: kind(RequestKind::Lookup),
            quotes: kind(RequestKind::Quote),
            transfers: kind(RequestKind::Transfer),
            failures_by_asker: failing.collect(),
        }
    }
}

impl KindView {
    /// `None` without requests in the last minutes.
    fn of(kind: &KindSummary) -> Option<Self> {
        let [answered, failed, unanswered, undelivered] = kind.recent;
        if answered + failed + unanswered + undelivered == 0 {
            return None;
        }
        let (p50_ms, p99_ms) = (kind.p50.map(whole_ms), kind.p99.map(whole_ms));
        Some(Self { answered, failed, unanswered, undelivered, p50_ms, p99_ms })
    }
}

/// Milliseconds, rounded up.
fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl PairView {
    fn of(pair: &PairSummary, asker: String) -> Self {
        let PairSummary { requests, failed, .. } = *pair;
        // Rounded up, so that one failure in a thousand is not shown as none.
        Self { asker, requests, failed, failed_percent: (failed * 100).div_ceil(requests.max(1)) }
    }
}

/// The lane of a participant, with its answers to requests in the last minutes.
#[derive(Clone, Debug)]
pub struct LaneReport {
    /// `None` if the ledger does not know the participant yet.
    pub participant: Option<String>,
    pub lane: LaneStatus,
    /// The node of the cluster that delivers; `None` if the leader delivers all.
    pub node: Option<u32>,
    /// `None` without requests.
    pub responses: Option<DfspSummary>,
    /// The names of the senders in `responses`, by pair.
    pub askers: Vec<Option<String>>,
}

/// The lanes of all participants.
pub fn lane_reports(
    ledger: &Ledger,
    lanes: Vec<LaneStatus>,
    mut summaries: Vec<DfspSummary>,
) -> Vec<LaneReport> {
    let report = |lane: LaneStatus| {
        let found = summaries.binary_search_by_key(&lane.target, |summary| summary.asked);
        let responses = found.ok().map(|index| {
            let DfspSummary { asked, kinds, pairs } = &mut summaries[index];
            DfspSummary { asked: *asked, kinds: std::mem::take(kinds), pairs: std::mem::take(pairs) }
        });
        let pairs = responses.iter().flat_map(|summary| &summary.pairs);
        LaneReport {
            participant: name_of(ledger, lane.target),
            node: courier_of(ledger.couriers(), lane.target),
            askers: pairs.map(|pair| name_of(ledger, pair.asker)).collect(),
            responses,
            lane,
        }
    };
    lanes.into_iter().map(report).collect()
}

impl LaneView {
    fn of(report: LaneReport) -> Self {
        let LaneReport { participant, lane, node, responses, askers } = report;
        let response_times = ResponsesView::of(responses.as_ref(), &askers);
        Self {
            participant,
            state: lane.state(),
            node,
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
            response_times,
        }
    }
}

pub(crate) async fn list(
    call: Call,
    State(lanes): State<Arc<dyn Lanes>>,
    State(response_times): State<ResponseTimes>,
) -> Result<Response, ApiError> {
    let lanes = lanes.lanes();
    let summaries = response_times.summaries(call.engine.clock().now());
    let reports = call.ask(move |ledger| lane_reports(ledger, lanes, summaries));
    ok(&reports.await?.into_iter().map(LaneView::of).collect::<Vec<_>>())
}

fn name_of(ledger: &Ledger, id: ParticipantId) -> Option<String> {
    let index = id.number() as usize - 1;
    ledger.participants().get(index).map(|participant| participant.name.to_string())
}

#[cfg(test)]
mod tests {
    use upesi_engine::{Response, ResponseOutcome};
    use upesi_types::Timestamp;

    use super::*;

    #[test]
    fn responses_are_shown_by_kind_and_by_failing_pair() {
        let id = |number| ParticipantId::new(number).unwrap();
        let (responses, now) = (ResponseTimes::default(), Timestamp::from_ms(1_893_456_000_000));
        let observe = |asker, kind, outcome| {
            responses.observe(&Response { asker: Some(id(asker)), asked: id(3), kind, outcome }, now);
        };
        (0..199).for_each(|_| {
            observe(2, RequestKind::Quote, ResponseOutcome::Answered(Duration::from_micros(300)))
        });
        observe(2, RequestKind::Quote, ResponseOutcome::Failed(Duration::from_micros(300)));
        observe(4, RequestKind::Lookup, ResponseOutcome::Unanswered);
        (5..20).for_each(|asker| observe(asker, RequestKind::Quote, ResponseOutcome::Undelivered));
        observe(4, RequestKind::Lookup, ResponseOutcome::Undelivered);
        let summaries = responses.summaries(now);
        let pairs = summaries.iter().flat_map(|summary| &summary.pairs);
        let askers: Vec<_> = pairs.map(|pair| Some(format!("dfsp-{}", pair.asker.number()))).collect();
        let view = ResponsesView::of(summaries.first(), &askers);
        let shown = serde_json::to_value(&view).unwrap();
        let expected = serde_json::json!({ "answered": 0, "failed": 0, "unanswered": 1, "undelivered": 1 });
        assert_eq!(shown["lookups"], expected);
        let expected = serde_json::json!({
            "answered": 199, "failed": 1, "unanswered": 0, "undelivered": 15, "p50Ms": 1, "p99Ms": 1,
        });
        assert_eq!(shown["quotes"], expected);
        assert_eq!(shown.get("transfers"), None);
        let pairs = shown["failuresByAsker"].as_array().unwrap();
        assert_eq!(pairs.len(), PAIRS_SHOWN_MAX);
        let expected =
            serde_json::json!({ "asker": "dfsp-4", "requests": 2, "failed": 2, "failedPercent": 100 });
        assert_eq!(pairs[0], expected);
        let expected =
            serde_json::json!({ "asker": "dfsp-2", "requests": 200, "failed": 1, "failedPercent": 1 });
        assert_eq!(pairs[1], expected, "one in 200 is rounded up");
    }
}

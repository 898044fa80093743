//! `GET /lanes`: the state of the callbacks to each participant, and its response times.

use std::collections::BTreeMap;
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
    fn of(summary: Option<&DfspSummary>, name_of: impl Fn(ParticipantId) -> Option<String>) -> Self {
        let kinds = summary.map(|summary| &*summary.kinds).unwrap_or_default();
        let kind = |kind| kinds.iter().find(|one| one.kind == kind).and_then(KindView::of);
        let pairs = summary.map(|summary| &*summary.pairs).unwrap_or_default();
        let failing = pairs.iter().filter(|pair| pair.failed > 0).take(PAIRS_SHOWN_MAX);
        let failing = failing.filter_map(|pair| Some(PairView::of(pair, name_of(pair.asker)?)));
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
    pub askers: Askers,
}

/// Names of senders by pair. All lanes share one name for each sender, because there may be thousands of pairs.
#[derive(Clone, Debug)]
pub struct Askers {
    ids: Vec<ParticipantId>,
    names: Arc<BTreeMap<ParticipantId, Option<String>>>,
}

impl<'a> IntoIterator for &'a Askers {
    type Item = &'a Option<String>;
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.ids.iter().map(|id| self.names.get(id).unwrap_or(&None)))
    }
}

/// The lanes of all participants, for pages.
pub fn lane_reports(
    ledger: &Ledger,
    lanes: Vec<LaneStatus>,
    mut summaries: Vec<DfspSummary>,
) -> Vec<LaneReport> {
    let mut names = BTreeMap::new();
    for pair in summaries.iter().flat_map(|summary| &summary.pairs) {
        names.entry(pair.asker).or_insert_with(|| name_of(ledger, pair.asker));
    }
    let names = Arc::new(names);
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
            askers: Askers { ids: pairs.map(|pair| pair.asker).collect(), names: Arc::clone(&names) },
            responses,
            lane,
        }
    };
    lanes.into_iter().map(report).collect()
}

impl LaneView {
    fn of(
        lane: LaneStatus,
        participant: Option<String>,
        node: Option<u32>,
        response_times: ResponsesView,
    ) -> Self {
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
    let views = call.ask(move |ledger| {
        let views = lanes.into_iter().map(|lane| {
            let summary = summaries.binary_search_by_key(&lane.target, |summary| summary.asked);
            let summary = summary.ok().map(|index| &summaries[index]);
            let responses = ResponsesView::of(summary, |id| name_of(ledger, id));
            let (participant, node) =
                (name_of(ledger, lane.target), courier_of(ledger.couriers(), lane.target));
            LaneView::of(lane, participant, node, responses)
        });
        views.collect::<Vec<_>>()
    });
    ok(&views.await?)
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
        let view = ResponsesView::of(summaries.first(), |id| Some(format!("dfsp-{}", id.number())));
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

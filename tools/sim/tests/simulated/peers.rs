//! Simulators that send messages directly to each other over real sockets: every behaviour of a DFSP.

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use upesi_http::{Method, StatusCode};
use upesi_sim::{
    DfspSettings, Flavour, OriginateError, Originator, OriginatorOptions, Outcome, SimConfig, Upstream,
};

use crate::common::{PATIENCE, Watched, World, options, prepare_of};

#[tokio::test]
async fn well_behaved_dfsps_commit_everything_and_agree() {
    let world = World::new(DfspSettings::default());
    assert_eq!(world.outcomes(200).await, vec![Outcome::Committed; 200]);
    world
        .until("the last messages", |sim| {
            sim.transfer_counts().incoming_committed == 200 && sim.counters().callbacks == 200
        })
        .await;
    let counters = world.simulator.counters();
    assert_eq!((counters.prepares_received, counters.callbacks, counters.violations()), (200, 200, 0));
    assert_eq!((world.high(0), world.high(1)), (200 * 25_000, -200 * 25_000));
    assert!(world.simulator.accepted_without_outcome(10).is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_number_is_originated_once() {
    let world = World::new(DfspSettings::default());
    world.send(5..6).await.pop().unwrap().unwrap();
    let again = world.send(5..6).await.pop().unwrap();
    assert!(matches!(again, Err(OriginateError::Repeated(5))));
    world.end().await;
}

#[tokio::test]
async fn dropped_transfers_stay_reserved() {
    let world = World::new(DfspSettings { drop_per_mille: 1000, ..DfspSettings::default() });
    for pending in world.send(0..10).await {
        drop(pending.unwrap());
    }
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.accepted, counts.committed), (10, 0));
    assert_eq!(world.simulator.accepted_without_outcome(100).len(), 10);
    assert_eq!((world.high(0), world.high(1)), (250_000, 0));
    assert_eq!(world.simulator.counters().dropped, 10);
    world.end().await;
}

#[tokio::test]
async fn aborted_transfers_move_nothing() {
    let world = World::new(DfspSettings { abort_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(10).await, vec![Outcome::Aborted; 10]);
    assert_eq!((world.high(0), world.high(1)), (0, 0));
    assert_eq!(world.simulator.counters().aborts_sent, 10);
    world.end().await;
}

#[tokio::test]
async fn duplicated_fulfilments_count_once() {
    let world = World::new(DfspSettings { duplicate_per_mille: 1000, ..DfspSettings::default() });
    assert_eq!(world.outcomes(10).await, vec![Outcome::Committed; 10]);
    world.until("ten repetitions", |sim| sim.counters().callbacks_repeated == 10).await;
    let counters = world.simulator.counters();
    assert_eq!((counters.duplicated, counters.violations()), (10, 0));
    assert_eq!(world.high(0), 250_000);
    world.end().await;
}

#[tokio::test]
async fn prepares_sent_twice_are_one_transfer() {
    let world = World::with(DfspSettings::default(), |config| {
        config.dfsps[0].1.repeat_prepare_per_mille = 1000;
    });
    assert_eq!(world.outcomes(20).await, vec![Outcome::Committed; 20]);
    // Some at once, some after half a second.
    world
        .until("twenty repetitions", |sim| {
            let counters = sim.counters();
            (counters.prepares_sent_twice, counters.prepares_repeated) == (20, 20)
                && sim.transfer_counts().incoming_committed == 20
        })
        .await;
    let counters = world.simulator.counters();
    assert_eq!((counters.prepares_received, counters.violations()), (20, 0));
    assert_eq!((world.high(0), world.high(1)), (20 * 25_000, -20 * 25_000));
    world.end().await;
}

#[tokio::test]
async fn wrong_fulfilments_are_noticed_by_the_payer_and_not_booked_by_the_payee() {
    let world = World::new(DfspSettings { wrong_fulfilment_per_mille: 1000, ..DfspSettings::default() });
    // Without a hub, nothing stops them on the way.
    assert_eq!(world.outcomes(10).await.len(), 10);
    let counters = world.simulator.counters();
    assert_eq!((counters.wrong_fulfilments_sent, counters.wrong_fulfilments_received), (10, 10));
    assert_eq!(counters.violations(), 10);
    assert_eq!(world.high(1), 0);
    world.end().await;
}

#[tokio::test]
async fn http_errors_are_answered_with_the_set_status_and_change_nothing() {
    let settings =
        DfspSettings { http_error_per_mille: 1000, http_error_status: 429, ..DfspSettings::default() };
    let world = World::new(settings);
    for sent in world.send(0..5).await {
        let Err(OriginateError::Refused { status, .. }) = sent else { panic!("{sent:?}") };
        assert_eq!(status.as_u16(), 429);
    }
    assert_eq!((world.high(0), world.simulator.counters().prepares_received), (0, 0));
    assert_eq!(world.simulator.counters().http_errors, 5);
    world.end().await;
}

#[tokio::test]
async fn a_resent_post_gets_through_a_payee_that_fails_half_the_time() {
    let settings = DfspSettings { http_error_per_mille: 500, ..DfspSettings::default() };
    let world = World::new(settings);
    let patient = Originator::new(&world.simulator, OriginatorOptions { resends_max: 30, ..options() });
    let send = world.workers.get(0).spawn(async move {
        for number in 0..5 {
            let pending = patient.send(number, 0, 1).await.unwrap();
            assert_eq!(
                timeout(PATIENCE, pending.finished).await.unwrap().unwrap().outcome,
                Outcome::Committed
            );
        }
    });
    send.await.unwrap();
    assert!(world.simulator.counters().http_errors > 0, "seed 1 hits some of the first messages");
    world.end().await;
}

#[tokio::test]
async fn delayed_and_slow_payees_still_commit() {
    let settings =
        DfspSettings { delay_ms: 2, slow_read_per_mille: 1000, slow_read_ms: 2, ..DfspSettings::default() };
    let world = World::new(settings);
    assert_eq!(world.outcomes(5).await, vec![Outcome::Committed; 5]);
    assert_eq!(world.simulator.counters().slow_reads, 5);
    world.end().await;
}

#[tokio::test]
async fn a_payee_that_says_reserved_waits_for_the_hub() {
    let settings = DfspSettings { flavour: Flavour::Reserved, ..DfspSettings::default() };
    let world = World::new(settings);
    for pending in world.send(0..5).await {
        drop(pending.unwrap());
    }
    // Without a hub, RESERVED never becomes COMMITTED: both sides keep waiting.
    world.until("five answers", |sim| sim.counters().callbacks_informative == 5).await;
    let counts = world.simulator.transfer_counts();
    assert_eq!((counts.accepted, counts.incoming_open, counts.incoming_committed), (5, 5, 0));
    let payee = *world.simulator.expected_positions().values().nth(1).unwrap().values().next().unwrap();
    assert_eq!((payee.low, payee.high), (-125_000, 0));
    world.end().await;
}

// The measurements of a simulator that is configured to measure, and the times that it adds to its answers.

const IDS: [&str; 2] = ["5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5e"];
/// The condition that Mojaloop's simulators answer.
const CONDITION: &str = "GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA";
const OF_SCRIPT: &str = "vendor=x,tx_end2end_start_ts=1700000000000";

impl Watched {
    fn measured(metrics: bool) -> Self {
        Self::start(SimConfig { metrics, ..SimConfig::new(2, Upstream::Peers) })
    }

    async fn send_traced(
        &self,
        method: Method,
        path: &str,
        tracestate: Option<&'static str>,
        body: &Value,
    ) -> (StatusCode, String) {
        let tracestate = tracestate.map(|list| ("tracestate", list));
        let (status, body) = self.request(method, path, tracestate, body).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn prepare_traced(&self, id: &str, tracestate: Option<&'static str>) {
        let body = prepare_of(id, CONDITION);
        let (status, _) = self.send_traced(Method::POST, "/dfsp-2/transfers", tracestate, &body).await;
        assert_eq!(status, StatusCode::ACCEPTED);
    }

    async fn metrics(&self) -> String {
        let (status, text) = self.send_traced(Method::GET, "/metrics", None, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        text
    }

    /// Waits until a histogram has this many observations of an operation.
    async fn until(&self, histogram: &str, operation: &str, count: u64) {
        let line = format!("{histogram}_count{{operation=\"{operation}\"}} {count}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.metrics().await;
            if text.lines().any(|found| found == line) {
                return;
            }
            assert!(Instant::now() < deadline, "{line} is not in\n{text}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn answers_say_when_they_left_only_where_that_is_measured() {
    for (metrics, tracestate, is_stamped) in [
        (false, Some(OF_SCRIPT), false),
        (true, Some(OF_SCRIPT), true),
        (true, Some("vendor=x"), false),
        (true, None, false),
    ] {
        let mut world = Watched::measured(metrics);
        world.prepare_traced(IDS[0], tracestate).await;
        let put = world.sent().await;
        assert_eq!((put.method.clone(), put.status), (Method::PUT, Some(StatusCode::OK)));
        let found = put.headers.get("tracestate").map(|value| value.to_str().unwrap());
        if is_stamped {
            let stamp = found.unwrap().strip_prefix(OF_SCRIPT).unwrap();
            let instant_ms = stamp.strip_prefix(",tx_callback_start_ts=").unwrap();
            assert!(instant_ms.parse::<u64>().unwrap() > 1_700_000_000_000, "{stamp}");
        } else {
            assert_eq!(found, tracestate);
        }
        let (status, _) = world.send_traced(Method::GET, "/metrics", None, &Value::Null).await;
        assert_eq!(status, if metrics { StatusCode::OK } else { StatusCode::NOT_FOUND });
        world.end().await;
    }
}

#[tokio::test]
async fn what_a_payee_is_told_ends_no_exchange() {
    let world = Watched::measured(true);
    world.prepare_traced(IDS[0], Some(OF_SCRIPT)).await;
    world.until("cbs_tx_cb_perf", "transfers_end2end", 1).await;
    let of_answer = Some("tx_end2end_start_ts=1700000000000,tx_callback_start_ts=1700000000250");
    let path = format!("/dfsp-2/transfers/{}", IDS[0]);
    let informed = json!({"errorInformation": {"errorCode": "3106", "errorDescription": "Modified request"}});
    let (status, _) = world.send_traced(Method::PUT, &format!("{path}/error"), of_answer, &informed).await;
    assert_eq!(status, StatusCode::OK);
    let committed = json!({"transferState": "COMMITTED"});
    assert_eq!(world.send_traced(Method::PATCH, &path, of_answer, &committed).await.0, StatusCode::OK);
    // This one is not measured.
    world.prepare_traced(IDS[1], None).await;
    world.until("cbs_egress_callbackHandler", "put_transfers", 2).await;
    world.until("cbs_ing_callbackHandler", "post_transfers", 2).await;
    world.until("cbs_ing_callbackHandler", "put_transfers", 3).await;
    world.until("cbs_ing_callbackHandler", "patch_transfers", 1).await;
    for operation in ["transfers_request", "transfers_end2end", "transfers_response"] {
        world.until("cbs_tx_cb_perf", operation, 1).await;
    }
    world.end().await;
}

#[tokio::test]
async fn lookups_and_quotes_are_measured_too() {
    let world = Watched::measured(true);
    let quote = json!({"quoteId": IDS[0], "transactionId": IDS[1], "amountType": "SEND",
        "amount": {"amount": "2", "currency": "XXX"},
        "payer": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345001", "fspId": "dfsp-1"}},
        "payee": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345002", "fspId": "dfsp-2"}},
        "transactionType": {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}});
    for (method, path, body, family) in [
        (Method::GET, "parties/ACCOUNT_ID/19012345002", &Value::Null, "parties"),
        (Method::POST, "quotes", &quote, "quotes"),
    ] {
        let (status, _) = world.send_traced(method, &format!("/fspiop/{path}"), Some(OF_SCRIPT), body).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        for part in ["request", "end2end", "response"] {
            world.until("cbs_tx_cb_perf", &format!("{family}_{part}"), 1).await;
        }
        world.until("cbs_egress_callbackHandler", &format!("put_{family}"), 1).await;
        world.until("cbs_ing_callbackHandler", &format!("put_{family}"), 1).await;
    }
    world.end().await;
}

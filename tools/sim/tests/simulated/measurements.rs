//! The measurements of a simulator that is configured to measure, and the times that it adds to its answers.

use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{Method, StatusCode};
use upesi_sim::{SimConfig, Upstream};

use crate::common::{PATIENCE, Watched, prepare_of};

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
async fn answers_carry_their_time_only_if_measured() {
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
async fn callback_to_a_payee_ends_no_exchange() {
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
async fn lookups_and_quotes_are_measured() {
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

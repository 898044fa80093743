//! The simulators' routes beside well-formed transfers of their own: the hub's messages to payees, Mojaloop's routes
//! with their web sockets, the controls, and a watcher.

use std::net::SocketAddr;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use upesi_http::{Method, StatusCode};
use upesi_sim::{Secret, SimConfig, Upstream};
use upesi_types::TransferId;

use crate::common::{PATIENCE, Watched, prepare_of};

pub(super) const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(super) const KNOWN_CONDITION: &str = "GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA";
const KNOWN_FULFILMENT: &str = "V-IalzIzy-zxy0SrlY1Ku2OE9aS4KgGZ0W-Zq5_BeC0";

impl Watched {
    pub(super) fn new() -> Self {
        Self::start(SimConfig {
            socket_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            answer_attempts_max: 1,
            ..SimConfig::new(2, Upstream::Peers)
        })
    }

    pub(super) async fn send(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let trace = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (status, body) = self.request(method, path, Some(("traceparent", &trace)), body).await;
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(super) async fn prepare(&self, base: &str, condition: &str) -> StatusCode {
        let body = prepare_of(ID, condition);
        self.send(Method::POST, &format!("{base}/transfers"), &body).await.0
    }

    /// Opens a web socket, which the simulator knows once its handshake is answered.
    async fn channel(&self, path: &str) -> WebSocketStream<TcpStream> {
        let address = self.simulator.socket_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}/{TRACE}/PUT/{path}");
        tokio_tungstenite::client_async(url, stream).await.unwrap().0
    }

    /// Waits until this many callbacks are counted as pushed. They are counted after they were sent.
    async fn pushed(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.simulator.counters().pushed < count {
            assert!(Instant::now() < deadline, "{:?}", self.simulator.counters());
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn load_script_is_notified_of_its_callback_over_a_web_socket() {
    for (condition, text) in [(KNOWN_CONDITION, "SUCCESS_CALLBACK_RECEIVED"), (ID, "ERROR_CALLBACK_RECEIVED")]
    {
        let mut world = Watched::new();
        let mut socket = world.channel(&format!("transfers/{ID}")).await;
        assert_eq!(world.prepare("/fspiop", condition).await, StatusCode::ACCEPTED);
        let put = world.sent().await;
        assert_eq!(put.method, Method::PUT);
        assert!(put.headers["traceparent"].to_str().unwrap().contains(TRACE));
        if condition == KNOWN_CONDITION {
            let body: Value = serde_json::from_slice(&put.body).unwrap();
            assert_eq!(body["fulfilment"], KNOWN_FULFILMENT);
        }
        let pushed = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(pushed.to_text().unwrap(), text);
        world.pushed(1).await;
        assert_eq!(world.simulator.counters().callbacks_unexpected, 0);
        world.end().await;
    }
}

#[tokio::test]
async fn load_script_is_notified_of_parties_quotes_and_fx_transfers() {
    let world = Watched::new();
    let party = "parties/ACCOUNT_ID/19012345002";
    let quote = json!({"quoteId": ID, "transactionId": ID, "amountType": "SEND", "amount": {"amount": "2", "currency": "XXX"},
        "payer": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345001", "fspId": "dfsp-1"}},
        "payee": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345002", "fspId": "dfsp-2"}},
        "transactionType": {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}});
    let fx_transfer = json!({"conversionRequestId": ID, "conversionTerms": {"conversionId": ID, "initiatingFsp": "dfsp-1",
        "counterPartyFsp": "dfsp-2", "amountType": "SEND", "sourceAmount": {"currency": "XXX", "amount": "2"},
        "targetAmount": {"currency": "XTS"}, "expiration": "2030-01-01T00:00:00.000Z"}});
    let (quote_path, fx_transfer_path) = (format!("quotes/{ID}"), format!("fxQuotes/{ID}"));
    let mut count = 0;
    for (base, abort_per_mille, text) in [
        ("/fspiop", 0, "SUCCESS_CALLBACK_RECEIVED"),
        ("/fxp", 0, "SUCCESS_CALLBACK_RECEIVED"),
        ("/dfsp-2", 1000, "ERROR_CALLBACK_RECEIVED"),
    ] {
        let behaviour = json!({"abort_per_mille": abort_per_mille});
        world.send(Method::PUT, "/_sim/dfsps/dfsp-2", &behaviour).await;
        for (method, path, body, channel) in [
            (Method::GET, party, &Value::Null, party),
            (Method::POST, "quotes", &quote, quote_path.as_str()),
            (Method::POST, "fxQuotes", &fx_transfer, fx_transfer_path.as_str()),
            (Method::GET, fx_transfer_path.as_str(), &Value::Null, fx_transfer_path.as_str()),
        ] {
            let mut socket = world.channel(channel).await;
            assert_eq!(world.send(method, &format!("{base}/{path}"), body).await.0, StatusCode::ACCEPTED);
            let pushed = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(pushed.to_text().unwrap(), text, "{channel}");
            count += 1;
            world.pushed(count).await;
        }
    }
    let counters = world.simulator.counters();
    assert_eq!((counters.answers_unasked, counters.answers_received, counters.parties_unknown), (0, 0, 1));
    assert_eq!((counters.fx_quotes_received, counters.requests_received), (3, 3));
    world.end().await;
}

#[tokio::test]
async fn payee_books_a_reserved_transfer_after_the_hubs_patch() {
    for (patch, paid, contradictions) in [("COMMITTED", 20_000, 0), ("ABORTED", 0, 0)] {
        let mut world = Watched::new();
        world.send(Method::PUT, "/_sim/dfsps/dfsp-2", &json!({"flavour": "RESERVED"})).await;
        let condition = Secret::new(&SimConfig::new(1, Upstream::Peers).secret)
            .condition(&TransferId::parse(ID).unwrap());
        let condition = std::str::from_utf8(&condition).unwrap();
        assert_eq!(world.prepare("/dfsp-2", condition).await, StatusCode::ACCEPTED);
        assert_eq!(world.prepare("/dfsp-2", condition).await, StatusCode::ACCEPTED);
        let put = world.sent().await;
        assert_eq!(
            (put.path.as_str(), put.status),
            (format!("/dfsp-1/transfers/{ID}").as_str(), Some(StatusCode::OK))
        );
        let path = format!("/dfsp-2/transfers/{ID}");
        let body = json!({"transferState": patch, "completedTimestamp": "2030-01-01T00:00:00.000Z"});
        for _ in 0..2 {
            assert_eq!(world.send(Method::PATCH, &path, &body).await.0, StatusCode::OK);
        }
        let expected = world.simulator.expected_positions();
        let payee = expected.values().nth(1).unwrap().values().next().unwrap();
        assert_eq!((payee.high, payee.low), (-paid, -paid), "{patch}");
        let counters = world.simulator.counters();
        assert_eq!((counters.callbacks_repeated, counters.prepares_repeated), (1, 1));
        assert_eq!(counters.contradictions, contradictions);
        world.end().await;
    }
}

#[tokio::test]
async fn unknown_transfers_and_paths_are_counted() {
    let world = Watched::new();
    let committed = json!({"transferState": "COMMITTED"});
    let path = format!("/dfsp-1/transfers/{ID}");
    assert_eq!(world.send(Method::PUT, &path, &committed).await.0, StatusCode::OK);
    assert_eq!(world.simulator.counters().callbacks_unexpected, 1);
    for (method, path) in [
        (Method::PUT, format!("/nobody/transfers/{ID}")),
        (Method::POST, "/dfsp-1/thirdpartyRequests".to_owned()),
        (Method::GET, "/".to_owned()),
    ] {
        assert_eq!(world.send(method, &path, &committed).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let unreadable = world.send(Method::POST, "/dfsp-1/transfers", &json!({"transferId": 1})).await.0;
    assert_eq!((unreadable, world.simulator.counters().unreadable), (StatusCode::BAD_REQUEST, 1));
    world.end().await;
}

/// A payee that rejected a prepare may be notified that it has expired, and of nothing else about it.
#[tokio::test]
async fn expiry_of_a_rejected_prepare_is_expected() {
    let world = Watched::new();
    let other = ID.replace("5b1c", "6b1c");
    let expired = json!({"errorInformation": {"errorCode": "3303", "errorDescription": "expired"}});
    let refuse = async |per_mille: u16| {
        let settings = json!({ "http_error_per_mille": per_mille });
        assert_eq!(world.send(Method::PUT, "/_sim/dfsps/dfsp-2", &settings).await.0, StatusCode::OK);
    };
    refuse(1000).await;
    assert_eq!(world.prepare("/dfsp-2", KNOWN_CONDITION).await, StatusCode::SERVICE_UNAVAILABLE);
    refuse(0).await;
    for (path, body, informative, unexpected) in [
        (format!("/dfsp-2/transfers/{ID}/error"), &expired, 1, 0),
        (format!("/dfsp-2/transfers/{other}/error"), &expired, 1, 1),
        (format!("/dfsp-2/transfers/{ID}"), &json!({"transferState": "COMMITTED"}), 1, 2),
    ] {
        assert_eq!(world.send(Method::PUT, &path, body).await.0, StatusCode::OK);
        let counters = world.simulator.counters();
        assert_eq!(
            (counters.callbacks_informative, counters.callbacks_unexpected),
            (informative, unexpected)
        );
    }
    world.end().await;
}

#[tokio::test]
async fn settings_are_read_and_changed_over_http() {
    let world = Watched::new();
    assert_eq!(world.send(Method::GET, "/health", &Value::Null).await.0, StatusCode::OK);
    let (_, list) = world.send(Method::GET, "/_sim/dfsps", &Value::Null).await;
    assert_eq!((list.as_array().unwrap().len(), &list[1]["name"]), (2, &json!("dfsp-2")));
    let wanted = json!({"delay_ms": 7, "drop_per_mille": 5});
    assert_eq!(world.send(Method::PUT, "/_sim/dfsps/dfsp-2", &wanted).await.0, StatusCode::OK);
    let (_, one) = world.send(Method::GET, "/_sim/dfsps/dfsp-2", &Value::Null).await;
    assert_eq!((&one["settings"]["delay_ms"], &one["settings"]["flavour"]), (&json!(7), &json!("COMMITTED")));
    for (method, path, body, status) in [
        (Method::PUT, "/_sim/dfsps/dfsp-2", json!({"drop_per_mille": 1001}), StatusCode::BAD_REQUEST),
        (Method::PUT, "/_sim/dfsps/dfsp-2", json!({"typo": 1}), StatusCode::BAD_REQUEST),
        (Method::PUT, "/_sim/dfsps/nobody", json!({}), StatusCode::NOT_FOUND),
        (Method::DELETE, "/_sim/dfsps/dfsp-2", json!({}), StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/_sim/else", json!({}), StatusCode::NOT_FOUND),
    ] {
        let (answered, problem) = world.send(method, path, &body).await;
        assert_eq!(answered, status, "{path} {body}");
        assert!(problem["error"].is_string(), "{path} {body}");
    }
    world.end().await;
}

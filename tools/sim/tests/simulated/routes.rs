//! The simulators' routes beside well-formed transfers of their own: the hub's messages to payees, Mojaloop's routes
//! with their web sockets, the controls, and a watcher.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use upesi_http::{ClientTls, Full, Method, Origin, Pool, PoolConfig, Request, StatusCode};
use upesi_pki::Trial;
use upesi_sim::{
    DfspSettings, OriginateError, Outcome, Secret, SecurityError, SimConfig, SimSecurity, Upstream,
};
use upesi_tls::{ClientFiles, Protocols, present_s};
use upesi_types::{FspId, TransferId};

use crate::common::{PATIENCE, Watched, World, prepare_of};

const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const KNOWN_CONDITION: &str = "GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA";
const KNOWN_FULFILMENT: &str = "V-IalzIzy-zxy0SrlY1Ku2OE9aS4KgGZ0W-Zq5_BeC0";

impl Watched {
    fn new() -> Self {
        Self::start(SimConfig {
            socket_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            answer_attempts_max: 1,
            ..SimConfig::new(2, Upstream::Peers)
        })
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let trace = format!("00-{TRACE}-b7ad6b7169203331-01");
        let (status, body) = self.request(method, path, Some(("traceparent", &trace)), body).await;
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn prepare(&self, base: &str, condition: &str) -> StatusCode {
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
async fn load_scripts_hear_of_their_callback_over_a_web_socket() {
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
async fn load_scripts_hear_of_parties_quotes_and_conversions_too() {
    let world = Watched::new();
    let party = "parties/ACCOUNT_ID/19012345002";
    let quote = json!({"quoteId": ID, "transactionId": ID, "amountType": "SEND", "amount": {"amount": "2", "currency": "XXX"},
        "payer": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345001", "fspId": "dfsp-1"}},
        "payee": {"partyIdInfo": {"partyIdType": "ACCOUNT_ID", "partyIdentifier": "19012345002", "fspId": "dfsp-2"}},
        "transactionType": {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}});
    let conversion = json!({"conversionRequestId": ID, "conversionTerms": {"conversionId": ID, "initiatingFsp": "dfsp-1",
        "counterPartyFsp": "dfsp-2", "amountType": "SEND", "sourceAmount": {"currency": "XXX", "amount": "2"},
        "targetAmount": {"currency": "XTS"}, "expiration": "2030-01-01T00:00:00.000Z"}});
    let (quote_path, conversion_path) = (format!("quotes/{ID}"), format!("fxQuotes/{ID}"));
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
            (Method::POST, "fxQuotes", &conversion, conversion_path.as_str()),
            (Method::GET, conversion_path.as_str(), &Value::Null, conversion_path.as_str()),
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
async fn a_payee_books_a_reserved_transfer_when_the_hub_patches_it() {
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
async fn unknown_transfers_and_paths_are_noticed() {
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
async fn the_end_of_a_refused_prepare_is_no_surprise() {
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

// Authenticated simulated DFSPs: mutual TLS, and signatures.

/// A long time from now, from a test's point of view.
const VALID: Duration = Duration::from_secs(3_600);

fn names() -> Vec<FspId> {
    SimConfig::new(2, Upstream::Peers).dfsps.into_iter().map(|(name, _)| name).collect()
}

fn trial(directory: &Path) -> Trial {
    let names: Vec<String> = names().iter().map(ToString::to_string).collect();
    Trial::make(directory, &names, &["127.0.0.1"], present_s()).unwrap()
}

fn secured(trial: &Trial) -> SimSecurity {
    speaking(trial, Protocols::Http1)
}

fn speaking(trial: &Trial, protocols: Protocols) -> SimSecurity {
    SimSecurity::of_trial(trial, &names(), Some(protocols), true).unwrap()
}

#[tokio::test]
async fn they_pay_each_other_by_mutual_tls_with_signatures_of_their_own() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    assert!(world.simulator.base_url(&names()[0]).starts_with("https://"));
    assert_eq!(world.outcomes(10).await, [Outcome::Committed; 10]);
    let counters = world.simulator.counters();
    // A prepare and a fulfilment each.
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (20, 0));
    assert_eq!(counters.violations(), 0, "{counters:?}");

    // A client without a certificate is not admitted, whatever it requests.
    let files = ClientFiles { identity: None, ..trial.caller() };
    let tls = Some(ClientTls::load(files).unwrap());
    let port = world.simulator.local_addr().port();
    let stranger = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
    let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
    stranger.send(request, Instant::now() + PATIENCE).await.unwrap_err();
    world.end().await;
}

#[tokio::test]
async fn they_speak_http_2_where_they_are_told_to() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    for (protocols, is_shared) in [(Protocols::Http1, false), (Protocols::Http2AndHttp1, true)] {
        let security = speaking(&trial, protocols);
        // Each end offers both protocols if it is configured to, so one connection shows both.
        let tls = security.tls.as_ref().map(|tls| tls.clients[0].clone());
        let world = World::with(DfspSettings::default(), |config| config.security = security);
        assert_eq!(world.outcomes(10).await, [Outcome::Committed; 10], "{protocols:?}");
        let port = world.simulator.local_addr().port();
        let one = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
        let request = Request::get("/_sim/dfsps").body(Full::default()).unwrap();
        assert_eq!(one.send(request, Instant::now() + PATIENCE).await.unwrap().status, StatusCode::OK);
        assert_eq!(one.connections_shared() > 0, is_shared, "{protocols:?}");
        world.end().await;
    }
}

#[tokio::test]
async fn signatures_made_ahead_are_those_of_the_messages_that_leave() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let world = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    let coming: Vec<_> = (0..5).map(|number| (number, 0, 1)).collect();
    assert_eq!(world.originator.sign_ahead(&coming, 2, VALID), 10);
    assert_eq!(world.outcomes(7).await, [Outcome::Committed; 7]);
    let counters = world.simulator.counters();
    assert_eq!((counters.signatures_made, counters.signatures_made_ahead), (4, 10));
    assert_eq!(counters.signatures_refused, 0, "{counters:?}");
    world.end().await;
}

/// As an adapter with strict checks does. The message has no effect.
#[tokio::test]
async fn a_message_without_a_header_of_the_api_is_refused_and_counted() {
    let world = Watched::new();
    let body = prepare_of(ID, KNOWN_CONDITION);
    let path = "/dfsp-2/transfers";
    for (header, value) in [("accept", "*/*"), ("date", "today"), ("fspiop-uri", "/elsewhere")] {
        let (status, answer) = world.request(Method::POST, path, Some((header, value)), &body).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{header}");
        assert_eq!(answer["errorInformation"]["errorCode"], "3101", "{header}");
    }
    let counters = world.simulator.counters();
    assert_eq!((counters.headers_refused, counters.prepares_received, counters.violations()), (3, 0, 3));
    assert_eq!(world.prepare("/dfsp-2", KNOWN_CONDITION).await, StatusCode::ACCEPTED);
    world.end().await;
}

#[tokio::test]
async fn what_is_not_its_senders_is_refused_and_not_taken_in() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let mut swapped = secured(&trial);
    swapped.signatures.as_mut().unwrap().keys.swap(0, 1);
    let world = World::with(DfspSettings::default(), |config| config.security = swapped);
    let sent = world.send(0..1).await.remove(0);
    assert!(matches!(sent, Err(OriginateError::Refused { status: StatusCode::BAD_REQUEST, .. })), "{sent:?}");
    let counters = world.simulator.counters();
    assert_eq!((counters.signatures_refused, counters.prepares_received), (1, 0));
    assert_eq!(counters.violations(), 1);
    world.end().await;

    // Unsigned messages are rejected, too.
    let payee = World::with(DfspSettings::default(), |config| config.security = secured(&trial));
    let tls = Some(ClientTls::load(trial.dfsp("dfsp-1")).unwrap());
    let port = payee.simulator.local_addr().port();
    let pool = Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..PoolConfig::default() });
    let request = Request::post("/dfsp-2/transfers").body(Full::from("{}")).unwrap();
    let answer = pool.send(request, Instant::now() + PATIENCE).await.unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(payee.simulator.counters().signatures_refused, 1);
    payee.end().await;
}

#[test]
fn keys_of_other_dfsps_are_named() {
    let directory = TempDir::new().unwrap();
    let trial = trial(directory.path());
    let other = FspId::parse("dfsp-3").unwrap();
    let refused = SimSecurity::of_trial(&trial, &[other], Some(Protocols::Http1), true).unwrap_err();
    assert!(matches!(refused, SecurityError::Unknown(name, _) if name == other), "{refused}");
}

//! Tests with a server on a real socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use upesi_fspiop::{PartyIdType, PartyPath};
use upesi_parties::party::DirectoryEntry;
use upesi_types::{Currency, ErrorCode};

use super::*;
use crate::scripted::{fsp, lock};

const HEADERS: &[u8] = b"content-type: application/vnd.interoperability.participants+json;version=1.1\r\n\
                         fspiop-source: bluebank\r\nx-own: kept\r\n";

/// A server that answers all requests alike, or none, and records them.
#[derive(Clone)]
struct Server {
    base: String,
    answer: Arc<Mutex<Option<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    arrived: Arc<Notify>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/base/", listener.local_addr().unwrap());
        let server =
            Self { base, answer: Arc::default(), asked: Arc::default(), arrived: Arc::new(Notify::new()) };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        server
    }

    fn answer(&self, status: u16, body: &str) {
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        *lock(&self.answer) = Some(answer);
    }

    /// Ends the connection in the middle of the answer.
    fn break_off(&self, status: u16) {
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 100");
        *lock(&self.answer) = Some(format!("{head}\r\n\r\n{{\"partyList\":["));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.asked))
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut bytes = Vec::new();
        loop {
            let head = loop {
                if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                    break at + 4;
                }
                if stream.read_buf(&mut bytes).await.ok()? == 0 {
                    return None;
                }
            };
            let text = String::from_utf8(bytes[..head].to_vec()).ok()?.to_lowercase();
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            while bytes.len() < head + length {
                stream.read_buf(&mut bytes).await.ok()?;
            }
            let request: Vec<u8> = bytes.drain(..head + length).collect();
            lock(&self.asked).push(String::from_utf8(request).ok()?);
            self.arrived.notify_one();
            let answer = lock(&self.answer).clone();
            match answer {
                Some(answer) => {
                    stream.write_all(answer.as_bytes()).await.ok()?;
                    if answer.ends_with('[') {
                        return None;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

fn oracle(base: &str, config: OracleConfig) -> ExternalOracle {
    ExternalOracle::new("7".to_owned(), base, config, DirectoryMetrics::register(&mut Registry::default()))
}

fn cached() -> OracleConfig {
    OracleConfig { cache_ttl: Duration::from_secs(3600), ..OracleConfig::default() }
}

/// Looks up a telephone number, with a sub id and a currency if `id` has them.
async fn find(oracle: &ExternalOracle, id: &str) -> Result<Vec<Owner>, OracleFailure> {
    let headers = Bytes::from_static(HEADERS);
    oracle.find(&inquiry(&headers, id, None, None)).await
}

fn inquiry<'a>(
    headers: &'a Bytes,
    id: &'a str,
    sub_id: Option<&'a str>,
    currency: Option<&str>,
) -> OracleRequest<'a> {
    OracleRequest {
        party: PartyPath { kind: PartyIdType::Alias, id, sub_id },
        currency: currency.and_then(Currency::parse),
        requester: fsp("bluebank"),
        headers,
    }
}

/// Method, target and body.
fn essence(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let line = head.split(" HTTP/1.1").next().unwrap();
    format!("{line} {body}").trim_end().to_owned()
}

#[tokio::test]
async fn each_operation_has_its_request_and_its_success() {
    let server = Server::start().await;
    let oracle = oracle(&server.base, OracleConfig::default());
    let headers = Bytes::from_static(HEADERS);
    let owner = fsp("greenbank");
    let plain = inquiry(&headers, "a+b%40c%2Fd", None, None);
    let full = inquiry(&headers, "acme", Some("shop%26%2B7"), Some("USD"));

    let list = r#"{"partyList":[{"fspId":"greenbank","currency":"USD","partySubIdOrType":"shop&+7"},
                  {"fspId":"redbank","partySubIdOrType":null,"x":1},{"fspId":""},{"fspId":"bl\u0075e","currency":"usd"}]}"#;
    server.answer(200, list);
    let found = oracle.find(&plain).await.unwrap();
    let sub_id = |owner: &Owner| owner.sub_id.as_deref().unwrap_or("-").to_owned();
    let found: Vec<_> =
        found.iter().map(|owner| (owner.fsp.to_string(), owner.currency, sub_id(owner))).collect();
    let usd = Currency::parse("USD");
    let expected = [("greenbank", usd, "shop&+7"), ("redbank", None, "-"), ("blue", None, "-")];
    assert_eq!(found, expected.map(|(fsp, currency, sub_id)| (fsp.to_owned(), currency, sub_id.to_owned())));
    oracle.find(&full).await.unwrap();
    server.answer(201, "");
    oracle.register(&plain, owner).await.unwrap();
    oracle.register(&full, owner).await.unwrap();
    server.answer(200, "{}");
    oracle.change(&full, owner).await.unwrap();
    server.answer(204, "");
    oracle.remove(&full).await.unwrap();

    let asked: Vec<_> = server.asked().iter().map(|request| essence(request)).collect();
    assert_eq!(
        asked,
        [
            "GET /base/participants/ALIAS/a+b@c%2Fd",
            "GET /base/participants/ALIAS/acme?currency=USD&partySubIdOrType=shop%26%2B7",
            r#"POST /base/participants/ALIAS/a+b@c%2Fd {"fspId":"greenbank"}"#,
            r#"POST /base/participants/ALIAS/acme {"fspId":"greenbank","currency":"USD","partySubIdOrType":"shop&+7"}"#,
            r#"PUT /base/participants/ALIAS/acme {"fspId":"greenbank","currency":"USD","partySubIdOrType":"shop&+7"}"#,
            "DELETE /base/participants/ALIAS/acme",
        ]
    );
}

#[tokio::test]
async fn request_to_an_oracle_has_the_senders_headers_and_the_hubs_encoding() {
    let server = Server::start().await;
    server.answer(200, r#"{"partyList":[]}"#);
    let oracle = oracle(&server.base, OracleConfig::default());
    assert_eq!(find(&oracle, "me").await, Ok(Vec::new()));
    let asked = server.asked();
    for (header, is_there) in [
        ("x-own: kept", true),
        ("fspiop-source: bluebank", true),
        ("content-type: application/vnd.interoperability.participants+json;version=1.1", true),
        ("host: 127.0.0.1", true),
        ("accept-encoding: identity", true),
    ] {
        assert_eq!(asked[0].contains(header), is_there, "{header}: {}", asked[0]);
    }
}

#[tokio::test]
async fn bad_answer_maps_to_its_error_code() {
    let told = r#"{"errorInformation":{"errorCode":"5107","errorDescription":"gone"}}"#;
    let long = format!(r#"{{"partyList":[],"x":"{}"}}"#, "x".repeat(70_000));
    let server = Server::start().await;
    let oracle = oracle(&server.base, OracleConfig::default());
    for (status, body, code, text) in [
        (400, told, 5107, "gone"),
        (404, told, 5107, "gone"),
        (500, told, 5107, "gone"),
        (200, told, 5107, "gone"),
        (404, "", 3200, "Generic ID not found - The oracle answered 404"),
        (404, "<html>", 3200, "Generic ID not found - The oracle answered 404"),
        (400, "{}", 3000, "Generic client error - The oracle answered 400"),
        (301, "", 1001, "Destination communication error - The oracle answered 301"),
        (500, "", 1001, "Destination communication error - The oracle failed"),
        (503, "<html>", 1001, "Destination communication error - The oracle failed"),
        (200, "", 1001, "Destination communication error - The oracle's answer is not understood"),
        (200, "{}", 1001, "Destination communication error - The oracle's answer is not understood"),
        (200, "<html>", 1001, "Destination communication error - The oracle's answer is not understood"),
        (
            200,
            r#"{"partyList":{}}"#,
            1001,
            "Destination communication error - The oracle's answer is not understood",
        ),
        (
            200,
            r#"{"partyList":[{"currency":"USD"}]}"#,
            1001,
            "Destination communication error - The oracle's answer is not understood",
        ),
        (200, &long, 1001, "Destination communication error - The oracle's answer is not understood"),
    ] {
        server.answer(status, body);
        let error = find(&oracle, "me").await.unwrap_err().to_error(Operation::Find);
        assert_eq!((error.code.number(), &*error.description), (code, text), "{status} {body:.40}");
    }
    server.answer(200, "");
    let headers = Bytes::from_static(HEADERS);
    let refused = oracle.register(&inquiry(&headers, "me", None, None), fsp("greenbank")).await;
    assert_eq!(refused, Err(OracleFailure::Refused { status: 200 }), "201 is success, 200 is not");
}

#[tokio::test]
async fn oracle_without_a_timely_answer_is_a_communication_error() {
    let server = Server::start().await;
    let config = OracleConfig { deadline: Duration::from_millis(50), ..OracleConfig::default() };
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for base in [&server.base, &format!("http://{closed}"), "https://oracle.example", "nonsense"] {
        let failure = find(&oracle(base, config.clone()), "me").await.unwrap_err();
        assert!(matches!(failure, OracleFailure::Unusable { .. }), "{base}: {failure}");
        assert_eq!(failure.to_error(Operation::Find).code, ErrorCode::DESTINATION_COMMUNICATION);
    }
}

#[tokio::test]
async fn failing_oracle_gets_no_requests_until_a_probe_succeeds() {
    let server = Server::start().await;
    let config = OracleConfig {
        breaker_threshold: 2,
        breaker_pause_min: Duration::from_secs(3600),
        breaker_pause_max: Duration::from_secs(3600),
        deadline: Duration::from_millis(50),
        ..OracleConfig::default()
    };
    let oracle = oracle(&server.base, config);
    for _ in 0..5 {
        find(&oracle, "me").await.unwrap_err();
    }
    assert_eq!(server.asked().len(), 2, "no request after two failures");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3601)).await;
    tokio::time::resume();
    // Any answer shows that it is reachable.
    server.answer(500, "");
    for _ in 0..3 {
        find(&oracle, "me").await.unwrap_err();
    }
    assert_eq!(server.asked().len(), 3);
}

/// Many lookups of one DFSP at a slow oracle do not prevent lookups of others.
#[tokio::test]
async fn oracle_requests_of_one_dfsp_leave_places_for_others() {
    let server = Server::start().await;
    let deadline = Duration::from_secs(3600);
    let config = OracleConfig { in_flight_max: 4, deadline, ..OracleConfig::default() };
    let oracle = Arc::new(oracle(&server.base, config));
    let ask = |requester: &'static str| {
        let oracle = oracle.clone();
        async move {
            let headers = Bytes::from_static(HEADERS);
            let inquiry = OracleRequest { requester: fsp(requester), ..inquiry(&headers, "me", None, None) };
            oracle.find(&inquiry).await
        }
    };
    let mut waiting = Vec::new();
    for requester in ["bluebank", "redbank", "greenbank"] {
        waiting.push(tokio::spawn(ask(requester)));
        server.arrived.notified().await;
        assert_eq!(ask(requester).await, Err(OracleFailure::Busy), "a quarter of the places");
    }
    // An aborted request releases its share.
    waiting.swap_remove(0).abort();
    server.answer(200, r#"{"partyList":[]}"#);
    while ask("bluebank").await == Err(OracleFailure::Busy) {
        tokio::task::yield_now().await;
    }
    for waiting in waiting {
        waiting.abort();
    }
}

#[tokio::test]
async fn requests_above_the_limit_of_an_oracle_fail_without_being_sent() {
    let server = Server::start().await;
    let config = OracleConfig {
        in_flight_max: 2,
        sender_share_percent: 100,
        deadline: Duration::from_secs(3600),
        ..OracleConfig::default()
    };
    let oracle = Arc::new(oracle(&server.base, config));
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let oracle = oracle.clone();
        waiting.push(tokio::spawn(async move { find(&oracle, "me").await }));
        server.arrived.notified().await;
    }
    for _ in 0..10 {
        assert_eq!(find(&oracle, "me").await, Err(OracleFailure::Busy));
    }
    // A cancelled caller releases its place.
    waiting.pop().unwrap().abort();
    server.answer(200, r#"{"partyList":[]}"#);
    while find(&oracle, "me").await == Err(OracleFailure::Busy) {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn cached_answers_are_used_until_a_change() {
    let server = Server::start().await;
    let oracle = oracle(&server.base, cached());
    let headers = Bytes::from_static(HEADERS);
    let shop = inquiry(&headers, "acme", Some("shop"), None);
    let usd = inquiry(&headers, "acme", None, Some("USD"));
    let plain = inquiry(&headers, "acme", None, None);
    let other = inquiry(&headers, "other", None, None);
    let all = [&shop, &usd, &plain, &other];
    server.answer(200, r#"{"partyList":[{"fspId":"greenbank"}]}"#);
    for _ in 0..3 {
        for inquiry in all {
            assert_eq!(oracle.find(inquiry).await.unwrap().len(), 1);
        }
    }
    assert_eq!(server.asked().len(), 4, "each once");
    assert_eq!(oracle.metrics.cache_hits("7"), 8);

    // A change affects all cached answers about its identifier, and no others; a rejected change does too.
    server.answer(400, "");
    oracle.change(&usd, fsp("redbank")).await.unwrap_err();
    server.answer(200, r#"{"partyList":[]}"#);
    server.asked();
    for (inquiry, owners) in all.into_iter().zip([0, 0, 0, 1]) {
        assert_eq!(oracle.find(inquiry).await.unwrap().len(), owners);
        assert_eq!(
            oracle.find(inquiry).await.unwrap().len(),
            owners,
            "an answer without owners is also cached"
        );
    }
    assert_eq!(server.asked().len(), 3);
    oracle.clear_cache();
    oracle.find(&other).await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn unknown_party_is_the_only_cached_failure() {
    let server = Server::start().await;
    let told = r#"{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"}}"#;
    for (status, body, asked) in
        [(404, "", 1), (404, told, 1), (400, "", 2), (500, "", 2), (200, "garbage", 2)]
    {
        let oracle = oracle(&server.base, cached());
        server.answer(status, body);
        let first = find(&oracle, "me").await;
        assert_eq!(first, find(&oracle, "me").await);
        assert_eq!(server.asked().len(), asked, "{status} {body}");
    }
}

#[tokio::test]
async fn batch_has_an_answer_for_each_entry() {
    let server = Server::start().await;
    let oracle = oracle(&server.base, OracleConfig::default());
    let entry = |id: &str, sub_id: Option<&str>| DirectoryEntry {
        kind: PartyIdType::Business,
        id: id.into(),
        sub_id: sub_id.map(Into::into),
        currency: None,
        fsp: fsp("bluebank"),
    };
    let entries = [entry("a", None), entry("a", Some("shop")), entry("b", None), entry("c", None)];
    let headers = Bytes::from_static(HEADERS);
    let batch = BatchInquiry {
        request_id: "01J8ZC5Y2T3V4W5X6Y7Z8A9B0C",
        currency: Currency::parse("USD"),
        entries: &entries,
        requester: fsp("bluebank"),
        headers: &headers,
    };
    let answer = r#"{"partyList":[
        {"partyId":{"partyIdType":"BUSINESS","partyIdentifier":"b"},"errorInformation":{"errorCode":"3003","errorDescription":"taken"}},
        {"partyId":{"partyIdType":"BUSINESS","partyIdentifier":"a","partySubIdOrType":"shop","fspId":"bluebank"}},
        {"partyId":{"partyIdType":"BUSINESS","partyIdentifier":"a"},"errorInformation":{"errorCode":"what"}},
        {"partyId":{"partyIdType":"MSISDN","partyIdentifier":"c"}}]}"#;
    for status in [201, 200] {
        server.answer(status, answer);
        let outcomes = oracle.register_batch(&batch).await.unwrap();
        let shown: Vec<_> = outcomes
            .into_iter()
            .map(|outcome| {
                outcome.map_or_else(|error| format!("{} {}", error.code, error.description), |()| "ok".into())
            })
            .collect();
        assert_eq!(
            shown,
            ["3003 Add Party information error", "ok", "3003 taken", "3003 Add Party information error"],
            "{status}"
        );
    }
    assert_eq!(
        essence(&server.asked()[0]),
        r#"POST /base/participants {"requestId":"01J8ZC5Y2T3V4W5X6Y7Z8A9B0C","partyList":[{"partyIdType":"BUSINESS","partyIdentifier":"a","fspId":"bluebank"},{"partyIdType":"BUSINESS","partyIdentifier":"a","partySubIdOrType":"shop","fspId":"bluebank"},{"partyIdType":"BUSINESS","partyIdentifier":"b","fspId":"bluebank"},{"partyIdType":"BUSINESS","partyIdentifier":"c","fspId":"bluebank"}],"currency":"USD"}"#
    );
    for (status, body, code) in
        [(202, answer, 3003), (201, "[]", 3003), (200, "[]", 3003), (201, "", 3003), (500, "", 1001)]
    {
        server.answer(status, body);
        let error = oracle.register_batch(&batch).await.unwrap_err().to_error(Operation::RegisterBatch);
        assert_eq!(error.code.number(), code, "{status} {body}");
    }
    server.break_off(201);
    let error = oracle.register_batch(&batch).await.unwrap_err().to_error(Operation::RegisterBatch);
    assert_eq!(
        (error.code.number(), &*error.description),
        (3003, "Add Party information error - The oracle's answer is not understood")
    );
}

/// For a registration the status alone is sufficient. A lookup needs the body.
#[tokio::test]
async fn registration_succeeds_although_its_body_is_incomplete() {
    let server = Server::start().await;
    let oracle = oracle(&server.base, OracleConfig::default());
    let headers = Bytes::from_static(HEADERS);
    let party = inquiry(&headers, "me", None, None);
    server.break_off(201);
    assert_eq!(oracle.register(&party, fsp("greenbank")).await, Ok(()));
    server.break_off(200);
    assert_eq!(oracle.change(&party, fsp("greenbank")).await, Ok(()));
    assert_eq!(oracle.remove(&party).await, Ok(()));
    let error = find(&oracle, "me").await.unwrap_err().to_error(Operation::Find);
    assert_eq!(error.code, ErrorCode::DESTINATION_COMMUNICATION);
    // A registration succeeds only with 201. Any other status is an error, even if the body is incomplete.
    server.break_off(200);
    let refused = oracle.register(&party, fsp("greenbank")).await;
    assert_eq!(refused, Err(OracleFailure::Refused { status: 200 }));
    server.break_off(500);
    let error = oracle.register(&party, fsp("greenbank")).await.unwrap_err().to_error(Operation::Register);
    assert_eq!(error.code, ErrorCode::DESTINATION_COMMUNICATION);
    assert_eq!(server.asked().len(), 6);
}

mod cache {
    use super::*;
    use crate::oracle::external::AnswerCache;

    #[tokio::test(start_paused = true)]
    async fn cache_is_limited_in_time_and_number_and_rejects_outdated_answers() {
        let cache = AnswerCache::new(Duration::from_secs(3), 2);
        let headers = Bytes::new();
        let of = |id| inquiry(&headers, id, None, None);
        let answer = Ok(Vec::new());
        for id in ["a", "b", "c"] {
            cache.put(&of(id), cache.epoch(), &answer);
        }
        let kept = || ["a", "b", "c"].map(|id| cache.get(&of(id)).is_some());
        assert_eq!(kept(), [false, true, true], "the oldest made way");
        tokio::time::advance(Duration::from_secs(2)).await;
        cache.put(&of("a"), cache.epoch(), &answer);
        assert_eq!(kept(), [true, false, true]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(kept(), [true, false, false]);
        // Queried before the change, answered after it.
        let epoch = cache.epoch();
        cache.forget(PartyIdType::Alias, "b");
        cache.put(&of("b"), epoch, &answer);
        assert_eq!(kept(), [true, false, false]);
        cache.clear();
        assert_eq!(kept(), [false; 3]);
    }
}

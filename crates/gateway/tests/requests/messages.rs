//! Requests that are not about transfers: checked like all others, then passed on as one typed request.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::common::{Answer, ERROR_BODY, Recorder, Running, Settings, TestContext, request};
use upesi_delivery::Request;

/// Time limit for expected events.
const PATIENCE: Duration = Duration::from_secs(30);

const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";
fn recorder() -> &'static Arc<Recorder> {
    static RECORDER: OnceLock<Arc<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(Arc::default)
}

fn start() -> Running {
    Running::start(Settings { recorder: Some(recorder().clone()), ..Settings::default() })
}

fn last_of(path: &str) -> Option<Request> {
    recorder().0.lock().unwrap().iter().rev().find(|request| &*request.path() == path).cloned()
}

/// A request with the media types of its family, in a version that all families have.
fn about(line: &str, edits: &[&str], body: &str) -> Vec<u8> {
    let path = line.split_once(' ').unwrap().1;
    let family = path[1..].split(['/', '?']).next().unwrap();
    let media = format!("application/vnd.interoperability.{family}+json;version=1.0");
    let (content_type, accept) = (format!("content-type: {media}"), format!("accept: {media}"));
    let mut all = vec![content_type.as_str()];
    all.push(if line.starts_with("PUT") { "-accept" } else { &accept });
    all.extend_from_slice(edits);
    request(line, &all, body)
}

const PARTY: &str =
    r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"bluewallet"}}}"#;
const REGISTRATION: &str = r#"{"fspId":"greenbank","currency":"KES"}"#;
const BATCH: &str = r#"{"requestId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","partyList":[{"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"}]}"#;
const QUOTE: &str = r#"{"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011"}},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"amountType":"SEND","amount":{"amount":"12.5","currency":"KES"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}"#;
const TERMS: &str = r#"{"transferAmount":{"amount":"12.5","currency":"KES"},"expiration":"2031-04-01T12:00:30.000Z","ilpPacket":"DIIBeQ","condition":"OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"}"#;
const TRANSACTION_REQUEST: &str = r#"{"transactionRequestId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"payer":{"partyIdType":"MSISDN","partyIdentifier":"26011"},"amount":{"amount":"12.5","currency":"KES"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYEE","initiatorType":"CONSUMER"}}"#;
const OTP: &str = "authenticationType=OTP&retriesLeft=2&amount=12.5&currency=KES";

#[test]
fn every_route_answers_its_status_and_hands_over_the_request() {
    let running = start();
    let mut client = running.connect();
    let otp = format!("GET /authorizations/{ID}?{OTP}");
    for (line, body, status) in [
        ("GET /participants/MSISDN/26097", "", 202),
        ("POST /participants/MSISDN/26097", REGISTRATION, 202),
        ("PUT /participants/MSISDN/26097/shop-7", REGISTRATION, 200),
        ("DELETE /participants/MSISDN/26097", "", 202),
        ("PUT /participants/MSISDN/26097/error", ERROR_BODY, 200),
        ("POST /participants", BATCH, 200),
        ("GET /parties/BUSINESS/a%20b", "", 400),
        ("GET /parties/MSISDN/26097", "", 202),
        ("GET /parties/BUSINESS/acme/till-7", "", 202),
        ("GET /parties/BUSINESS/acme/%7Btill%20seven%7D", "", 202),
        ("PUT /participants/BUSINESS/acme/DRIVING%20LICENCE", REGISTRATION, 200),
        ("PUT /parties/MSISDN/26097", PARTY, 200),
        ("PUT /parties/BUSINESS/acme/till-7/error", ERROR_BODY, 200),
        ("POST /quotes", QUOTE, 202),
        (&format!("GET /quotes/{ID}"), "", 202),
        (&format!("PUT /quotes/{ID}"), TERMS, 200),
        (&format!("PUT /quotes/{ID}/error"), ERROR_BODY, 200),
        (&format!("GET /bulkQuotes/{ID}"), "", 202),
        (&format!("PUT /fxQuotes/{ID}/error"), ERROR_BODY, 200),
        ("POST /transactionRequests", TRANSACTION_REQUEST, 202),
        (&format!("PUT /transactionRequests/{ID}/error"), ERROR_BODY, 200),
        (&otp, "", 202),
    ] {
        let edits: &[&str] = if body.is_empty() { &[] } else { &["fspiop-signature: s"] };
        let answer = client.exchange(&about(line, edits, body));
        assert_eq!(answer.status, status, "{line} {answer:?}");
        let (_, target) = line.split_once(' ').unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let taken = last_of(path);
        if status == 400 {
            assert!(taken.is_none());
            continue;
        }
        assert_eq!(answer.body, "", "{line}");
        let taken = taken.unwrap_or_else(|| panic!("{line} was not handed over"));
        assert_eq!(taken.body, body.as_bytes(), "{line}");
        assert_eq!(taken.query.as_deref(), query, "{line}");
        assert_eq!(taken.parties.source.as_str(), "greenbank");
        assert_eq!(
            taken.parties.destination.map(|name| name.as_str().to_owned()).as_deref(),
            Some("bluewallet")
        );
        let headers = String::from_utf8(taken.headers.to_vec()).unwrap();
        assert_eq!(headers.contains("fspiop-signature: s\r\n"), !body.is_empty(), "{line}: {headers}");
        assert!(!headers.contains("host:"), "{headers}");
    }
}

#[test]
fn rejections_follow_the_order_of_checks_and_nothing_is_handed_over() {
    let running = start();
    let mut client = running.connect();
    let handed_over =
        || recorder().0.lock().unwrap().iter().filter(|taken| taken.path().contains("990")).count();
    for (line, edits, body, status, code, contains) in [
        ("GET /parties/MSISDN/990", &["-date"][..], "", 400, 3102, "Missing required date header"),
        ("GET /parties/MSISDN/990", &["+date: x"], "", 400, 3101, "/header/date must occur only once"),
        ("GET /parties/MSISDN/990", &["-fspiop-source"], "", 400, 3102, "fspiop-source"),
        (
            "GET /parties/MSISDN/990",
            &["fspiop-source: stranger"],
            "",
            400,
            3101,
            "invalid fspiop-source header",
        ),
        (
            "GET /parties/PASSPORT/990",
            &[],
            "",
            400,
            3100,
            "/path/Type must be equal to one of the allowed values",
        ),
        (
            "GET /parties/CONSENT/990",
            &[],
            "",
            400,
            3100,
            "/path/Type must be equal to one of the allowed values",
        ),
        ("PUT /parties/MSISDN/990", &[], "{}", 400, 3102, "party"),
        ("PUT /parties/MSISDN/990/error", &[], "{}", 400, 3102, "errorInformation"),
        ("POST /participants/MSISDN/990", &[], "{}", 400, 3102, "fspId"),
        ("POST /participants/MSISDN/990", &["-fspiop-source"], "{}", 400, 3102, "fspId"),
        ("PUT /participants/990", &[], REGISTRATION, 501, 2002, "Not implemented"),
        ("PUT /quotes/6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7990", &[], "{}", 400, 3102, "transferAmount"),
        (
            "PUT /quotes/6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7990",
            &["-fspiop-destination"],
            TERMS,
            400,
            3102,
            "fspiop-destination",
        ),
        (
            "GET /authorizations/6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7990",
            &[],
            "",
            400,
            3102,
            "authenticationType",
        ),
        (
            "GET /authorizations/6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7990?authenticationType=PIN&retriesLeft=1&amount=1&currency=KES",
            &[],
            "",
            400,
            3100,
            "authenticationType",
        ),
        ("DELETE /parties/MSISDN/990", &[], "", 405, 3000, "Method Not Allowed"),
        ("GET /parties/MSISDN", &[], "", 404, 3002, "Unknown URI"),
    ] {
        let answer: Answer = client.exchange(&about(line, edits, body));
        assert_eq!((answer.status, answer.code()), (status, code), "{line} {edits:?}: {answer:?}");
        assert!(answer.body.contains(contains), "{line} {edits:?}: {answer:?}");
    }
    assert_eq!(handed_over(), 0);
}

#[test]
fn counters_have_a_label_per_resource_and_no_text_of_the_sender() {
    let running = start();
    assert_eq!(running.ask(&about("GET /parties/MSISDN/770001", &[], "")).status, 202);
    assert_eq!(running.ask(&about("GET /parties/PASSPORT/770001", &[], "")).status, 400);
    let metrics = running.metrics();
    for line in [
        r#"upesi_http_requests_total{method="GET",resource="parties/{Type}/{ID}",status="202"} 1"#,
        r#"upesi_http_requests_total{method="GET",resource="parties/{Type}/{ID}",status="400"} 1"#,
        r#"moja_als_ing_getPartiesByTypeAndID_count{success="true"} 1"#,
        r#"moja_als_ing_getPartiesByTypeAndID_count{success="false"} 1"#,
        r#"upesi_fspiop_refusals_total{code="3100"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("770001"));
}

#[test]
fn clearing_the_endpoint_cache_is_handed_over() {
    static CLEARED: Mutex<u32> = Mutex::new(0);
    let dress =
        |context: &mut TestContext| context.endpoint_cache = Box::new(|| *CLEARED.lock().unwrap() += 1);
    let running = Running::start(Settings { dress, ..Settings::default() });
    assert_eq!(running.ask(b"DELETE /endpointcache HTTP/1.1\r\nhost: h\r\n\r\n").status, 202);
    assert_eq!(*CLEARED.lock().unwrap(), 1);
}

#[test]
fn large_bodies_of_unauthenticated_clients_leave_room_for_others() {
    let running = start();
    let large = QUOTE.replacen('{', &format!("{{{}", " ".repeat(200 * 1024)), 1);
    let whole = about("POST /quotes", &[], &large);
    let (begun, last) = whole.split_at(whole.len() - 1);
    // One more than the share of an address: the last one that the hub reads is rejected.
    let mut slow: Vec<_> = (0..17).map(|_| running.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(begun));
    let sent = Instant::now();
    let refused = loop {
        if let Some(index) = slow.iter().position(|client| client.has_answer()) {
            break index;
        }
        assert!(sent.elapsed() < PATIENCE, "one body more than an address may hold open is refused");
        std::thread::yield_now();
    };
    let answer = slow.swap_remove(refused).answer();
    assert_eq!(answer.status, 503);
    assert_eq!((answer.code(), answer.header("retry-after")), (2005, Some("1")), "{answer:?}");
    assert_eq!(running.ask(&about("POST /quotes", &[], QUOTE)).status, 202, "small ones are taken");
    for client in &mut slow {
        client.send(last);
        assert_eq!(client.answer().status, 202);
    }
    // The shares are returned when the messages end, perhaps after their answers.
    let begun = Instant::now();
    while running.ask(&whole).status != 202 {
        assert!(begun.elapsed() < PATIENCE, "their shares were returned");
    }
}

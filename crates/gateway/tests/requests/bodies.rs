//! Bodies that break the schema, over a real socket: code, text, and no effect on the ledger.

use std::sync::Arc;

use upesi_delivery::Request;
use upesi_gateway::GatewayConfig;

use crate::common::{
    Answer, Client, ERROR_BODY, ID, Recorder, Running, Settings, chunked, fulfil_body, post, prepare_body,
    put, put_error, request, two_banks,
};

/// A body, its error code, and a part of the description.
type Row = (String, u16, &'static str);

fn check(running: &Running, rows: &[Row], send: fn(&str) -> Vec<u8>) {
    let before = running.records();
    let mut client = running.connect();
    for (body, code, contains) in rows {
        let answer = client.exchange(&send(body));
        assert_eq!((answer.status, answer.code()), (400, *code), "{body}\n{answer:?}");
        assert!(answer.body.contains(contains), "{body}\n{answer:?}");
    }
    assert_eq!(running.records(), before);
}

/// The body of a prepare with a replaced text, which must be in it.
fn changed(from: &str, to: &str) -> String {
    let body = prepare_body(ID);
    assert!(body.contains(from), "{from}");
    body.replacen(from, to, 1)
}

/// The text of a JSON member in the body of a prepare.
fn member(name: &str) -> String {
    let body = prepare_body(ID);
    let start = body.find(&format!("\"{name}\":")).unwrap();
    let value = start + name.len() + 3;
    let end = match body.as_bytes()[value] {
        b'{' => value + body[value..].find('}').unwrap() + 1,
        _ => value + 1 + body[value + 1..].find('"').unwrap() + 1,
    };
    body[start..end].to_owned()
}

const REQUIRED: [&str; 7] =
    ["transferId", "payeeFsp", "payerFsp", "amount", "ilpPacket", "condition", "expiration"];

#[test]
fn a_prepare_lacks_something() {
    let running = Running::plain();
    for name in REQUIRED {
        let body = prepare_body(ID).replacen(&format!("{},", member(name)), "", 1);
        let body = body.replacen(&format!(",{}", member(name)), "", 1);
        let answer = running.ask(&post(&[], &body));
        assert_eq!((answer.status, answer.code()), (400, 3102), "{body}");
        let text = format!("Missing mandatory element - /requestBody must have required property '{name}'");
        assert!(answer.body.contains(&text), "{answer:?}");
    }
    check(
        &running,
        &[
            (String::new(), 3102, "/requestBody must have required property 'transferId'"),
            ("{}".into(), 3102, "'transferId'"),
            (
                changed(r#""currency":"KES","#, ""),
                3102,
                "/requestBody/amount must have required property 'currency'",
            ),
            (
                changed(r#","amount":"125.5""#, ""),
                3102,
                "/requestBody/amount must have required property 'amount'",
            ),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn a_prepare_has_wrong_types() {
    let running = Running::plain();
    for name in REQUIRED {
        for wrong in ["[]", "[1]"] {
            let answer = running.ask(&post(&[], changed(&member(name), &format!("\"{name}\":{wrong}"))));
            assert_eq!((answer.status, answer.code()), (400, 3101), "{name} {wrong}");
            let expected = if name == "amount" { "must be object" } else { "must be string" };
            assert!(answer.body.contains(&format!("/requestBody/{name} {expected}")), "{answer:?}");
        }
    }
    check(
        &running,
        &[
            ("[]".into(), 3101, "Malformed syntax - /requestBody must be object"),
            ("\"text\"".into(), 3101, "/requestBody must be object"),
            ("12".into(), 3101, "/requestBody must be object"),
            ("null".into(), 3101, "/requestBody must be object"),
            (
                changed(r#"{"currency":"KES","amount":"125.5"}"#, r#""125.5""#),
                3101,
                "/requestBody/amount must be object",
            ),
            (changed(r#""KES""#, "{}"), 3101, "/requestBody/amount/currency must be string"),
            (
                changed(r#""expiration""#, r#""extensionList":[],"expiration""#),
                3101,
                "/requestBody/extensionList must be object",
            ),
            (
                changed(r#""expiration""#, r#""extensionList":{"extension":{}},"expiration""#),
                3101,
                "/requestBody/extensionList/extension must be array",
            ),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn a_prepare_breaks_a_pattern() {
    let extensions = |items: &str| {
        changed(r#""expiration""#, &format!(r#""extensionList":{{"extension":[{items}]}},"expiration""#))
    };
    let seventeen = vec![r#"{"key":"k","value":"v"}"#; 17].join(",");
    check(
        &Running::plain(),
        &[
            (changed(ID, &ID.to_uppercase()), 3100, "/requestBody/transferId must match pattern"),
            (changed(ID, "x"), 3100, "Generic validation error - /requestBody/transferId must match pattern"),
            (
                changed(r#""greenbank""#, r#""""#),
                3100,
                "/requestBody/payerFsp must NOT have fewer than 1 characters",
            ),
            (
                changed("bluewallet", &"b".repeat(33)),
                3100,
                "/requestBody/payeeFsp must NOT have more than 32 characters",
            ),
            (
                changed("KES", "KEX"),
                3100,
                "/requestBody/amount/currency must be equal to one of the allowed values",
            ),
            (changed("125.5", "125.50"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "-1"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "01"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed("125.5", "1e3"), 3100, "/requestBody/amount/amount must match pattern"),
            (changed(r#""125.5""#, "125.5"), 3101, "/requestBody/amount/amount must be string"),
            (changed(r#""125.5""#, "125"), 3101, "/requestBody/amount/amount must be string"),
            (changed(r#""125.5""#, "null"), 3101, "/requestBody/amount/amount must be string"),
            (changed("AYICexample", "not base64!"), 3100, "/requestBody/ilpPacket must match pattern"),
            (
                changed("AYICexample", &"A".repeat(32_769)),
                3100,
                "/requestBody/ilpPacket must NOT have more than 32768 characters",
            ),
            (
                changed(r#""condition":""#, r#""condition":"A"#),
                3100,
                "/requestBody/condition must match pattern",
            ),
            (changed("30.000Z", "30Z"), 3100, "/requestBody/expiration must match pattern"),
            (changed("2031-04-01", "2031-02-29"), 3100, "/requestBody/expiration must match pattern"),
            (extensions(""), 3100, "/requestBody/extensionList/extension must NOT have fewer than 1 items"),
            (extensions(&seventeen), 3100, "must NOT have more than 16 items"),
            (extensions(r#"{"key":"k","value":""}"#), 3100, "/requestBody/extensionList/extension/0/value"),
            (extensions(r#"{"key":"k"}"#), 3102, "must have required property 'value'"),
        ],
        |body| post(&[], body),
    );
}

#[test]
fn a_body_is_no_json() {
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    check(
        &Running::plain(),
        &[
            ("{".into(), 3101, "Malformed syntax - /requestBody is not valid JSON"),
            (prepare_body(ID) + "}", 3101, "/requestBody is not valid JSON"),
            (prepare_body(ID).replace("\":\"", "\"=\""), 3101, "/requestBody is not valid JSON"),
            ("<transfer/>".into(), 3101, "/requestBody is not valid JSON"),
            (changed("greenbank", "green\0bank"), 3101, "Malformed syntax"),
            (changed("AYICexample", "\n"), 3101, "Malformed syntax"),
            (deep, 3101, "/requestBody is nested deeper than 128 levels"),
            ("[".repeat(60_000), 3101, "/requestBody is nested deeper than 128 levels"),
            (changed(r#""amount":{"#, r#""amount":{},"amount":{"#), 3101, "property 'amount' occurs twice"),
        ],
        |body| post(&[], body),
    );
    let running = Running::plain();
    let mut body = prepare_body(ID).into_bytes();
    body[20] = 0xff;
    let answer = running.ask(&post(&[], body));
    assert_eq!((answer.status, answer.code()), (400, 3101));
    assert!(answer.body.contains("/requestBody is not valid UTF-8"), "{answer:?}");
}

#[test]
fn unusual_bodies_are_taken() {
    let running = Running::plain();
    let nested = format!(r#""x":{}1{},"expiration""#, "[".repeat(126), "]".repeat(126));
    for body in [
        changed(r#""expiration""#, r#""extra":{"a":[1,null]},"expiration""#),
        changed(r#""expiration""#, &nested),
        prepare_body(ID).replace(',', " ,\r\n\t"),
        prepare_body("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        prepare_body(ID) + "\n",
    ] {
        assert_eq!(running.ask(&post(&[], &body)).status, 202, "{body}");
    }
}

#[test]
fn fulfils_break_the_schema() {
    check(
        &Running::plain(),
        &[
            (String::new(), 3102, "/requestBody must have required property 'transferState'"),
            (r#"{"fulfilment":1}"#.into(), 3102, "'transferState'"),
            ("[]".into(), 3101, "/requestBody must be object"),
            (
                r#"{"transferState":"DONE"}"#.into(),
                3100,
                "/requestBody/transferState must be equal to one of",
            ),
            (r#"{"transferState":{}}"#.into(), 3101, "/requestBody/transferState must be string"),
            (
                r#"{"transferState":"COMMITTED","fulfilment":"short"}"#.into(),
                3100,
                "/requestBody/fulfilment must match pattern",
            ),
            (
                r#"{"transferState":"COMMITTED","completedTimestamp":"yesterday"}"#.into(),
                3100,
                "/requestBody/completedTimestamp must match pattern",
            ),
        ],
        |body| put(ID, &[], body),
    );
}

#[test]
fn aborts_break_the_schema() {
    check(
        &Running::plain(),
        &[
            ("{}".into(), 3102, "/requestBody must have required property 'errorInformation'"),
            (ERROR_BODY.replace("errorCode", "code"), 3102, "must have required property 'errorCode'"),
            (
                ERROR_BODY.replace("errorDescription", "text"),
                3102,
                "must have required property 'errorDescription'",
            ),
            (r#"{"errorInformation":"5104"}"#.into(), 3101, "/requestBody/errorInformation must be object"),
            (
                ERROR_BODY.replace("5104", "51"),
                3100,
                "/requestBody/errorInformation/errorCode must match pattern",
            ),
            (ERROR_BODY.replace("5104", "0104"), 3100, "errorCode must match pattern"),
            (
                ERROR_BODY.replace("account frozen", &"x".repeat(129)),
                3100,
                "/requestBody/errorInformation/errorDescription must NOT have more than 128 characters",
            ),
        ],
        |body| put_error(ID, &[], body),
    );
}

#[test]
fn completed_timestamps() {
    let at = |time: &str| fulfil_body().replacen('{', &format!(r#"{{"completedTimestamp":"{time}","#), 1);
    let running = Running::plain();
    let future = "completedTimestamp fails because future timestamp was provided";
    let stale = "exceeded the maximum timeout duration";
    check(
        &running,
        &[
            (at("2031-04-01T12:00:00.201Z"), 3100, future),
            (at("2999-01-01T00:00:00.000Z"), 3100, future),
            (at("2031-04-01T11:54:59.999Z"), 3100, stale),
            (at("1999-01-01T00:00:00.000Z"), 3100, stale),
        ],
        |body| put(ID, &[], body),
    );
    for time in ["2031-04-01T12:00:00.200Z", "2031-04-01T11:55:00.000Z"] {
        assert_eq!(running.ask(&put(ID, &[], at(time))).status, 200, "{time}");
    }
    let proxied = put(ID, &["fspiop-proxy: bridge"], at("1999-01-01T00:00:00.000Z"));
    assert_eq!(running.ask(&proxied).status, 200);
}

// Bodies over 64 KiB: the number of bytes that the hub holds, from the first byte until the last holder releases them.

const KIB: usize = 1024;
const BODY_BYTES_MAX: usize = 5 * KIB * KIB;

/// The recorder forwards nothing, so it holds everything.
fn let_go(recorder: &Recorder) -> Request {
    recorder.0.lock().unwrap().remove(0)
}

fn start(large_bodies_bytes_max: usize) -> (Running, Arc<Recorder>) {
    let gateway = GatewayConfig { large_bodies_bytes_max, ..GatewayConfig::default() };
    let recorder = Arc::<Recorder>::default();
    let settings = Settings { gateway, recorder: Some(Arc::clone(&recorder)), ..Settings::default() };
    (Running::start(settings), recorder)
}

/// A quote of exactly this many bytes, most of them white space.
fn quote(bytes: usize) -> String {
    const QUOTE: &str = r#"{@"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11","transactionId":"0d7f4e1c-2b8a-4f1e-9a55-3b1c2d4e5f60","payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011"}},"payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26097"}},"amountType":"SEND","amount":{"amount":"12.5","currency":"KES"},"transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}"#;
    QUOTE.replacen('@', &" ".repeat(bytes + 1 - QUOTE.len()), 1)
}

fn send(running: &Running, body: &str, is_chunked: bool) -> Answer {
    running.ask(&message("greenbank", body, is_chunked))
}

fn message(source: &str, body: &str, is_chunked: bool) -> Vec<u8> {
    const MEDIA: &str = "application/vnd.interoperability.quotes+json;version=1.0";
    let (content_type, accept) = (format!("content-type: {MEDIA}"), format!("accept: {MEDIA}"));
    let (source, destination) = (format!("fspiop-source: {source}"), "fspiop-destination: redmoney");
    let mut edits = vec![content_type.as_str(), &accept, &source, destination];
    if is_chunked {
        edits.extend(["-content-length", "transfer-encoding: chunked"]);
        return request("POST /quotes", &edits, chunked(body, 50_000));
    }
    request("POST /quotes", &edits, body)
}

fn is_busy(answer: &Answer) -> bool {
    answer.status == 503 && answer.code() == 2005 && answer.header("retry-after") == Some("1")
}

#[test]
fn a_large_body_counts_until_it_is_passed_on() {
    for is_chunked in [false, true] {
        let (running, silent) = start(200 * KIB);
        assert_eq!(send(&running, &quote(150 * KIB), is_chunked).status, 202);
        let answer = send(&running, &quote(64 * KIB + 1), is_chunked);
        assert!(is_busy(&answer), "the first is still held: {answer:?}");
        for _ in 0..10 {
            assert_eq!(send(&running, &quote(64 * KIB), is_chunked).status, 202, "small ones always pass");
        }
        // A holder of a piece holds the whole body.
        let piece = let_go(&silent).body.slice(1_000..1_001);
        assert!(is_busy(&send(&running, &quote(64 * KIB + 1), is_chunked)));
        drop(piece);
        assert_eq!(send(&running, &quote(64 * KIB + 1), is_chunked).status, 202);
    }
}

#[test]
fn what_can_never_be_taken_is_not_told_to_try_again() {
    let (running, _silent) = start(8 * KIB * KIB);
    for is_chunked in [false, true] {
        let answer = send(&running, &quote(BODY_BYTES_MAX + 1), is_chunked);
        assert_eq!((answer.status, answer.code()), (400, 3104), "{answer:?}");
        let text = "Too large payload - Payload content length greater than maximum allowed: 5242880";
        assert!(answer.body.contains(text), "{answer:?}");
    }
}

#[test]
fn a_body_of_the_limit_is_taken_whole() {
    let (running, silent) = start(8 * KIB * KIB);
    for is_chunked in [false, true] {
        assert_eq!(send(&running, &quote(BODY_BYTES_MAX), is_chunked).status, 202);
        assert!(let_go(&silent).body == quote(BODY_BYTES_MAX));
    }
}

/// A connection with a valid request of a participant.
fn known(running: &Running, source: &str) -> Client {
    let mut client = running.connect();
    assert_eq!(client.exchange(&message(source, &quote(1_000), false)).status, 202);
    client
}

/// As [`start`], with two participants and a share of 200 KiB for each sender.
fn start_with_shares() -> (Running, Arc<Recorder>) {
    let gateway = GatewayConfig {
        large_bodies_bytes_max: 1_000 * KIB,
        sender_bodies_bytes_max: 200 * KIB,
        ..GatewayConfig::default()
    };
    let recorder = Arc::<Recorder>::default();
    let passed_on = Some(Arc::clone(&recorder));
    let settings = Settings { gateway, dress: two_banks, recorder: passed_on, ..Settings::default() };
    (Running::start(settings), recorder)
}

#[test]
fn a_dfsp_holds_its_share_and_others_have_theirs() {
    for is_chunked in [false, true] {
        let (running, silent) = start_with_shares();
        let [mut green, mut green_too, mut blue] =
            ["greenbank", "greenbank", "bluewallet"].map(|source| known(&running, source));
        silent.0.lock().unwrap().clear();
        let large = |source| message(source, &quote(150 * KIB), is_chunked);
        assert_eq!(green.exchange(&large("greenbank")).status, 202);
        assert!(is_busy(&green_too.exchange(&large("greenbank"))), "on whatever connection");
        assert_eq!(blue.exchange(&large("bluewallet")).status, 202);
        // A connection of several DFSPs, as a proxy has one: the request names its sender.
        let mut proxy = known(&running, "bluewallet");
        for _ in 0..10 {
            let ordinary = message("greenbank", &quote(16 * KIB), false);
            assert_eq!(proxy.exchange(&ordinary).status, 202, "ordinary ones always pass");
        }
        assert!(is_busy(&proxy.exchange(&large("greenbank"))));
        drop(let_go(&silent));
        let mut green = known(&running, "greenbank");
        assert_eq!(green.exchange(&large("greenbank")).status, 202, "it was passed on");
    }
}

#[test]
fn before_its_identity_a_sender_is_its_address() {
    let (running, silent) = start_with_shares();
    let mut known = known(&running, "greenbank");
    silent.0.lock().unwrap().clear();
    // Names alone have no effect: they do not count on new connections.
    assert_eq!(send(&running, &quote(150 * KIB), false).status, 202);
    let large = message("bluewallet", &quote(64 * KIB + 1), false);
    assert!(is_busy(&running.ask(&large)));
    let medium = message("bluewallet", &quote(64 * KIB), false);
    assert!(is_busy(&running.ask(&medium)), "while they are read, medium ones count as well");
    assert_eq!(known.exchange(&message("greenbank", &quote(150 * KIB), false)).status, 202);
    drop(let_go(&silent));
    assert_eq!(running.ask(&large).status, 202);
}

#[test]
fn bodies_that_are_slow_to_come_count_while_they_are_read() {
    let (running, _silent) = start_with_shares();
    let medium = message("bluewallet", &quote(60 * KIB), false);
    let (begun, last) = medium.split_at(medium.len() - 1);
    // Three fit, and of the fourth no more bytes are read.
    let mut slow: Vec<_> = (0..4).map(|_| running.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(begun));
    let refused = loop {
        match slow.iter().position(Client::has_answer) {
            Some(index) => break index,
            None => std::thread::yield_now(),
        }
    };
    assert!(is_busy(&slow.swap_remove(refused).answer()));
    for client in &mut slow {
        client.send(last);
        assert_eq!(client.answer().status, 202);
    }
    assert_eq!(running.ask(&medium).status, 202, "what is read is another bound's");
}

//! Bodies over 64 KiB: the number of bytes that the hub holds, from the first byte until the last holder releases them.

use std::sync::Arc;

use upesi_delivery::Request;
use upesi_gateway::GatewayConfig;

use crate::common::{Answer, Client, Recorder, Running, Settings, chunked, request, two_banks};

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
fn large_body_counts_until_it_is_submitted() {
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
fn body_above_the_limit_is_rejected_without_retry() {
    let (running, _silent) = start(8 * KIB * KIB);
    for is_chunked in [false, true] {
        let answer = send(&running, &quote(BODY_BYTES_MAX + 1), is_chunked);
        assert_eq!((answer.status, answer.code()), (400, 3104), "{answer:?}");
        let text = "Too large payload - Payload content length greater than maximum allowed: 5242880";
        assert!(answer.body.contains(text), "{answer:?}");
    }
}

#[test]
fn body_at_the_limit_is_accepted() {
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
fn large_bodies_of_one_dfsp_leave_other_dfsps_their_share() {
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
        assert_eq!(green.exchange(&large("greenbank")).status, 202, "the first body was forwarded");
    }
}

#[test]
fn unauthenticated_sender_is_limited_by_address() {
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
fn slow_bodies_count_while_they_are_read() {
    let (running, _silent) = start_with_shares();
    let medium = message("bluewallet", &quote(60 * KIB), false);
    let (begun, last) = medium.split_at(medium.len() - 1);
    // Three fit, and the rest of the fourth is not read.
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
    assert_eq!(running.ask(&medium).status, 202, "a complete body counts towards another limit");
}

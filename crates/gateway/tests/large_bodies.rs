//! Bodies over 64 KiB: how many bytes of them the hub holds, from their first byte until their last holder lets go.

mod common;

use std::sync::Arc;

use common::{Answer, Recorder, Running, Settings, chunked, request};
use upesi_delivery::Request;
use upesi_gateway::GatewayConfig;

const KIB: usize = 1024;
const BODY_BYTES_MAX: usize = 5 * KIB * KIB;

/// The recorder passes nothing on, so that it holds everything.
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
    const MEDIA: &str = "application/vnd.interoperability.quotes+json;version=1.0";
    let (content_type, accept) = (format!("content-type: {MEDIA}"), format!("accept: {MEDIA}"));
    let mut edits = vec![content_type.as_str(), &accept];
    if is_chunked {
        edits.extend(["-content-length", "transfer-encoding: chunked"]);
        return running.ask(&request("POST /quotes", &edits, chunked(body, 50_000)));
    }
    running.ask(&request("POST /quotes", &edits, body))
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
        // Whoever holds a piece of it holds it.
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

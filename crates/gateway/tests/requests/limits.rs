//! Peers that send too much, too slowly or malformed bytes: a fast rejection, and no effect on the ledger.

use crate::common;
use crate::common::{
    AMPLE, Client, ID, Running, SHORT, Settings, chunked, fulfil_body, get, post, prepare_body, put,
    put_error, request,
};
use upesi_gateway::GatewayConfig;
use upesi_http::{Limits, PaceLimits};

/// The limit for transfers.
const BODY_BYTES_MAX: usize = 64 * 1024;
const TOO_LARGE: &str = "Too large payload - Payload content length greater than maximum allowed: 65536";

/// A valid prepare of exactly this many bytes.
fn padded_prepare(bytes: usize) -> String {
    let body = prepare_body(ID);
    let padding = bytes - body.len() - r#""padding":"","#.len();
    body.replacen('{', &format!(r#"{{"padding":"{}","#, "x".repeat(padding)), 1)
}

fn chunked_post(body: &str, chunk_bytes: usize) -> Vec<u8> {
    post(&["-content-length", "transfer-encoding: chunked"], chunked(body, chunk_bytes))
}

fn with_short_body_timeout() -> Running {
    let gateway = GatewayConfig { body_deadline: SHORT, ..GatewayConfig::default() };
    Running::start(Settings { gateway, ..Settings::default() })
}

#[test]
fn body_above_the_limit_is_rejected_with_any_framing() {
    let running = Running::plain();
    let announced = format!("content-length: {}", BODY_BYTES_MAX + 1);
    let large = padded_prepare(BODY_BYTES_MAX + 1);
    for request in [
        post(&[], padded_prepare(1024 * 1024)),
        chunked_post(&padded_prepare(1024 * 1024), 64 * 1024),
        post(&[], &large),
        put(ID, &[], &large),
        put_error(ID, &[], &large),
        get(ID, &[&announced]),
        chunked_post(&large, 1024 * 1024),
        chunked_post(&large, 5),
        // The size is checked before the headers, and the announced size before the bytes arrive.
        post(&["-date", "-accept"], &large),
        post(&[&announced], ""),
        put(ID, &[&announced], "{"),
    ] {
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (400, 3104), "{answer:?}");
        assert!(answer.body.contains(TOO_LARGE), "{answer:?}");
    }
    assert_eq!(running.records(), 0);
}

#[test]
fn body_at_the_limit_is_accepted() {
    let running = Running::plain();
    assert_eq!(running.ask(&post(&[], padded_prepare(BODY_BYTES_MAX))).status, 202);
    let payload = running.wait(running.handle.payload(running.last_seq())).unwrap().unwrap();
    assert_eq!(payload.body, padded_prepare(BODY_BYTES_MAX));
    let chunks = chunked_post(
        &padded_prepare(BODY_BYTES_MAX).replace(ID, "01ARZ3NDEKTSV4RRFFQ69G5FAV0000000000"),
        5000,
    );
    let answer = running.ask(&chunks);
    // Equally long, but with an invalid id: it was read to its end.
    assert_eq!((answer.status, answer.code()), (400, 3100), "{answer:?}");
}

#[test]
fn chunked_bodies_are_accepted() {
    let running = Running::plain();
    for chunk_bytes in [1, 7, 100_000] {
        assert_eq!(running.ask(&chunked_post(&prepare_body(ID), chunk_bytes)).status, 202);
    }
}

#[test]
fn expect_continue_is_rejected_before_the_body_is_sent() {
    let running = Running::plain();
    let head = post(&["expect: 100-continue", &format!("content-length: {}", BODY_BYTES_MAX + 1)], "");
    let answer = running.ask(&head);
    assert_eq!((answer.status, answer.code()), (400, 3104), "{answer:?}");

    let body = prepare_body(ID);
    let mut client = running.connect();
    let head = post(&["expect: 100-continue", &format!("content-length: {}", body.len())], "");
    assert_eq!(client.exchange(&head).status, 100);
    assert_eq!(client.exchange(body.as_bytes()).status, 202);
}

#[test]
fn too_many_headers_and_too_long_ones_are_refused() {
    let running = Running::plain();
    let many: Vec<String> = (0..200).map(|index| format!("x-{index}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(running.ask(&post(&many, prepare_body(ID))).status, 431);
    let long = format!("x-long: {}", "y".repeat(70 * 1024));
    assert_eq!(running.ask(&post(&[&long], prepare_body(ID))).status, 431);
    assert_eq!(running.records(), 0);

    let many: Vec<&str> = many.into_iter().take(80).collect();
    assert_eq!(running.ask(&post(&many, prepare_body(ID))).status, 202);
    let long = format!("x-long: {}", "y".repeat(30 * 1024));
    assert_eq!(running.ask(&post(&[&long], prepare_body(ID))).status, 202);
}

#[test]
fn endless_head_is_cut_off() {
    let http = Limits { head_deadline: SHORT, ..Limits::default() };
    let running = Running::start(Settings { http, ..Settings::default() });
    for part in ["P", "POST /transfers HTTP/1.1\r\n", "POST /transfers HTTP/1.1\r\nhost: hub\r\ndate: Tue"] {
        let mut client = running.connect();
        client.send(part.as_bytes());
        assert!(client.is_closed_without_a_word(), "{part}");
    }
    assert_eq!(running.ask(&post(&[], prepare_body(ID))).status, 202);
}

#[test]
fn endless_body_is_cut_off() {
    let running = with_short_body_timeout();
    let whole = post(&[], prepare_body(ID));
    let started = chunked_post(&prepare_body(ID), 10);
    for part in [&whole[..whole.len() - 1], &started[..started.len() - 5]] {
        let mut client = running.connect();
        let answer = client.exchange(part);
        assert_eq!((answer.status, answer.code()), (408, 2004), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(
            answer.body.contains("Server timed out - the request body was not received in time"),
            "{answer:?}"
        );
        assert!(client.is_closed_without_a_word());
    }
    assert_eq!(running.records(), 0);
}

#[test]
fn a_broken_chunk_is_malformed() {
    let running = Running::plain();
    let broken = post(&["-content-length", "transfer-encoding: chunked"], "zz\r\nhello\r\n0\r\n\r\n");
    let answer = running.ask(&broken);
    assert_eq!((answer.status, answer.code()), (400, 3101), "{answer:?}");
    assert!(answer.body.contains("the request body ended before it was complete"), "{answer:?}");
}

#[test]
fn aborted_body_has_no_effect() {
    let running = Running::plain();
    let whole = post(&[], prepare_body(ID));
    let mut client = running.connect();
    client.send(&whole[..whole.len() - 1]);
    client.stream.shutdown(std::net::Shutdown::Both).unwrap();
    drop(client);
    assert_eq!(running.ask(&put("x", &[], "{}")).status, 400);
    assert_eq!(running.records(), 0);
}

#[test]
fn bytes_that_are_not_http_are_rejected() {
    let running = Running::plain();
    let nul_in_path = request("GET /transfers/a\0b", &[], "");
    let nul_in_value = post(&["x-own: a\0b"], prepare_body(ID));
    let nul_in_name = post(&["x-\0own: a"], prepare_body(ID));
    let two_lengths = post(&["+content-length: 3"], prepare_body(ID));
    for bytes in [
        &nul_in_path[..],
        &nul_in_value,
        &nul_in_name,
        &two_lengths,
        b"\0\0\0\0\r\n\r\n",
        b"GET /transfers/x HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client hello\r\n\r\n",
    ] {
        let mut client = running.connect();
        let answer = client.exchange(bytes);
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(running.records(), 0);
}

#[test]
fn header_values_need_not_be_text() {
    let running = Running::plain();
    for (name, code) in [("fspiop-source", 3100), ("date", 3101), ("accept", 3101), ("content-type", 3101)] {
        let mut request = post(&[&format!("{name}: @@")], prepare_body(ID));
        let at = request.windows(2).position(|window| window == b"@@").unwrap();
        request[at..at + 2].copy_from_slice(b"\xff\xfe");
        let answer = running.ask(&request);
        assert_eq!((answer.status, answer.code()), (400, code), "{name}");
    }
    let mut request = post(&["x-own: @@"], prepare_body(ID));
    let at = request.windows(2).position(|window| window == b"@@").unwrap();
    request[at..at + 2].copy_from_slice(b"\xff\xfe");
    assert_eq!(running.ask(&request).status, 202);
    let payload = running.wait(running.handle.payload(running.last_seq())).unwrap().unwrap();
    assert!(payload.headers.windows(11).any(|window| window == b"x-own: \xff\xfe\r\n"));
}

#[test]
fn connection_above_the_limit_is_answered_busy() {
    let http = Limits { connections_max: 0, ..Limits::default() };
    let running = Running::start(Settings { http, ..Settings::default() });
    let answer = running.connect().exchange(&put(ID, &[], fulfil_body()));
    assert_eq!((answer.status, answer.code()), (503, 2005), "{answer:?}");
    assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
}

#[test]
fn requests_above_the_pace_are_rejected_except_health() {
    let running = Running::plain();
    let ask = |line: &str| {
        let mut clients: Vec<_> = (0..300).map(|_| running.connect()).collect();
        let request = request(line, &[], "");
        clients.iter_mut().for_each(|client| client.send(&request));
        clients.iter_mut().map(common::Client::answer).collect::<Vec<_>>()
    };
    for (line, usual) in [("GET /docs", 200), ("GET /unknown", 404)] {
        let answers = ask(line);
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
        // 100 at once, 100 after at most a second, and more for the elapsed time.
        assert!(!refused.is_empty() && refused.len() <= 300, "{line}: {}", refused.len());
        for answer in refused {
            assert_eq!((answer.code(), answer.header("connection")), (2005, Some("close")), "{answer:?}");
        }
        assert!(answers.iter().all(|answer| [usual, 503].contains(&answer.status)), "{line}");
    }
    for line in ["GET /health", "GET /live"] {
        assert!(ask(line).iter().all(|answer| answer.status == 200), "{line}");
    }
}

/// A hub with a limit of one request per second after a burst, and a long delay beyond it.
fn with_pace(burst: u32) -> Running {
    let pace = PaceLimits { rate: 1, burst, wait_max: 100 * AMPLE };
    Running::start(Settings {
        gateway: GatewayConfig { pace, ..GatewayConfig::default() },
        ..Settings::default()
    })
}

fn answered(clients: &[Client]) -> usize {
    clients.iter().filter(|client| client.has_answer()).count()
}

/// Connections that have each sent a request. At least `burst` of them have their answer.
fn crowd(running: &Running, burst: usize, first: &[u8], then: &[u8]) -> Vec<Client> {
    let mut clients: Vec<_> = (0..100).map(|_| running.connect()).collect();
    for client in &mut clients {
        if !first.is_empty() {
            assert_eq!(client.exchange(first).status, 202);
        }
        client.send(then);
    }
    while answered(&clients) < burst {
        std::thread::yield_now();
    }
    clients
}

#[test]
fn health_does_not_wait_for_other_requests_of_its_address() {
    let running = with_pace(1);
    let crowd = crowd(&running, 1, b"", &request("GET /docs", &[], ""));
    for line in ["GET /health", "GET /live"] {
        assert_eq!(running.ask(&request(line, &[], "")).status, 200, "{line}");
    }
    assert!(answered(&crowd) < 50, "the others wait");
}

#[test]
fn rejections_come_at_a_pace_and_payments_do_not_wait_for_them() {
    let good = post(&[], prepare_body(ID));
    let bare = b"GET /transfers/x HTTP/1.1\r\nhost: hub.example\r\n\r\n".to_vec();
    for (first, rejected, status) in [
        (&b""[..], post(&["-date", "-fspiop-source"], prepare_body(ID)), 400),
        (&good, post(&["-date"], prepare_body(ID)), 400),
        (b"", bare, 400),
        (b"", b"GET /transfers/x HTTP/1.1\r\n\r\n".to_vec(), 400),
        (b"", get(ID, &["content-encoding: gzip"]), 400),
        (&good, request("PUT /authorizations/x", &[], "{"), 501),
    ] {
        let running = with_pace(3);
        let mut clients = crowd(&running, 3, first, &rejected);
        assert_eq!(running.ask(&good).status, 202);
        let text = String::from_utf8_lossy(&rejected).into_owned();
        assert!(answered(&clients) < 50, "{text}");
        let client = clients.iter_mut().find(|client| client.has_answer()).unwrap();
        assert_eq!(client.answer().status, status, "{text}");
    }
}

#[test]
fn compressed_body_is_rejected_before_it_is_read() {
    let running = Running::plain();
    for coding in ["gzip", "br", "identity, gzip", "gzip, identity", "identity;q=1", "\"identity\""] {
        let coding = format!("content-encoding: {coding}");
        let answer = running.ask(&post(&[&coding, "content-length: 100"], ""));
        assert_eq!((answer.status, answer.code()), (400, 3101), "{coding}: {answer:?}");
        assert!(answer.body.contains("/header/content-encoding must be identity"), "{answer:?}");
    }
    let twice = ["content-encoding: identity", "+content-encoding: deflate"];
    assert_eq!(running.ask(&post(&twice, prepare_body(ID))).code(), 3101);
    assert_eq!(running.records(), 0);
    for coding in ["content-encoding: identity", "content-encoding: Identity, identity", "content-encoding:"]
    {
        assert_eq!(running.ask(&post(&[coding], prepare_body(ID))).status, 202, "{coding}");
    }
}

//! Invalid frames and requests of HTTP/2. Each case is a line, over real sockets.
//!
//! Each case has the given outcome and reaches no service. If the connection stays open, a valid request on it is
//! answered.

use std::sync::atomic::Ordering;

use crate::common::AMPLE;
use crate::common::http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Outcome, PING, PREFACE, PRIORITY,
    RST_STREAM, SETTINGS, Scheme, WINDOW_UPDATE, fields, frame, get, post,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use upesi_http::Limits;

use Outcome::{Away, Reset, Status};

const CASES_MIN: usize = 90;

// Error codes (RFC 9113 §7). For some faults, the library uses PROTOCOL_ERROR instead of a more precise code.
const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const FRAME_SIZE: u32 = 6;

const PUSH_PROMISE: u8 = 5;
const PADDED: u8 = 8;

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "hub");
const PATH: (&str, &str) = (":path", "/count");

/// Requests without a body, by their fields.
const REQUESTS: &[(Outcome, &[(&str, &str)])] = &[
    // Names of the hub.
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH]),
    (Status(200), &[METHOD, SCHEME, PATH, ("host", "hub")]),
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "hub")]),
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "HUB")]),
    (Status(400), &[METHOD, SCHEME, PATH]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "other")]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "hub:443")]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "")]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "hub"), ("host", "hub")]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "hub"), ("host", "other")]),
    (Status(400), &[METHOD, SCHEME, PATH, ("host", "me@hub")]),
    (Status(400), &[METHOD, SCHEME, PATH, ("host", "a b")]),
    (Status(400), &[METHOD, SCHEME, PATH, ("host", "http://hub")]),
    (Status(400), &[METHOD, SCHEME, (":authority", "me@hub"), PATH]),
    (Status(400), &[METHOD, SCHEME, (":authority", "hub:port"), PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, (":authority", ""), PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, (":authority", "a b"), PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, (":authority", "hub/path"), PATH]),
    // Required fields of a request, once and first.
    (Reset(PROTOCOL), &[SCHEME, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY]),
    (Reset(PROTOCOL), &[METHOD, METHOD, SCHEME, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, SCHEME, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":authority", "other"), PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, ("x-a", "b"), PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, (":protocol", "websocket")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, (":other", "x")]),
    // Methods and targets.
    (Status(501), &[(":method", "CONNECT"), AUTHORITY]),
    (Reset(PROTOCOL), &[(":method", "CONNECT"), SCHEME, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[(":method", "CONNECT"), SCHEME, AUTHORITY, PATH, (":protocol", "websocket")]),
    (Away(PROTOCOL), &[(":method", ""), SCHEME, AUTHORITY, PATH]),
    (Away(PROTOCOL), &[(":method", "G T"), SCHEME, AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "/co unt")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "/co\u{0}unt")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "/co\r\nunt")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "count")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, (":path", "http://hub/count")]),
    (Status(400), &[METHOD, (":scheme", ""), AUTHORITY, PATH]),
    (Status(400), &[METHOD, (":scheme", "ftp"), AUTHORITY, PATH]),
    (Status(200), &[METHOD, (":scheme", "http"), AUTHORITY, PATH]),
    (Reset(PROTOCOL), &[METHOD, (":scheme", "ht tps"), AUTHORITY, PATH]),
    // Fields about the connection.
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("connection", "close")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("connection", "fspiop-source")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("keep-alive", "5")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("proxy-connection", "close")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("transfer-encoding", "chunked")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("transfer-encoding", "gzip")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("upgrade", "h2c")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("te", "gzip")]),
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH, ("te", "trailers")]),
    // Names and values.
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("X-A", "b")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("", "b")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x a", "b")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x:a", "b")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x\r\na", "b")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x-a", "b\u{0}c")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x-a", "b\rc")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x-a", "b\nc")]),
    (Away(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("x-a", "b\r\nfspiop-source: c")]),
    // Lengths and expectations.
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "0")]),
    (Status(400), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "0"), ("content-length", "0")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "0"), ("content-length", "5")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "5")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "+0")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "0, 0")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "x")]),
    (Reset(PROTOCOL), &[METHOD, SCHEME, AUTHORITY, PATH, ("content-length", "18446744073709551616")]),
    (Status(417), &[METHOD, SCHEME, AUTHORITY, PATH, ("expect", "200-ok")]),
    (Status(200), &[METHOD, SCHEME, AUTHORITY, PATH, ("expect", "100-continue")]),
];

fn head(more: &[(&str, &str)]) -> Vec<u8> {
    fields(&[&[METHOD, SCHEME, AUTHORITY, PATH], more].concat())
}

/// Description, outcome and frames. Stream numbers begin with 1.
type Case = (&'static str, Outcome, Vec<u8>);

const WHOLE: u8 = END_HEADERS | END_STREAM;

const fn one(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// Heads that are too large.
fn large() -> Vec<Case> {
    let many: Vec<_> = (0..99).map(|_| ("x-a", "b")).collect();
    let long = "x".repeat(13_000);
    let large = [("x-a", &*long); 6];
    let large = head(&large);
    let (first, rest) = large.split_at(16_000);
    let mut in_parts = frame(HEADERS, END_STREAM, 1, first);
    for (number, part) in rest.chunks(16_000).enumerate() {
        let is_last = (number + 1) * 16_000 >= rest.len();
        in_parts.extend(frame(CONTINUATION, if is_last { END_HEADERS } else { 0 }, 1, part));
    }
    vec![
        ("98 headers, Host and Content-Length", Status(200), frame(HEADERS, WHOLE, 1, &head(&many[1..]))),
        ("one more", Status(431), frame(HEADERS, WHOLE, 1, &head(&many))),
        ("a head over 64 KiB", Status(431), in_parts),
    ]
}

/// Frames on streams that do not allow them.
fn of_streams() -> Vec<Case> {
    vec![
        ("a request on stream 0", Away(PROTOCOL), frame(HEADERS, WHOLE, 0, &head(&[]))),
        ("a request on an even stream", Away(PROTOCOL), frame(HEADERS, WHOLE, 2, &head(&[]))),
        ("data on stream 0", Away(PROTOCOL), frame(DATA, END_STREAM, 0, b"x")),
        ("data on a stream that is not open", Away(PROTOCOL), frame(DATA, END_STREAM, 1, b"x")),
        ("a reset of a stream that is not open", Away(PROTOCOL), frame(RST_STREAM, 0, 1, &one(8))),
        ("a reset on stream 0", Away(PROTOCOL), frame(RST_STREAM, 0, 0, &one(8))),
        ("a short reset", Away(PROTOCOL), [post(1, "/wait"), frame(RST_STREAM, 0, 1, &[0; 3])].concat()),
        ("a window on a stream that is not open", Away(PROTOCOL), frame(WINDOW_UPDATE, 0, 1, &one(1))),
        ("a window of nothing", Away(PROTOCOL), frame(WINDOW_UPDATE, 0, 0, &one(0))),
        ("a window that is too wide", Away(FLOW_CONTROL), frame(WINDOW_UPDATE, 0, 0, &one(0x7fff_ffff))),
        ("a short window", Away(PROTOCOL), frame(WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("a continuation of nothing", Away(PROTOCOL), frame(CONTINUATION, END_HEADERS, 1, &head(&[]))),
        (
            "a ping within a head",
            Away(PROTOCOL),
            [frame(HEADERS, END_STREAM, 1, &head(&[])), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        (
            "a head continued on another stream",
            Away(PROTOCOL),
            [frame(HEADERS, END_STREAM, 1, &head(&[])), frame(CONTINUATION, END_HEADERS, 3, &[])].concat(),
        ),
        ("a frame over 16 KiB", Away(FRAME_SIZE), frame(HEADERS, WHOLE, 1, &[0; 16_385])),
    ]
}

/// Frames about the connection.
fn of_connections() -> Vec<Case> {
    let setting = |name: u8, value: u32| [&[0, name][..], &value.to_be_bytes()].concat();
    vec![
        ("settings on a stream", Away(PROTOCOL), frame(SETTINGS, 0, 1, &[])),
        ("settings that are cut", Away(PROTOCOL), frame(SETTINGS, 0, 0, &[0, 4, 0])),
        ("settings acknowledged with settings", Away(PROTOCOL), frame(SETTINGS, ACK, 0, &setting(4, 1))),
        ("a push of neither yes nor no", Away(PROTOCOL), frame(SETTINGS, 0, 0, &setting(2, 2))),
        ("a first window too wide", Away(PROTOCOL), frame(SETTINGS, 0, 0, &setting(4, 0x8000_0000))),
        ("frames too short", Away(PROTOCOL), frame(SETTINGS, 0, 0, &setting(5, 1))),
        ("frames too long", Away(PROTOCOL), frame(SETTINGS, 0, 0, &setting(5, 0x0100_0000))),
        ("a ping on a stream", Away(PROTOCOL), frame(PING, 0, 1, &[0; 8])),
        ("a short ping", Away(PROTOCOL), frame(PING, 0, 0, &[0; 7])),
        ("a promise by a client", Away(PROTOCOL), frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a farewell on a stream", Away(PROTOCOL), frame(GOAWAY, 0, 1, &[0; 8])),
        ("a stream that depends on itself", Reset(PROTOCOL), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 7])),
    ]
}

/// Fields that cannot be decoded.
fn of_fields() -> Vec<Case> {
    vec![
        ("field 0 of the table", Away(PROTOCOL), frame(HEADERS, WHOLE, 1, &[0x80])),
        ("a field that is not in the table", Away(PROTOCOL), frame(HEADERS, WHOLE, 1, &[0xff, 0x7f])),
        ("a table larger than allowed", Away(PROTOCOL), frame(HEADERS, WHOLE, 1, &[0x3f, 0xff, 0xff, 0x7f])),
        ("a number that never ends", Away(PROTOCOL), frame(HEADERS, WHOLE, 1, &[0xff; 20])),
        ("fields that are cut", Away(PROTOCOL), frame(HEADERS, WHOLE, 1, &[0, 5, b'x'])),
        ("more padding than frame", Away(PROTOCOL), frame(HEADERS, WHOLE | PADDED, 1, &[200, 0x82])),
        ("data with more padding than frame", Away(PROTOCOL), {
            [post(1, "/wait"), frame(DATA, PADDED, 1, &[200, 1])].concat()
        }),
    ]
}

/// Bodies and trailers.
fn of_bodies() -> Vec<Case> {
    let announced =
        fields(&[(":method", "POST"), SCHEME, AUTHORITY, (":path", "/echo"), ("content-length", "5")]);
    let with_five =
        |data: &[u8]| [frame(HEADERS, END_HEADERS, 1, &announced), frame(DATA, END_STREAM, 1, data)].concat();
    vec![
        ("less data than announced", Reset(PROTOCOL), with_five(b"four")),
        ("more data than announced", Reset(PROTOCOL), with_five(b"sixsix")),
        ("trailers that do not end", Reset(PROTOCOL), {
            [post(1, "/wait"), frame(HEADERS, END_HEADERS, 1, &fields(&[("x-a", "b")]))].concat()
        }),
        // Trailers are ignored.
        ("trailers that name a method", Status(200), {
            [post(1, "/echo"), frame(HEADERS, WHOLE, 1, &fields(&[METHOD]))].concat()
        }),
        ("data after the end", Away(PROTOCOL), {
            [get(1, "/wait"), frame(DATA, END_STREAM, 1, b"x")].concat()
        }),
        ("a stream that was over", Away(PROTOCOL), {
            [get(3, "/wait"), frame(HEADERS, WHOLE, 1, &head(&[]))].concat()
        }),
    ]
}

#[tokio::test]
async fn invalid_frames_reset_their_stream_or_end_the_connection() {
    let scheme = Scheme::new();
    let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
    let running = scheme.start(limits);
    let seen = || running.script.requests.load(Ordering::Relaxed);
    let mut cases: Vec<(String, Outcome, Vec<u8>)> = REQUESTS
        .iter()
        .map(|(expected, request)| {
            let bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(request));
            (format!("{request:?}"), *expected, bytes)
        })
        .collect();
    let by_hand = [large(), of_streams(), of_connections(), of_fields(), of_bodies()].concat();
    cases.extend(by_hand.into_iter().map(|(name, expected, bytes)| (name.to_owned(), expected, bytes)));
    let mut faults = Vec::new();
    for (name, expected, bytes) in &cases {
        let before = seen();
        let mut peer = scheme.peer(&running).await;
        let _ = peer.send(bytes).await;
        let found = peer.outcome(1).await;
        let is_served = *expected == Status(200);
        let reached = seen() - before;
        // A service receives the head of a request before its body turns out to be invalid.
        let may_reach = bytes.windows(5).any(|part| part == b"/wait" || part == b"/echo");
        if found != *expected || (reached != usize::from(is_served) && !may_reach) {
            faults.push(format!("{name}: {found:?} instead of {expected:?}, {reached} seen"));
            continue;
        }
        match found {
            Away(_) | Outcome::Closed => {
                peer.until_closed().await;
            }
            Outcome::Nothing => {}
            Status(_) | Reset(_) => {
                let is_sent = peer.send(&get(5, "/count")).await;
                if !is_sent || peer.outcome(5).await != Status(200) {
                    faults.push(format!("{name}: the connection is not usable afterwards"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} cases:\n{}", faults.len(), faults.join("\n"));
    assert!(cases.len() >= CASES_MIN, "{}", cases.len());
}

#[tokio::test]
async fn connection_without_the_http_2_preface_is_closed() {
    let scheme = Scheme::new();
    let limits = Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() };
    let running = scheme.start(limits);
    let first = frame(SETTINGS, 0, 0, &[]);
    for begin in [
        b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        [PREFACE, &get(1, "/count")].concat(),
        [&PREFACE[..20], &first, &get(1, "/count")].concat(),
        [&first[..], PREFACE, &get(1, "/count")].concat(),
    ] {
        let mut stream = scheme.connect(running.server.local_addr().port(), &[b"h2"]).await;
        stream.write_all(&begin).await.unwrap();
        let mut rest = Vec::new();
        // A reset also ends the connection.
        let _ = timeout(AMPLE, stream.read_to_end(&mut rest)).await.expect("it is closed");
    }
    assert_eq!(running.script.requests.load(Ordering::Relaxed), 0);
}

//! Requests that two parsers could understand differently. Each case is a line, over real sockets.
//!
//! Each request is rejected, alone and after a valid request. There is one answer, the connection ends, and a request
//! that is hidden behind it reaches no service.

use std::sync::atomic::Ordering;

use crate::common::{Running, exchange, response, until_closed};
use tokio::io::AsyncWriteExt as _;
use upesi_http::Limits;

const CASES_MIN: usize = 100;
/// The request that an attacker hides behind a case.
const HIDDEN: &str = "GET /count HTTP/1.1\r\nhost: hidden\r\n\r\n";
/// A valid request, whose body looks like line ends, and the body of its answer.
const SOUND: &str = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n\na\n\n";
const ECHOED: &str = "\r\n\r\n\na\n\n";

/// Headers of a request with a body whose framing is invalid or ambiguous, and the answer.
const FRAMINGS: [(u16, &str); 37] = [
    (400, "content-length: +5"),
    (400, "content-length: -5"),
    (400, "content-length: 5, 5"),
    (400, "content-length: 5, 6"),
    (400, "content-length: 5 5"),
    (400, "content-length: 5;"),
    (400, "content-length: 0x5"),
    (400, "content-length: 5a"),
    (400, "content-length: 5.0"),
    (400, "content-length: 1e1"),
    (400, "content-length: \"5\""),
    (400, "content-length:"),
    (400, "content-length: \u{665}"),
    (400, "content-length: 18446744073709551616"),
    (400, "content-length: 99999999999999999999999999"),
    (400, "content-length: 5\r\ncontent-length: 6"),
    (400, "content-length: 6\r\ncontent-length: 5"),
    (400, "content-length: 0\r\ncontent-length: 5"),
    (400, "transfer-encoding: chunked\r\ncontent-length: 5"),
    (400, "content-length: 5\r\ntransfer-encoding: chunked"),
    (400, "content-length: 0\r\ntransfer-encoding: chunked"),
    (400, "Transfer-Encoding: chunked\r\nContent-Length: 5"),
    (400, "content-length: 5\r\ntransfer-encoding: identity"),
    (400, "transfer-encoding: identity"),
    (400, "transfer-encoding: gzip"),
    (501, "transfer-encoding: gzip, chunked"),
    (400, "transfer-encoding: chunked, gzip"),
    (400, "transfer-encoding: chunked, chunked"),
    (400, "transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
    (501, "transfer-encoding: gzip\r\ntransfer-encoding: chunked"),
    (400, "transfer-encoding: xchunked"),
    (400, "transfer-encoding: chunkedx"),
    (400, "transfer-encoding: \"chunked\""),
    (400, "transfer-encoding: chunked identity"),
    (400, "transfer-encoding: chunked;q=1"),
    (400, "transfer-encoding:"),
    (501, "transfer-encoding: xchunked, chunked"),
];

/// Whole heads, and the answer.
const HEADS: [(u16, &str); 56] = [
    (400, "GET  /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count  HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET\t/count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /co unt HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.2\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/2.0\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/3\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1\r\nhost: x\r\n\r\n"),
    (400, "GET /count http/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTPS/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1 \r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1x\r\nhost: x\r\n\r\n"),
    (400, "G\u{0}T /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "G(T /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /co\u{0}unt HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /co\u{7f}unt HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, " GET /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\nhost: x\n\n"),
    (400, "GET /count HTTP/1.1\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\n\n"),
    (400, "\nGET /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\rhost: x\r\r"),
    (400, "GET /count HTTP/1.1\r\nhost: x\rx-a: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\rc\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\r\n c\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\r\n\tc\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\n host: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost : x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost\t: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\ncontent-length : 5\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\ntransfer-encoding : chunked\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\n: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx a: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx(a: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx\u{0}a: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx\u{e9}: b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nxa\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\u{0}c\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\u{1}c\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\u{7f}c\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\n\r\n"),
    (400, "GET http://x/count HTTP/1.1\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x\r\nHOST: y\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost:\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: a b\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: me@x\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: x:port\r\n\r\n"),
    (400, "GET /count HTTP/1.1\r\nhost: http://x\r\n\r\n"),
    (417, "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n"),
    (417, "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 100-continue, x\r\n\r\n"),
    (417, "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nexpect: x\r\n\r\n"),
    (400, "GET /count HTTP/1.0\r\nhost: a b\r\n\r\n"),
    (400, "POST /count HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"),
];

/// Invalid chunked bodies. The service has received the head by then; the rest of the connection is not read.
const CHUNKS: [&str; 20] = [
    "zz\r\nhello\r\n0\r\n\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\rhello\r\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhelloworld\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "\r\n5\r\nhello\r\n0\r\n\r\n",
    "ffffffffffffffff1\r\nhello\r\n0\r\n\r\n",
    "10000000000000000\r\nhello\r\n0\r\n\r\n",
    ";a=b\r\nhello\r\n0\r\n\r\n",
    "5 5\r\nhello\r\n0\r\n\r\n",
    "5;a\nhello\r\n0\r\n\r\n",
    "5;a\n\nhello\r\n0\r\n\r\n",
    "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "5;a=\u{0}\r\nhello\r\n0\r\n\r\n",
    "5;a=\"\u{7}\"\r\nhello\r\n0\r\n\r\n",
];

/// The status of the first answer; 0 if there is none.
fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// All bytes that are received on one connection.
async fn answers(running: &Running, bytes: &str) -> String {
    let mut stream = running.connect().await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    String::from_utf8(until_closed(&mut stream).await).unwrap()
}

/// Whether there is only one answer, with this error.
fn is_refusal(answer: &str, expected: u16) -> bool {
    let closes = answer.to_ascii_lowercase().contains("connection: close");
    answer.matches("HTTP/1.").count() == 1 && status(answer) == expected && closes
}

/// The fault of the answers to a head, alone and after a valid request.
async fn fault_of(running: &Running, expected: u16, head: &str) -> Option<String> {
    let seen = || running.script.requests.load(Ordering::Relaxed);
    let before = seen();
    let alone = answers(running, &format!("{head}{HIDDEN}")).await;
    if !is_refusal(&alone, expected) || seen() != before {
        return Some(format!("{head:?} alone, {} seen, not {expected}: {alone}", seen() - before));
    }
    let both = answers(running, &format!("{SOUND}{head}{HIDDEN}")).await;
    let is_right = both
        .split_once(ECHOED)
        .is_some_and(|(echo, refusal)| status(echo) == 200 && is_refusal(refusal, expected));
    (!is_right || seen() != before + 1)
        .then(|| format!("{head:?} behind another, {} seen, not {expected}: {both}", seen() - before))
}

#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let running = Running::start(Limits::default());
    let mut heads: Vec<(u16, String)> = HEADS.map(|(expected, head)| (expected, head.to_owned())).into();
    for (expected, framing) in FRAMINGS {
        for method in ["POST", "PUT", "GET"] {
            heads.push((expected, format!("{method} /count HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n")));
        }
    }
    let mut faults = Vec::new();
    for (expected, head) in &heads {
        faults.extend(fault_of(&running, *expected, head).await);
    }
    for chunks in CHUNKS {
        let before = running.script.requests.load(Ordering::Relaxed);
        let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut stream = running.connect().await;
        stream.write_all(format!("{head}{chunks}{HIDDEN}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = String::from_utf8(until_closed(&mut stream).await).unwrap();
        let seen = running.script.requests.load(Ordering::Relaxed) - before;
        if answer.matches("HTTP/1.1 ").count() != 1 || status(&answer) != 400 || seen != 1 {
            faults.push(format!("{chunks:?}, {seen} seen: {answer}"));
        }
    }
    // The preface of another protocol ends the connection without an answer.
    if !answers(&running, &format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{HIDDEN}")).await.is_empty() {
        faults.push("HTTP/2 is answered".to_owned());
    }
    assert!(faults.is_empty(), "{} cases:\n{}", faults.len(), faults.join("\n"));
    assert!(heads.len() + CHUNKS.len() >= CASES_MIN);
    // The hub continues to serve.
    let answer = answers(&running, "GET /count HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status(&answer), 200);
}

#[tokio::test]
async fn rare_valid_requests_pass() {
    let running = Running::start(Limits::default());
    for request in [
        "GET /count HTTP/1.1\r\nHost: hub.example:4000\r\n\r\n",
        "GET http://hub.example/count HTTP/1.1\r\nhost: [::1]:4000\r\n\r\n",
        "\r\n\r\nGET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: Chunked\r\n\r\n2;a=b\r\n\n\n\r\n0\r\ntrailer: t\r\n\r\n",
        "GET /count HTTP/1.1\r\nhost: x\r\nExpect: 100-Continue\r\n\r\n",
        "GET /count HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    ] {
        let mut stream = running.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let (answer, _) = response(&mut stream).await;
        assert!(answer.contains(" 200"), "{request:?}: {answer}");
        // The connection stays open.
        let (answer, _) = exchange(&mut stream, "GET /count HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.contains(" 200 "), "{request:?}: {answer}");
    }
}

//! What HTTP forbids is refused on real sockets, and the connection ends with it.

mod common;

use std::sync::atomic::Ordering;

use common::{Running, exchange, response, until_closed};
use tokio::io::AsyncWriteExt;
use upesi_http::Limits;

const SOUND: &str = "GET /count HTTP/1.1\r\nhost: x\r\n\r\n";

/// Each head is refused, alone and behind a request with a body on the same connection; the service never sees it.
async fn assert_refused(status: u16, heads: &[&str]) {
    let running = Running::start(Limits::default());
    for head in heads {
        let before = running.script.requests.load(Ordering::Relaxed);
        let mut stream = running.connect().await;
        // What follows the head must not be answered either.
        let (answer, _) = exchange(&mut stream, &format!("{head}{SOUND}")).await;
        assert!(answer.contains(&format!(" {status} ")), "{head:?}: {answer}");
        assert!(answer.contains("connection: close"), "{head:?}: {answer}");
        assert_eq!(until_closed(&mut stream).await, b"", "{head:?}");
        assert_eq!(running.script.requests.load(Ordering::Relaxed), before, "{head:?}");

        let mut stream = running.connect().await;
        let first = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n\na\n\n";
        stream.write_all(format!("{first}{head}{SOUND}").as_bytes()).await.unwrap();
        let answers = String::from_utf8(until_closed(&mut stream).await).unwrap();
        let (echo, refusal) = answers.split_once("\r\n\r\n\na\n\n").expect(&answers);
        assert!(echo.starts_with("HTTP/1.1 200 "), "{head:?}: {answers}");
        assert!(refusal.contains(&format!(" {status} ")), "{head:?}: {answers}");
        assert_eq!(refusal.matches("HTTP/1.").count(), 1, "{head:?}: {answers}");
        assert_eq!(running.script.requests.load(Ordering::Relaxed), before + 1, "{head:?}");
    }
    let mut stream = running.connect().await;
    assert!(exchange(&mut stream, SOUND).await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn a_host_that_is_missing_double_or_malformed_is_400() {
    assert_refused(
        400,
        &[
            "GET /count HTTP/1.1\r\n\r\n",
            "GET http://x/count HTTP/1.1\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\nHOST: y\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost:\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: a b\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: me@x\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x:port\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: http://x\r\n\r\n",
            "GET /count HTTP/1.0\r\nhost: a b\r\n\r\n",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_bare_lf_is_400() {
    assert_refused(
        400,
        &[
            "GET /count HTTP/1.1\nhost: x\n\n",
            "GET /count HTTP/1.1\nhost: x\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\n\n",
            "\nGET /count HTTP/1.1\r\nhost: x\r\n\r\n",
        ],
    )
    .await;
}

#[tokio::test]
async fn odd_white_space_in_heads_is_400() {
    assert_refused(
        400,
        &[
            "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\r\n c\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost : x\r\n\r\n",
            "GET /count HTTP/1.1\r\n host: x\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\nx-a: b\rc\r\n\r\n",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_coding_other_than_chunked_alone_is_refused() {
    let post = |headers: &str| format!("POST /echo HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n0\r\n\r\n");
    for (status, headers) in [
        (501, "transfer-encoding: gzip, chunked"),
        (501, "transfer-encoding: gzip\r\ntransfer-encoding: chunked"),
        (501, "transfer-encoding: xchunked, chunked"),
        (400, "transfer-encoding: chunked, chunked"),
        (400, "transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
        (400, "transfer-encoding: gzip"),
        (400, "transfer-encoding: chunked, gzip"),
        (400, "transfer-encoding: identity"),
        (400, "transfer-encoding: chunked\r\ncontent-length: 5"),
        (400, "content-length: 5\r\ntransfer-encoding: chunked"),
        (400, "content-length: 5\r\ncontent-length: 6"),
        (400, "content-length: 5, 5"),
        (400, "content-length: +5"),
    ] {
        assert_refused(status, &[&post(headers)]).await;
    }
    assert_refused(400, &["POST /echo HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"])
        .await;
}

#[tokio::test]
async fn an_expectation_that_is_unknown_is_417() {
    assert_refused(
        417,
        &[
            "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 100-continue, x\r\n\r\n",
            "GET /count HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nexpect: x\r\n\r\n",
        ],
    )
    .await;
}

#[tokio::test]
async fn what_is_sound_but_rare_passes() {
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
        // The connection goes on.
        let (answer, _) = exchange(&mut stream, SOUND).await;
        assert!(answer.contains(" 200 "), "{request:?}: {answer}");
    }
}

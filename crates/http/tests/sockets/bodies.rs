//! Request bodies over real sockets: size, time, framing.

use tokio::io::AsyncWriteExt;
use upesi_http::Limits;

use crate::common::{ECHO_BYTES_MAX, Running, exchange, response, until_closed};

fn post(body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn chunked(pieces: &[&str]) -> String {
    let pieces: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    format!("POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n")
}

#[tokio::test]
async fn bodies_within_the_limit_arrive_whole() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    let longest = "x".repeat(ECHO_BYTES_MAX);
    let half = "y".repeat(ECHO_BYTES_MAX / 2);
    for (request, expected) in [
        (post(""), String::new()),
        (post("hello"), "hello".to_owned()),
        (post(&longest), longest.clone()),
        (chunked(&[]), String::new()),
        (chunked(&["hel", "lo"]), "hello".to_owned()),
        (chunked(&[&half, &half]), half.repeat(2)),
    ] {
        let (head, body) = exchange(&mut stream, &request).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_body_sent_in_two_writes_arrives_whole() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .await
        .unwrap();
    let (head, _) = response(&mut stream).await;
    assert!(head.starts_with("http/1.1 100"), "{head}");
    let (head, body) = exchange(&mut stream, "hello").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(body, b"hello");
}

#[tokio::test]
async fn body_above_the_limit_is_rejected_and_the_client_receives_the_answer() {
    let running = Running::start(Limits::default());
    let over = "x".repeat(ECHO_BYTES_MAX + 1);
    let half = "y".repeat(ECHO_BYTES_MAX / 2);
    for request in [
        post(&over),
        chunked(&[&over]),
        chunked(&[&half, &half, "z"]),
        // Megabytes that the service will never read.
        post(&"x".repeat(6 * 1024 * 1024)),
    ] {
        let mut stream = running.connect().await;
        let (head, _) = exchange(&mut stream, &request).await;
        assert!(head.starts_with("http/1.1 413"), "{head}");
    }
    // Slightly too large: the rest was read, and the connection stays open.
    let mut stream = running.connect().await;
    for _ in 0..2 {
        let (head, _) = exchange(&mut stream, &post(&over)).await;
        assert!(head.starts_with("http/1.1 413"), "{head}");
    }
}

#[tokio::test]
async fn a_slow_body_is_given_up() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    let (head, _) =
        exchange(&mut stream, "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhel").await;
    assert!(head.starts_with("http/1.1 408"), "{head}");
    // No request can follow on a connection with ambiguous framing.
    until_closed(&mut stream).await;
}

#[tokio::test]
async fn broken_chunks_are_a_bad_request() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    let request = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n";
    let (head, _) = exchange(&mut stream, request).await;
    assert!(head.starts_with("http/1.1 400"), "{head}");
    until_closed(&mut stream).await;
}

#[tokio::test]
async fn an_answer_without_reading_the_body_arrives() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    let body = "x".repeat(3 * 1024 * 1024);
    let request = format!("POST /ignore HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (head, _) = exchange(&mut stream, &request).await;
    assert!(head.starts_with("http/1.1 202"), "{head}");
}

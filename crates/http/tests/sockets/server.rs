//! The server over real sockets: limits, rejections, timeouts, shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use upesi_http::{BindError, Limits, Server};

use crate::common;
use crate::common::http2::until;
use crate::common::{Running, ample, exchange, response, until_closed};

#[tokio::test]
async fn a_connection_serves_many_requests_also_pipelined() {
    let running = Running::start(Limits::default());
    let mut stream = running.connect().await;
    for count in 1..=3 {
        let (head, body) = exchange(&mut stream, "GET /count HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert_eq!(body, count.to_string().as_bytes());
    }
    stream.write_all("GET /ignore HTTP/1.1\r\nhost: x\r\n\r\n".repeat(3).as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while seen.windows(12).filter(|window| window == b"HTTP/1.1 202").count() < 3 {
        tokio::io::AsyncReadExt::read_buf(&mut stream, &mut seen).await.unwrap();
    }
    assert_eq!(running.server.connections(), 1);
}

#[tokio::test]
async fn heads_that_are_too_long_are_answered_431() {
    let running = Running::start(Limits { head_bytes_max: 8192, ..Limits::default() });
    let long = "x".repeat(9000);
    let many = (0..101).map(|index| format!("h{index}: v\r\n")).collect::<String>();
    // Far more than the server reads before the answer. The answer must still arrive.
    let flood = "y".repeat(4 * 1024 * 1024);
    for request in [
        format!("GET /count HTTP/1.1\r\nhost: x\r\nlong: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /count HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        format!("GET /count HTTP/1.1\r\nhost: x\r\nflood: {flood}\r\n\r\n"),
    ] {
        let mut stream = running.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let (head, _) = response(&mut stream).await;
        assert!(head.starts_with("http/1.1 431"), "{head}");
        until_closed(&mut stream).await;
    }
    let fits = "x".repeat(8000);
    let mut stream = running.connect().await;
    let (head, _) =
        exchange(&mut stream, &format!("GET /count HTTP/1.1\r\nhost: x\r\nlong: {fits}\r\n\r\n")).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn garbage_is_answered_400_and_closed() {
    let running = Running::start(Limits::default());
    for garbage in
        ["\x16\x03\x01\x02\x00\x01", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n"]
    {
        let mut stream = running.connect().await;
        let (head, _) = exchange(&mut stream, garbage).await;
        assert!(head.starts_with("http/1.1 400"), "{garbage:?}: {head}");
        until_closed(&mut stream).await;
    }
    assert_eq!(running.script.requests.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_slow_head_and_an_idle_connection_are_closed() {
    let short = Duration::from_millis(40);
    for (head_deadline, idle_timeout, sent) in [
        (short, common::AMPLE, "GET /count HT"),
        (common::AMPLE, short, ""),
        (common::AMPLE, short, "GET /count HTTP/1.1\r\nhost: x\r\n\r\n"),
    ] {
        let running = Running::start(Limits { head_deadline, idle_timeout, ..Limits::default() });
        let mut stream = running.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let rest = until_closed(&mut stream).await;
        assert_eq!(rest.starts_with(b"HTTP/1.1 200"), sent.ends_with("\r\n\r\n"), "{sent:?}");
    }
}

#[tokio::test]
async fn connection_with_a_busy_service_is_not_idle() {
    let short = Duration::from_millis(20);
    let running = Running::start(Limits { head_deadline: short, idle_timeout: short, ..Limits::default() });
    let mut stream = running.connect().await;
    stream.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.until_held(1).await;
    // Another connection reaches its idle timeout while the first is held, so many sweeps have passed.
    for _ in 0..3 {
        until_closed(&mut running.connect().await).await;
    }
    running.script.release.add_permits(1);
    let (head, body) = response(&mut stream).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(body, b"released");
}

#[tokio::test]
async fn connections_over_the_cap_are_refused_with_503() {
    let running = Running::start(Limits { connections_max: 2, ..Limits::default() });
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    for stream in [&mut first, &mut second] {
        exchange(stream, "GET /known HTTP/1.1\r\nhost: x\r\n\r\n").await;
        stream.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    }
    running.until_held(2).await;
    let mut third = running.connect().await;
    let (head, _) =
        exchange(&mut third, "POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello").await;
    assert!(head.starts_with("http/1.1 503") && head.contains("connection: close"), "{head}");
    until_closed(&mut third).await;
    assert_eq!(running.server.connections_refused(), 1);
    drop(first);
    drop(third);
    // The free place is used again when the server has noticed it.
    loop {
        let mut next = running.connect().await;
        let (head, _) = exchange(&mut next, "GET /count HTTP/1.1\r\nhost: x\r\n\r\n").await;
        if head.starts_with("http/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight_and_closes_idle_connections() {
    let running = Running::start(Limits::default());
    let mut idle = running.connect().await;
    exchange(&mut idle, "GET /count HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut silent = running.connect().await;
    let mut busy = running.connect().await;
    busy.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.until_held(1).await;

    let (still_open, ()) = tokio::join!(running.server.shutdown(ample()), async {
        assert_eq!(until_closed(&mut idle).await, b"");
        assert_eq!(until_closed(&mut silent).await, b"");
        running.script.release.add_permits(1);
        let (head, body) = response(&mut busy).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert_eq!(body, b"released");
        until_closed(&mut busy).await;
    });
    assert_eq!(still_open, 0);
    let refused = tokio::net::TcpStream::connect(running.server.local_addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_incomplete_requests_or_unread_answers() {
    let patient =
        Limits { head_deadline: 10 * common::AMPLE, idle_timeout: 10 * common::AMPLE, ..Limits::default() };
    for (begun, held) in [
        ("GET /count HT", 0),
        ("POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf", 1),
        ("GET /large/50000000 HTTP/1.1\r\nhost: x\r\n\r\n", 0),
    ] {
        let running = Running::start(patient.clone());
        let mut slow = running.connect().await;
        slow.write_all(begun.as_bytes()).await.unwrap();
        running.until_held(held).await;
        assert_eq!(running.server.shutdown(ample()).await, 0, "{begun}");
    }
}

#[tokio::test]
async fn peer_that_does_not_read_its_answer_is_closed_before_the_idle_timeout() {
    let short = Duration::from_millis(100);
    let limits = Limits { unread_timeout: short, idle_timeout: 10 * common::AMPLE, ..Limits::default() };
    let running = Running::start(limits);
    let mut slow = running.connect().await;
    slow.write_all(b"GET /large/50000000 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let has_ended =
        || running.server.connections() == 0 && running.script.requests.load(Ordering::Relaxed) == 1;
    until("it has ended", has_ended).await;
}

#[tokio::test]
async fn shutdown_ends_at_its_deadline() {
    let running = Running::start(Limits::default());
    let mut busy = running.connect().await;
    busy.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.until_held(1).await;
    assert_eq!(running.server.shutdown(Instant::now()).await, 1);
    running.workers.shutdown();
    until_closed(&mut busy).await;
}

#[tokio::test]
async fn bind_errors_have_a_remedy() {
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = Server::bind(bound.local_addr()).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&bound.local_addr().to_string()), "{error}");
    // TEST-NET-1, an address that no machine has.
    let error = Server::bind("192.0.2.1:0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindError::NotLocal { .. }), "{error}");
}

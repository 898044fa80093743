//! The connection that is closed when all places are taken.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use upesi_http::Limits;

use crate::common::{self, Running, exchange, response, until_closed};

const COUNT: &str = "GET /count HTTP/1.1\r\nhost: x\r\n\r\n";
const KNOWN: &str = "GET /known HTTP/1.1\r\nhost: x\r\n\r\n";
const GREENBANK: &str = "GET /greenbank HTTP/1.1\r\nhost: x\r\n\r\n";

fn start_with(connections_max: usize) -> Running {
    Running::start_on(1, Limits { connections_max, ..Limits::default() }, None, None)
}

async fn ask(stream: &mut TcpStream, request: &str) {
    let (head, _) = exchange(stream, request).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn idle_unauthenticated_connections_are_closed_for_new_ones() {
    let running = start_with(3);
    let mut known = running.connect().await;
    ask(&mut known, KNOWN).await;
    let mut asked = running.connect().await;
    ask(&mut asked, COUNT).await;
    let mut silent = running.connect().await;
    let mut next = running.connect().await;
    ask(&mut next, COUNT).await;
    // The first one of the two unauthenticated connections, although it has sent a request and the other has not.
    until_closed(&mut asked).await;
    ask(&mut known, COUNT).await;
    ask(&mut silent, COUNT).await;
    ask(&mut next, COUNT).await;
    assert_eq!(running.server.connections_refused(), 0);
}

#[tokio::test]
async fn connection_with_an_incomplete_head_or_a_waiting_service_may_be_closed() {
    for (begun, held) in [("GET /count HT", 0), ("GET /wait HTTP/1.1\r\nhost: x\r\n\r\n", 1)] {
        let running = start_with(1);
        let mut slow = running.connect().await;
        slow.write_all(begun.as_bytes()).await.unwrap();
        running.until_held(held).await;
        let mut next = running.connect().await;
        ask(&mut next, COUNT).await;
        // Closed, with a reset if it had sent bytes that were not read.
        let mut rest = Vec::new();
        let end = slow.read_to_end(&mut rest).await;
        assert!(end.is_ok_and(|length| length == 0) || rest.is_empty(), "{begun}: {rest:?}");
    }
}

#[tokio::test]
async fn served_unauthenticated_connection_is_closed_after_its_answer() {
    let running = start_with(1);
    let mut busy = running.connect().await;
    // More than one request at once, so that it is never idle.
    busy.write_all("GET /hold HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_bytes()).await.unwrap();
    running.until_held(1).await;
    ask(&mut running.connect().await, COUNT).await;
    running.script.release.add_permits(2);
    let (head, body) = common::response(&mut busy).await;
    assert!(head.starts_with("http/1.1 200") && head.contains("connection: close"), "{head}");
    assert_eq!(body, b"released");
    assert_eq!(until_closed(&mut busy).await, b"");
}

#[tokio::test]
async fn authenticated_clients_keep_connections_in_use() {
    let running = start_with(1);
    let mut known = running.connect().await;
    ask(&mut known, KNOWN).await;
    let (head, _) = exchange(&mut running.connect().await, COUNT).await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    ask(&mut known, COUNT).await;
}

#[tokio::test]
async fn candidate_that_authenticates_or_is_served_is_kept() {
    let running = start_with(4);
    let mut first = running.connect().await;
    ask(&mut first, COUNT).await;
    let (mut known, mut busy) = (running.connect().await, running.connect().await);
    ask(&mut known, COUNT).await;
    ask(&mut busy, COUNT).await;
    let mut last = running.connect().await;
    ask(&mut last, COUNT).await;
    // The next connection needs a place. The search finds all four candidates and closes the first one.
    let mut next = running.connect().await;
    ask(&mut next, KNOWN).await;
    until_closed(&mut first).await;
    ask(&mut known, KNOWN).await;
    busy.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.until_held(1).await;
    let mut after = running.connect().await;
    ask(&mut after, COUNT).await;
    until_closed(&mut last).await;
    running.script.release.add_permits(1);
    assert_eq!(common::response(&mut busy).await.1, b"released");
    ask(&mut busy, COUNT).await;
    ask(&mut known, COUNT).await;
}

#[tokio::test]
async fn crowd_of_unauthenticated_clients_excludes_no_other_client() {
    let running = start_with(64);
    let mut crowd = Vec::new();
    let mut known = running.connect().await;
    ask(&mut known, KNOWN).await;
    for _ in 0..20 {
        for _ in 0..20 {
            crowd.push(running.connect().await);
        }
        // A new connection is served at once although all places are taken. When its participant is known, it stays.
        let mut next = running.connect().await;
        ask(&mut next, KNOWN).await;
        crowd.push(next);
        ask(&mut known, COUNT).await;
    }
    assert_eq!(running.server.connections_refused(), 0);
    for index in (20..crowd.len()).step_by(21) {
        ask(&mut crowd[index], COUNT).await;
    }
    assert!(running.server.connections() <= 64 + 32 + 32, "{}", running.server.connections());
}

#[tokio::test]
async fn unauthenticated_connections_of_one_address_have_a_separate_limit() {
    let limits = Limits { anonymous_per_address_max: 2, ..Limits::default() };
    let running = Running::start_on(1, limits, None, None);
    let mut known = Vec::new();
    for _ in 0..5 {
        let mut stream = running.connect().await;
        ask(&mut stream, KNOWN).await;
        known.push(stream);
    }
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    ask(&mut first, COUNT).await;
    ask(&mut second, COUNT).await;
    let mut third = running.connect().await;
    ask(&mut third, COUNT).await;
    until_closed(&mut first).await;
    ask(&mut second, COUNT).await;
    for stream in &mut known {
        ask(stream, COUNT).await;
    }
    assert_eq!(running.server.connections_refused(), 0);
}

#[tokio::test]
async fn participant_above_its_limit_replaces_its_slow_connections() {
    let limits = Limits {
        connections_max: 10,
        connections_per_participant_max: 2,
        // After this time, the rest of a request is overdue.
        unread_timeout: Duration::from_millis(20),
        ..Limits::default()
    };
    let running = Running::start_on(1, limits, None, None);
    let mut other = running.connect().await;
    ask(&mut other, "GET /bluewallet HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    for (stream, begun, held) in
        [(&mut first, "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n", 1), (&mut second, "GET /count HT", 0)]
    {
        ask(stream, GREENBANK).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        running.until_held(held).await;
    }
    // A further connection ends with its answer, until the first one has waited for too long.
    let mut third = loop {
        let mut further = running.connect().await;
        let (head, _) = exchange(&mut further, GREENBANK).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        if !head.contains("connection: close") {
            break further;
        }
        assert_eq!(until_closed(&mut further).await, b"");
    };
    // With a reset if the server has not read all of its bytes.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(common::AMPLE, first.read_to_end(&mut rest)).await;
    assert_eq!(ended.expect("it makes room").unwrap_or(0), 0);
    second.write_all(b"TP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    response(&mut second).await;
    ask(&mut other, COUNT).await;
    // Connections that are being served or were used recently are not closed.
    let before = running.server.connections_over_share();
    for held in 0..=2 {
        let mut further = running.connect().await;
        let (head, _) = exchange(&mut further, GREENBANK).await;
        assert!(head.starts_with("http/1.1 200") && head.contains("connection: close"), "{head}");
        if let Some(stream) = [&mut second, &mut third].get_mut(held) {
            stream.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            running.until_held(1).await;
        }
    }
    running.script.release.add_permits(2);
    for stream in [&mut second, &mut third] {
        assert_eq!(response(stream).await.1, b"released");
    }
    let server = &running.server;
    assert_eq!((server.connections_refused(), server.connections_made_way()), (0, 1));
    assert_eq!(server.connections_over_share(), before + 3);
}

#[tokio::test]
async fn waiting_connections_of_a_participant_above_its_part_make_room() {
    for (begun, held) in [
        ("POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf", 1),
        ("GET /count HT", 0),
        ("", 0),
    ] {
        let running = start_with(4);
        let mut greedy = Vec::new();
        for _ in 0..4 {
            let mut stream = running.connect().await;
            ask(&mut stream, GREENBANK).await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            running.until_held(held).await;
            greedy.push(stream);
        }
        for path in ["/bluewallet", "/known"] {
            let mut next = running.connect().await;
            ask(&mut next, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            ask(&mut next, COUNT).await;
            greedy.push(next);
        }
        assert_eq!(running.server.connections_refused(), 0, "{begun}");
        assert_eq!(running.server.connections_made_way(), 2, "{begun}");
        // The other participant has kept its connection.
        ask(&mut greedy[4], COUNT).await;
    }
}

//! The server over real sockets: limits, rejections, timeouts, shutdown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::Instant;
use upesi_http::server::Direct;
use upesi_http::{BindError, Limits, Server};

use crate::common;
use crate::common::http2::until;
use crate::common::{ECHO_BYTES_MAX, Running, Script, ample, exchange, response, until_closed};

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
async fn a_busy_service_is_not_an_idle_connection() {
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
async fn shutdown_finishes_what_is_in_flight_and_closes_the_rest() {
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
async fn shutdown_does_not_wait_for_half_a_head_half_a_body_or_a_peer_that_does_not_read() {
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
async fn a_peer_that_does_not_read_its_answer_is_closed_long_before_it_idles() {
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
async fn shutdown_gives_up_at_its_deadline() {
    let running = Running::start(Limits::default());
    let mut busy = running.connect().await;
    busy.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.until_held(1).await;
    assert_eq!(running.server.shutdown(Instant::now()).await, 1);
    running.workers.shutdown();
    until_closed(&mut busy).await;
}

#[tokio::test]
async fn bind_errors_say_what_to_do() {
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = Server::bind(bound.local_addr()).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&bound.local_addr().to_string()), "{error}");
    // TEST-NET-1, an address that no machine has.
    let error = Server::bind("192.0.2.1:0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindError::NotLocal { .. }), "{error}");
}

// Request bodies over real sockets: size, time, framing.

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
async fn bodies_over_the_limit_are_refused_and_the_refusal_arrives() {
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

// The server's loop over a pipe in memory, where a test advances the time.

const PIPE_BYTES: usize = 64 * 1024;
const SECOND: Duration = Duration::from_secs(1);
/// The time limits of one second pass in five checks; one more check detects that.
const LOOKS: usize = 6;

fn in_memory() -> Direct<Script> {
    let limits = Limits { head_deadline: SECOND, idle_timeout: SECOND, ..Limits::default() };
    Direct::new(&limits, Arc::new(Script::new()))
}

/// All bytes until the server closes.
async fn rest(mut peer: DuplexStream) -> String {
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn requests_are_answered_until_the_peer_ends() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        let mut answers = Vec::new();
        while !answers.ends_with(b"\r\n\r\n2") {
            assert_ne!(peer.read_buf(&mut answers).await.unwrap(), 0, "closed too early");
        }
        peer.shutdown().await.unwrap();
        assert_eq!(rest(peer).await, "");
    };
    tokio::join!(in_memory.serve(stream, false), asking);
}

#[tokio::test]
async fn over_the_cap_one_request_is_refused() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2).as_slice()).await.unwrap();
        peer.shutdown().await.unwrap();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, true), asking);
    assert!(answers.starts_with("HTTP/1.1 503") && answers.matches("HTTP/1.1").count() == 1, "{answers}");
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up_when_its_time_has_passed() {
    let (in_memory, (mut peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let asking = async {
        peer.write_all(b"GET /count HT").await.unwrap();
        // By its second turn the server has read it.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        (0..LOOKS).for_each(|_| in_memory.sweep());
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, false), asking);
    assert_eq!(answers, "");
}

#[tokio::test]
async fn an_idle_connection_ends_when_all_are_told_to_finish() {
    let (in_memory, (peer, stream)) = (in_memory(), duplex(PIPE_BYTES));
    let ending = async {
        in_memory.finish_all();
        rest(peer).await
    };
    let ((), answers) = tokio::join!(in_memory.serve(stream, false), ending);
    assert_eq!(answers, "");
}

// The connection that is closed when there are no free places.

const COUNT: &str = "GET /count HTTP/1.1\r\nhost: x\r\n\r\n";
const KNOWN: &str = "GET /known HTTP/1.1\r\nhost: x\r\n\r\n";
const GREENBANK: &str = "GET /greenbank HTTP/1.1\r\nhost: x\r\n\r\n";

fn start_with(connections_max: usize) -> Running {
    Running::start_on(1, Limits { connections_max, ..Limits::default() }, (None, None))
}

async fn ask(stream: &mut TcpStream, request: &str) {
    let (head, _) = exchange(stream, request).await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[tokio::test]
async fn strangers_that_idle_make_room_and_the_known_stay() {
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
async fn a_head_that_does_not_end_and_a_service_that_waits_make_room() {
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
async fn a_stranger_that_is_served_makes_room_with_its_answer() {
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
async fn the_known_keep_their_connection_while_they_use_it() {
    let running = start_with(1);
    let mut known = running.connect().await;
    ask(&mut known, KNOWN).await;
    let (head, _) = exchange(&mut running.connect().await, COUNT).await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    ask(&mut known, COUNT).await;
}

#[tokio::test]
async fn who_became_known_or_is_served_since_it_was_found_stays() {
    let running = start_with(4);
    let mut first = running.connect().await;
    ask(&mut first, COUNT).await;
    let (mut known, mut busy) = (running.connect().await, running.connect().await);
    ask(&mut known, COUNT).await;
    ask(&mut busy, COUNT).await;
    let mut last = running.connect().await;
    ask(&mut last, COUNT).await;
    // The search for this one finds all four, and the first one is closed.
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
async fn a_crowd_of_strangers_locks_nobody_out() {
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
async fn strangers_of_one_address_share_a_bound_that_the_known_do_not_count_in() {
    let limits = Limits { strangers_per_address_max: 2, ..Limits::default() };
    let running = Running::start_on(1, limits, (None, None));
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
async fn a_participant_has_so_many_connections_and_for_more_its_own_make_room() {
    let limits = Limits { connections_max: 10, connections_per_participant_max: 2, ..Limits::default() };
    let running = Running::start_on(1, limits, (None, None));
    let mut other = running.connect().await;
    ask(&mut other, "GET /bluewallet HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut greedy = Vec::new();
    for begun in ["GET /wait HTTP/1.1\r\nhost: x\r\n\r\n", "GET /count HT", ""] {
        let mut stream = running.connect().await;
        ask(&mut stream, GREENBANK).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        running.until_held(u32::from(begun.contains("wait"))).await;
        greedy.push(stream);
    }
    // The connection that has waited longest is closed, with a reset if the server has not read all of its bytes.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(common::AMPLE, greedy[0].read_to_end(&mut rest)).await;
    assert_eq!(ended.expect("it makes room").unwrap_or(0), 0);
    ask(&mut greedy[2], COUNT).await;
    ask(&mut other, COUNT).await;
    // While both are being served, neither is closed.
    greedy[1].write_all(b"TP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    response(&mut greedy[1]).await;
    for stream in &mut greedy[1..] {
        stream.write_all(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    }
    running.until_held(2).await;
    let mut fourth = running.connect().await;
    assert!(exchange(&mut fourth, GREENBANK).await.0.starts_with("http/1.1 503"));
    running.script.release.add_permits(2);
    assert_eq!(running.server.connections_refused(), 1);
}

#[tokio::test]
async fn where_a_participant_has_more_than_its_part_its_waiting_connections_make_room_for_others() {
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

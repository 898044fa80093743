//! HTTP/2 of a server over real sockets: the same limits as for HTTP/1.1, and limits of resources that exist only in
//! HTTP/2.

use crate::common;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, NO_ERROR, Outcome, PING,
    PRIORITY, Peer, REFUSED_STREAM, RST_STREAM, SETTINGS, Scheme, WINDOW_UPDATE, fields, frame, get, post,
    until,
};
use crate::common::{AMPLE, BLUEWALLET, GREENBANK, Running, Script, ample};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use upesi_http::{
    Bytes, Connection, Full, Incoming, KnownAs, Limits, Origin, Pool, PoolConfig, Request, Response,
    SendError, Server, Service, Workers,
};
use upesi_tls::Protocols;

fn patient() -> Limits {
    Limits { head_deadline: 10 * AMPLE, idle_timeout: 10 * AMPLE, ..Limits::default() }
}

fn requests(running: &Running) -> usize {
    running.script.requests.load(Ordering::Relaxed)
}

#[tokio::test]
async fn peer_and_server_negotiate_a_common_protocol() {
    let scheme = Scheme::new();
    for (server, offered, agreed) in [
        (Protocols::Http2AndHttp1, &[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])),
        (Protocols::Http2AndHttp1, &[b"http/1.1", b"h2"], Some(b"h2")),
        (Protocols::Http2AndHttp1, &[b"http/1.1"], Some(b"http/1.1")),
        (Protocols::Http2AndHttp1, &[], None),
        (Protocols::Http1, &[b"h2", b"http/1.1"], Some(b"http/1.1")),
        (Protocols::Http1, &[], None),
    ] {
        let running = scheme.serve(patient(), scheme.server(server, false));
        let port = running.server.local_addr().port();
        let mut stream = scheme.connect(port, offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{server:?} and {offered:?}");
        if agreed == Some(b"h2") {
            let mut peer = scheme.peer(&running).await;
            assert!(peer.send(&get(1, "/count")).await);
            assert_eq!(peer.answer(1).await.0, 200);
        } else {
            // The protocol is HTTP/1.1, so the preface of HTTP/2 is not a request.
            stream.write_all(b"GET /who HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            timeout(AMPLE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        }
    }
}

#[tokio::test]
async fn curl_speaks_http_2_with_the_server() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let features = Command::new("curl").arg("--version").output();
    if !features.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("HTTP2")) {
        eprintln!("curl with HTTP/2 is not installed: not tried");
        return;
    }
    let (anchors, url) = (scheme.file("ca.pem"), format!("https://{}", running.server.local_addr()));
    for (protocol, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", protocol, "--cacert"]).arg(&anchors);
        curl.args(["--data-binary", "hello", "--write-out", "|%{http_version}|%{http_code}|%{num_connects}"]);
        curl.args([format!("{url}/echo"), format!("{url}/echo")]);
        let output = tokio::task::spawn_blocking(move || curl.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!("hello|{version}|200|1hello|{version}|200|0");
        assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn requests_in_flight_are_limited_per_connection_and_server() {
    let scheme = Scheme::new();
    // One party has half of the six places in addition to the first request of each connection.
    let running = scheme.start(Limits { connections_max: 6, streams_per_connection_max: 4, ..patient() });
    let mut one = scheme.peer(&running).await;
    // The client must know the server's limits before it can exceed them.
    assert!(one.send(&get(1, "/count")).await);
    assert_eq!(one.answer(1).await, (200, b"1".to_vec()));
    for stream in [3, 5, 7, 9] {
        assert!(one.send(&get(stream, "/hold")).await);
    }
    running.until_held(4).await;
    assert!(one.send(&get(11, "/hold")).await);
    assert_eq!(one.outcome(11).await, Outcome::Reset(REFUSED_STREAM));
    // Other parties have the rest.
    let mut other = scheme.peer(&running).await;
    assert!(other.send(&get(1, "/greenbank")).await);
    assert_eq!(other.outcome(1).await, Outcome::Status(200));
    for stream in [3, 5, 7, 9] {
        assert!(other.send(&get(stream, "/hold")).await);
    }
    running.until_held(4).await;
    let mut third = scheme.peer(&running).await;
    assert!(third.send(&[get(1, "/bluewallet"), get(3, "/hold")].concat()).await);
    running.until_held(1).await;
    assert!(third.send(&get(5, "/count")).await);
    assert_eq!(third.outcome(5).await, Outcome::Status(503));
    assert_eq!(requests(&running), 12, "no refused request reached the service");
    // A request that ends releases its place, and so does an abandoned one.
    assert!(one.send(&frame(RST_STREAM, 0, 5, &8_u32.to_be_bytes())).await);
    let made_room = async {
        let mut stream = 7;
        loop {
            assert!(third.send(&get(stream, "/count")).await);
            match third.outcome(stream).await {
                Outcome::Status(503) => stream += 2,
                found => return found,
            }
        }
    };
    assert_eq!(timeout(AMPLE, made_room).await.unwrap(), Outcome::Status(200));
    running.script.release.add_permits(8);
    let mut left = vec![3, 7, 9];
    while !left.is_empty() {
        let answer = one.next().await.unwrap();
        assert_ne!(answer.kind, RST_STREAM, "{answer:?}");
        if answer.kind == HEADERS {
            left.retain(|stream| *stream != answer.stream);
        }
    }
    assert_eq!(running.server.connections(), 3);
}

#[tokio::test]
async fn requests_are_limited_by_address_and_then_by_participant() {
    const SHARE: u32 = 3;
    let scheme = Scheme::new();
    let share = SHARE as usize;
    let limits =
        Limits { anonymous_per_address_max: share, connections_per_participant_max: share, ..patient() };
    let running = scheme.start(limits);
    for path in ["/count", "/greenbank", "/bluewallet"] {
        let mut peers = [scheme.peer(&running).await, scheme.peer(&running).await];
        for peer in &mut peers {
            assert!(peer.send(&get(1, path)).await);
            assert_eq!(peer.outcome(1).await, Outcome::Status(200));
        }
        // One request per connection may be in flight, and in addition the share of the address or participant.
        let [one, other] = &mut peers;
        for stream in [3, 5, 7] {
            assert!(one.send(&get(stream, "/wait")).await);
        }
        for stream in [3, 5] {
            assert!(other.send(&get(stream, "/wait")).await);
        }
        running.until_held(SHARE + 2).await;
        for peer in [one, other] {
            assert!(peer.send(&get(9, "/count")).await);
            assert_eq!(peer.outcome(9).await, Outcome::Status(503), "{path}");
        }
    }
}

#[tokio::test]
async fn unread_answers_use_no_request_place() {
    let scheme = Scheme::new();
    // A long timeout, so that it has no effect here.
    let limits = Limits { connections_max: 4, unread_timeout: 10 * AMPLE, ..patient() };
    let running = scheme.start(limits);
    let mut greedy = scheme.peer_with(&running, &[(4, 0)]).await;
    for stream in (1..64).step_by(2) {
        // The number of requests is at most the limit in flight.
        assert!(greedy.send(&get(stream, "/large/1000")).await);
        assert_eq!(
            greedy.outcome(stream).await,
            Outcome::Status(200),
            "its head, without a byte of its body"
        );
    }
    let mut honest = scheme.peer(&running).await;
    for stream in [1, 3, 5] {
        assert!(honest.send(&get(stream, "/hold")).await);
    }
    running.until_held(3).await;
    running.script.release.add_permits(3);
}

#[tokio::test]
async fn peer_that_does_not_read_an_answer_is_closed_before_the_idle_timeout() {
    let scheme = Scheme::new();
    let running = scheme.start(Limits { unread_timeout: Duration::from_millis(200), ..patient() });
    let mut peer = scheme.peer_with(&running, &[(4, 0)]).await;
    assert!(peer.send(&get(1, "/large/1")).await);
    peer.until_closed().await;
    until("it has ended", || running.server.connections() == 0).await;
}

async fn ask(pool: &Pool, path: &str) -> Result<String, SendError> {
    let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    let answer = pool.send(request, ample()).await?;
    Ok(String::from_utf8(answer.body.to_vec()).unwrap())
}

/// The next bytes to send.
type Next = Box<dyn FnMut(usize) -> Vec<u8>>;

/// Sends this many frames, and waits for the end of the connection.
async fn flood(mut peer: Peer, frames: usize, mut next: impl FnMut(usize) -> Vec<u8>) {
    for number in 0..frames {
        if !peer.send(&next(number)).await {
            break;
        }
    }
    peer.until_closed().await;
}

#[tokio::test]
async fn too_many_empty_frames_end_only_their_own_connection() {
    const FRAMES: usize = 3000;
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut honest = scheme.peer(&running).await;
    let stream = |number: usize| u32::try_from(2 * number + 1).unwrap();
    let mut floods: Vec<(&str, Next)> = vec![
        ("pings", Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("answers to no ping", Box::new(|_| frame(PING, 1, 0, &[0; 8]))),
        ("settings", Box::new(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]))),
        ("priorities", Box::new(|_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 7]))),
        ("windows", Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))),
        ("frames of unknown kinds", Box::new(|_| frame(0xfa, 0, 0, &[0; 8]))),
        (
            "requests that are reset at once",
            Box::new(move |number| {
                let reset = frame(RST_STREAM, 0, stream(number), &8_u32.to_be_bytes());
                [get(stream(number), "/wait"), reset].concat()
            }),
        ),
        (
            "malformed requests",
            Box::new(move |number| {
                frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &fields(&[("no", "pseudo")]))
            }),
        ),
        (
            "a body of empty frames",
            Box::new(|number| match number {
                0 => post(1, "/echo"),
                _ => frame(DATA, 0, 1, &[]),
            }),
        ),
        (
            "an endless head",
            Box::new(|number| match number {
                0 => frame(HEADERS, 0, 1, &fields(&[(":method", "GET"), (":path", "/count")])),
                _ => frame(CONTINUATION, 0, 1, &fields(&[("x", "y")])),
            }),
        ),
    ];
    for (name, next) in &mut floods {
        let before = running.server.connections();
        let peer = scheme.peer(&running).await;
        let ended = timeout(AMPLE, flood(peer, FRAMES, next)).await;
        assert!(ended.is_ok(), "{name}: after {FRAMES} frames the connection stands");
        until(name, || running.server.connections() <= before).await;
        assert!(honest.send(&get(stream(requests(&running)), "/count")).await);
    }
    // All requests of the honest client are answered.
    for _ in &floods {
        while honest.next().await.expect("the connection stays open").kind != HEADERS {}
    }
}

#[tokio::test]
async fn allowed_frames_grow_with_the_requests() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    for number in 0..1500 {
        let stream = 2 * number + 1;
        let ping = frame(PING, 0, 0, &[0; 8]);
        let window = frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
        assert!(peer.send(&[ping, window, get(stream, "/count")].concat()).await, "{number}");
        assert_eq!(peer.answer(stream).await.0, 200, "{number}");
    }
}

#[tokio::test]
async fn rapid_resets_reach_the_service_only_a_few_times() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    let mut bytes = Vec::new();
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        bytes.extend(get(stream, "/wait"));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    let _ = peer.send(&bytes).await;
    peer.until_closed().await;
    assert!(requests(&running) <= 600, "{}", requests(&running));
    until("it has ended", || running.server.connections() == 0).await;
}

#[tokio::test]
async fn incomplete_head_and_idle_peer_are_closed() {
    let scheme = Scheme::new();
    let short = Duration::from_millis(100);
    // A head has its own time limit, whatever the idle timeout of a connection.
    let running = scheme.start(Limits { head_deadline: short, ..patient() });
    let mut peer = scheme.peer(&running).await;
    assert!(peer.send(&get(1, "/count")).await);
    assert_eq!(peer.answer(1).await.0, 200);
    assert!(peer.send(&frame(HEADERS, 0, 3, &fields(&[(":method", "GET")]))).await);
    peer.until_closed().await;
    until("it has ended", || running.server.connections() == 0).await;
    assert_eq!(requests(&running), 1);

    let running = scheme.start(Limits { idle_timeout: short, ..patient() });
    let mut idle = scheme.peer(&running).await;
    assert_eq!(idle.until_closed().await, Some(NO_ERROR), "the peer receives a GOAWAY frame");
    // Pings are not requests, and a connection without a preface is not valid.
    let mut pinging = scheme.peer(&running).await;
    let silent = scheme.connect(running.server.local_addr().port(), &[b"h2"]).await;
    let pinged = async {
        while pinging.send(&frame(PING, 0, 0, &[0; 8])).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(AMPLE, pinged).await.expect("it is closed");
    until("they have ended", || running.server.connections() == 0).await;
    drop(silent);
}

#[tokio::test]
async fn peer_that_does_not_read_is_closed_even_if_it_sends_requests() {
    let scheme = Scheme::new();
    let running = scheme.start(Limits { idle_timeout: Duration::from_millis(200), ..patient() });
    // Its window is zero from the start.
    let mut peer = scheme.peer_with(&running, &[(4, 0)]).await;
    assert!(peer.send(&get(1, "/large/100000")).await);
    let mut stream = 3;
    let asked = async {
        while peer.send(&get(stream, "/ignore")).await {
            match peer.outcome(stream).await {
                Outcome::Status(202) => stream += 2,
                _ => break,
            }
        }
    };
    timeout(AMPLE, asked).await.expect("it is closed");
    assert!(stream > 3, "requests before it were answered");
    until("it has ended", || running.server.connections() == 0).await;
}

#[tokio::test]
async fn stopping_server_answers_open_requests_and_sends_goaway() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    assert!(peer.send(&get(1, "/hold")).await);
    running.until_held(1).await;
    let stopping = running.server.shutdown(ample());
    let asked = async {
        // The client is informed before the connection ends.
        while peer.next().await.expect("the connection stays open").kind != common::http2::GOAWAY {}
        running.script.release.add_permits(1);
        assert_eq!(peer.answer(1).await, (200, b"released".to_vec()));
        peer.until_closed().await;
        drop(peer);
    };
    let (left, ()) = tokio::join!(stopping, asked);
    assert_eq!(left, 0);
}

#[tokio::test]
async fn stopping_server_does_not_wait_for_a_silent_peer() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    assert!(peer.send(&get(1, "/count")).await);
    assert_eq!(peer.answer(1).await.0, 200);
    // The peer reads nothing more, so it does not acknowledge the GOAWAY frame.
    assert_eq!(running.server.shutdown(ample()).await, 0);
    drop(peer);
}

#[tokio::test]
async fn stopping_server_does_not_wait_for_incomplete_requests() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut half_head = scheme.peer(&running).await;
    assert!(half_head.send(&frame(HEADERS, 0, 1, &fields(&[(":method", "GET")]))).await);
    let mut half_body = scheme.peer(&running).await;
    assert!(half_body.send(&[post(1, "/wait"), frame(DATA, 0, 1, b"half")].concat()).await);
    running.until_held(1).await;
    assert_eq!(running.server.shutdown(ample()).await, 0);
}

#[tokio::test]
async fn untrusted_peer_receives_only_its_last_answers() {
    let scheme = Scheme::new();
    let running = scheme.serve(patient(), scheme.server(Protocols::Http2AndHttp1, true));
    let pool = scheme.pool(running.server.local_addr().port(), PoolConfig::default());
    let held = ask(&pool, "/hold");
    let revoked = async {
        running.until_held(1).await;
        assert_eq!(ask(&pool, "/who").await.unwrap(), "greenbank");
        assert_eq!(running.server.recheck(|_| false), 1);
        // On the same connection, before the peer may know of its end.
        let after = ask(&pool, "/count").await;
        running.script.release.add_permits(1);
        after
    };
    let (held, after) = tokio::join!(held, revoked);
    assert_eq!(held.unwrap(), "released");
    // The peer returns with a new handshake, which is allowed here because the file does not block it.
    assert_eq!(after.unwrap(), "3", "two before it, and none on the old connection");
    until("the old one has ended", || running.server.connections() == 1).await;
}

#[tokio::test]
async fn answer_with_connection_close_closes_the_connection() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    assert!(peer.send(&get(1, "/last")).await);
    assert_eq!(peer.outcome(1).await, Outcome::Status(200));
    assert!(peer.send(&get(3, "/count")).await || requests(&running) == 1);
    assert_eq!(peer.until_closed().await, Some(NO_ERROR));
    assert_eq!(requests(&running), 1, "nothing is served after it");
}

#[tokio::test]
async fn bodies_are_read_within_the_limits_of_the_service() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    let cases: [(&str, Vec<Vec<u8>>, u16); 4] = [
        ("whole", vec![vec![b'a'; 400], vec![b'a'; 600]], 200),
        ("too large", vec![vec![b'a'; 600], vec![b'a'; 600]], 413),
        ("never ending", vec![vec![b'a'; 600]], 408),
        ("empty", vec![vec![]], 200),
    ];
    for (number, (name, pieces, status)) in cases.iter().enumerate() {
        let stream = u32::try_from(2 * number + 1).unwrap();
        assert!(peer.send(&post(stream, "/echo")).await);
        for (index, piece) in pieces.iter().enumerate() {
            let is_last = index + 1 == pieces.len() && *name != "never ending";
            assert!(peer.send(&frame(DATA, if is_last { END_STREAM } else { 0 }, stream, piece)).await);
        }
        assert_eq!(peer.answer(stream).await.0, *status, "{name}");
    }
    // An answer before the body resets the stream, and is not counted as a fault.
    assert!(peer.send(&post(21, "/ignore")).await);
    assert_eq!(peer.outcome(21).await, Outcome::Status(202));
    assert_eq!(peer.outcome(21).await, Outcome::Reset(NO_ERROR));
    assert!(peer.send(&get(23, "/count")).await);
    assert_eq!(peer.answer(23).await.0, 200, "the connection stays usable");
}

#[tokio::test]
async fn unread_body_stops_at_the_window() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    // The window applies when the peer has acknowledged it.
    assert!(peer.send(&get(1, "/count")).await);
    assert_eq!(peer.answer(1).await.0, 200);
    assert!(peer.send(&post(3, "/hold")).await);
    running.until_held(1).await;
    for _ in 0..4 {
        assert!(peer.send(&frame(DATA, 0, 3, &[7; 16 * 1024])).await);
    }
    // The window of 64 KiB is used up: one more byte is an error.
    assert!(peer.send(&frame(DATA, 0, 3, &[7])).await);
    assert!(matches!(peer.outcome(3).await, Outcome::Reset(3) | Outcome::Away(3)), "flow control");
    running.script.release.add_permits(1);
}

#[tokio::test]
async fn a_body_of_tiny_frames_ends_the_connection() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    assert!(peer.send(&post(1, "/hold")).await);
    running.until_held(1).await;
    let tiny = frame(DATA, 0, 1, &[7]).repeat(60_000);
    let _ = peer.send(&tiny).await;
    assert_eq!(peer.until_closed().await, Some(ENHANCE_YOUR_CALM));
    running.script.release.add_permits(1);
}

#[tokio::test]
async fn answer_to_head_has_a_content_length_and_no_body() {
    let scheme = Scheme::new();
    let running = scheme.start(patient());
    let mut peer = scheme.peer(&running).await;
    let head = [(":method", "HEAD"), (":scheme", "https"), (":authority", "hub"), (":path", "/large/70000")];
    assert!(peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&head))).await);
    assert_eq!(peer.answer(1).await, (200, Vec::new()));
    assert!(peer.send(&get(3, "/large/70000")).await);
    // The window has the initial size of RFC 9113. The rest waits for an update.
    let mut read = 0;
    while read < 65_535 {
        let answer = peer.next().await.unwrap();
        if answer.kind == DATA {
            read += answer.payload.len();
        }
    }
    let more = [0_u32, 3].map(|stream| frame(WINDOW_UPDATE, 0, stream, &10_000_u32.to_be_bytes())).concat();
    assert!(peer.send(&more).await);
    while read < 70_000 {
        read += peer.next().await.unwrap().payload.len();
    }
}

/// Answers when a test says so.
#[derive(Default)]
struct Told {
    asked: Notify,
    answers: Notify,
}

impl Service for Told {
    async fn call(&self, _: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        self.asked.notify_one();
        self.answers.notified().await;
        Response::default()
    }
}

/// As with HTTP/1.1: tasks that the same event wakes send their callbacks after the answers of a batch.
#[tokio::test]
async fn answer_is_written_before_tasks_that_the_same_event_wakes() {
    let (scheme, workers, service) =
        (Scheme::new(), Workers::start(1, "test").unwrap(), Arc::new(Told::default()));
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let secured = scheme.secured(scheme.server(Protocols::Http2AndHttp1, false));
    let server = Server::serve_with(bound, patient(), &workers, service.clone(), Some(secured));
    let mut peer = scheme.peer_at(server.local_addr().port(), &[]).await;
    for stream in (1..40).step_by(2) {
        assert!(peer.send(&get(stream, "/")).await);
        timeout(AMPLE, service.asked.notified()).await.expect("the service receives the request");
        // After the answer to a ping, no frames are in flight.
        assert!(peer.send(&frame(PING, 0, 0, &[0; 8])).await);
        while peer.next().await.unwrap().kind != PING {}
        let socket = peer.socket();
        let is_there = move || socket.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        assert!(!is_there(), "{stream}: nothing was answered");
        let (lane, (told, tell)) = (Arc::new(Notify::new()), oneshot::channel());
        let (woken, event) = (lane.clone(), service.clone());
        workers.get(0).spawn(async move {
            woken.notified().await;
            told.send(is_there())
        });
        workers.get(0).spawn(async move {
            event.answers.notify_one();
            lane.notify_one();
        });
        assert!(timeout(AMPLE, tell).await.unwrap().unwrap(), "{stream}: the answer was overtaken");
        assert_eq!(peer.answer(stream).await.0, 200);
    }
}

/// Assigns connections to the participants of their certificates before the first request.
struct Meeting(Arc<Script>);

impl Service for Meeting {
    fn meet(&self, connection: &Connection) {
        let name = connection.peer().and_then(|peer| peer.facts().common_name.as_deref());
        let participant = if name == Some("greenbank") { GREENBANK } else { BLUEWALLET };
        connection.become_known(KnownAs::Participant(participant));
    }

    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        self.0.call(request, connection).await
    }
}

#[tokio::test]
async fn participants_have_their_shares_from_the_handshake_on() {
    const ALL: usize = 4;
    for protocols in [Protocols::Http2AndHttp1, Protocols::Http1] {
        for share in [2, ALL] {
            let (scheme, workers) = (Scheme::new(), Workers::start(1, "test").unwrap());
            let script = Arc::new(Script::new());
            let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let secured = scheme.secured(scheme.server(protocols, true));
            let limits = Limits { connections_max: ALL, connections_per_participant_max: share, ..patient() };
            let service = Arc::new(Meeting(script.clone()));
            let server = Server::serve_with(bound, limits, &workers, service, Some(secured));
            let pool_of = |name| {
                let config =
                    PoolConfig { tls: Some(scheme.client_of(name, protocols)), ..PoolConfig::default() };
                Pool::new(Origin::secure("127.0.0.1", server.local_addr().port()), config)
            };
            let mut greedy = JoinSet::new();
            for _ in 0..ALL {
                let pool = pool_of("greenbank");
                greedy.spawn(async move { ask(&pool, "/wait").await });
                script.holding.acquire().await.unwrap().forget();
            }
            let honest = pool_of("bluewallet");
            for _ in 0..2 {
                assert_eq!(ask(&honest, "/who").await.unwrap(), "bluewallet", "{protocols:?} {share}");
            }
            assert!(greedy.join_next().await.unwrap().unwrap().is_err(), "it made room");
            assert_eq!(server.connections_refused(), 0, "{protocols:?} {share}");
        }
    }
}

#[tokio::test]
async fn connection_beyond_the_share_serves_one_request() {
    for protocols in [Protocols::Http2AndHttp1, Protocols::Http1] {
        let (scheme, workers) = (Scheme::new(), Workers::start(1, "test").unwrap());
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let secured = scheme.secured(scheme.server(protocols, true));
        let limits = Limits { connections_per_participant_max: 1, ..patient() };
        let service = Arc::new(Meeting(Arc::new(Script::new())));
        let server = Server::serve_with(bound, limits, &workers, service, Some(secured));
        let pool = || {
            let config =
                PoolConfig { tls: Some(scheme.client_of("greenbank", protocols)), ..PoolConfig::default() };
            Pool::new(Origin::secure("127.0.0.1", server.local_addr().port()), config)
        };
        let kept = pool();
        assert_eq!(ask(&kept, "/who").await.unwrap(), "greenbank", "{protocols:?}");
        for number in 1..=3 {
            assert_eq!(ask(&pool(), "/who").await.unwrap(), "greenbank", "{protocols:?}");
            assert_eq!(server.connections_over_share(), number, "{protocols:?}");
        }
        timeout(AMPLE, async {
            while server.connections() > 1 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the server ends them");
        assert_eq!(ask(&kept, "/who").await.unwrap(), "greenbank", "{protocols:?}");
        assert_eq!((server.connections_over_share(), server.connections_made_way()), (3, 0));
    }
}

/// Connections of a local port with bytes that its process has not read.
fn unread_connections(port: u16) -> usize {
    let local = format!(":{port:04X}");
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let has_unread = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1].ends_with(&local) && !fields[4].ends_with(":00000000")
    };
    sockets.lines().skip(1).filter(has_unread).count()
}

/// `/work` takes a millisecond of the worker; notes whose requests were served.
struct Working {
    script: Arc<Script>,
    order: Mutex<Vec<&'static str>>,
}

impl Service for Working {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let whose = match request.uri().path() {
            "/work/greenbank" => "greenbank",
            "/work/bluewallet" => "bluewallet",
            _ => return self.script.call(request, connection).await,
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1) {}
        self.order.lock().unwrap().push(whose);
        Response::default()
    }
}

#[tokio::test]
async fn flood_of_one_participant_does_not_run_before_another() {
    const CROWD: usize = 40;
    let (scheme, workers) = (Scheme::new(), Workers::start(1, "test").unwrap());
    let service = Arc::new(Working { script: Arc::new(Script::new()), order: Mutex::default() });
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let secured = scheme.secured(scheme.server(Protocols::Http2AndHttp1, false));
    let server = Server::serve_with(bound, patient(), &workers, service.clone(), Some(secured));
    let mut peers = Vec::new();
    for index in 0..=CROWD {
        let mut peer = scheme.peer_at(server.local_addr().port(), &[]).await;
        let path = if index < CROWD { "/greenbank" } else { "/bluewallet" };
        assert!(peer.send(&get(1, path)).await);
        assert_eq!(peer.outcome(1).await, Outcome::Status(200));
        peers.push(peer);
    }
    // All requests have arrived before the worker reads the first one.
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (begins, begun) = oneshot::channel();
    workers.get(0).spawn(async move {
        begins.send(()).unwrap();
        blocked.recv()
    });
    begun.await.unwrap();
    for (index, peer) in peers.iter_mut().enumerate() {
        let path = if index < CROWD { "/work/greenbank" } else { "/work/bluewallet" };
        assert!(peer.send(&get(3, path)).await);
    }
    let arrived = async {
        while unread_connections(server.local_addr().port()) <= CROWD {
            tokio::task::yield_now().await;
        }
    };
    timeout(AMPLE, arrived).await.unwrap();
    unblock.send(()).unwrap();
    for peer in &mut peers {
        assert_eq!(peer.outcome(3).await, Outcome::Status(200));
    }
    let order = service.order.lock().unwrap().clone();
    assert_eq!(order.len(), CROWD + 1);
    // Some milliseconds are free in each window, and more on a slow machine.
    let place = order.iter().position(|whose| *whose == "bluewallet").unwrap();
    assert!(place <= CROWD / 2, "{place} of the crowd ran before it");
}

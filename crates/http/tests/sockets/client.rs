//! The pool with the real server and with scripted peers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Running, ample};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use upesi_http::{
    Bytes, Full, Limits, Origin, Outbound, Pool, PoolConfig, Request, ResponseBody, SendError, StatusCode,
};

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).unwrap()
}

fn post(path: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(path).body(Full::from(body)).unwrap()
}

fn pool(running: &Running, config: PoolConfig) -> Arc<Pool> {
    Arc::new(Pool::new(Origin::new("127.0.0.1", running.server.local_addr().port()), config))
}

/// A peer that answers the n-th connection by the n-th script: the answer to each request, then a close.
struct Peer {
    origin: Origin,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Peer {
    async fn start(connections: Vec<Vec<&'static str>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Origin::new("127.0.0.1", listener.local_addr().unwrap().port());
        let task = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answers in connections {
                let (mut stream, _) = listener.accept().await.unwrap();
                for answer in answers {
                    requests.push(read_request(&mut stream).await);
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
            requests
        });
        Self { origin, task }
    }
}

/// Reads a request without a body, or with a body of five bytes.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed within a request");
        let text = String::from_utf8(bytes.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && (!head.contains("content-length: 5") || body.len() == 5)
        {
            return text;
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn one_connection_serves_requests_one_after_the_other() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig::default());
    for count in 1..=5 {
        let answer = pool.send(get("/count"), ample()).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.body, count.to_string());
        assert!(answer.headers.contains_key("date"));
    }
    assert_eq!(running.server.connections(), 1);
    assert_eq!((pool.connections_idle(), pool.connections_busy()), (1, 0));
}

#[tokio::test]
async fn the_request_is_sent_in_origin_form_with_the_host() {
    let peer = Peer::start(vec![vec![OK, OK]]).await;
    let pool = Pool::new(peer.origin.clone(), PoolConfig::default());
    pool.send(post("/transfers?a=b", "hello"), ample()).await.unwrap();
    let mut own = get("/x");
    own.headers_mut().insert("host", "own.example".parse().unwrap());
    pool.send(own, ample()).await.unwrap();
    let requests = peer.task.await.unwrap();
    assert!(requests[0].starts_with("POST /transfers?a=b HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains(&format!("host: {}\r\n", peer.origin)), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\nhello"), "{}", requests[0]);
    assert!(requests[1].contains("host: own.example\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn requests_above_the_maximum_wait_for_a_free_connection() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig { connections_max: 2, ..PoolConfig::default() });
    let sends: Vec<_> = (0..6)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.send(get("/hold"), ample()).await.map(|answer| answer.body) })
        })
        .collect();
    running.until_held(2).await;
    assert_eq!(running.server.connections(), 2);
    assert_eq!((pool.connections_idle(), pool.connections_busy()), (0, 2));
    let error = pool.send(get("/count"), Instant::now()).await.unwrap_err();
    assert!(matches!(error, SendError::Busy { .. }), "{error}");
    running.script.release.add_permits(6);
    for send in sends {
        assert_eq!(send.await.unwrap().unwrap(), "released");
    }
    assert_eq!(running.server.connections(), 2);
    assert_eq!((pool.connections_idle(), pool.connections_busy()), (2, 0));
}

#[tokio::test]
async fn cancelled_request_releases_its_place() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig { connections_max: 1, ..PoolConfig::default() });
    let held = tokio::spawn({
        let pool = pool.clone();
        async move { pool.send(get("/hold"), ample()).await }
    });
    running.until_held(1).await;
    held.abort();
    assert_eq!(pool.send(get("/count"), ample()).await.unwrap().body, "2");
}

#[tokio::test]
async fn a_connection_closed_between_requests_is_replaced() {
    let peer = Peer::start(vec![vec![OK], vec![OK]]).await;
    let pool = Pool::new(peer.origin.clone(), PoolConfig::default());
    assert_eq!(pool.send(get("/first"), ample()).await.unwrap().body, "ok");
    // The peer has closed. Whether the pool detects this before it writes is a race of the network. It may report the
    // closed connection, but must then recover.
    let second = pool.send(get("/second"), ample()).await;
    match second {
        Ok(answer) => assert_eq!(answer.body, "ok"),
        Err(SendError::Closed { reused: true }) => {
            assert_eq!(pool.send(get("/second"), ample()).await.unwrap().body, "ok");
        }
        Err(error) => panic!("{error}"),
    }
    assert!(peer.task.await.unwrap()[1].starts_with("GET /second"));
}

#[tokio::test]
async fn known_closed_connection_is_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool =
        Pool::new(Origin::new("127.0.0.1", listener.local_addr().unwrap().port()), PoolConfig::default());
    for _ in 0..20 {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(pool.send(get("/"), ample()), serve);
        answer.unwrap();
        // The peer has closed. When a later event has been received, so has this one.
        let (connected, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        connected.unwrap().write_all(b"later").await.unwrap();
        accepted.unwrap().0.read_exact(&mut [0; 5]).await.unwrap();
    }
}

#[tokio::test]
async fn answers_that_end_the_connection_are_not_followed_on_it() {
    let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let until_eof = "HTTP/1.1 200 OK\r\n\r\nok";
    let peer = Peer::start(vec![
        vec![close],
        vec![until_eof],
        vec!["HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
        vec![OK],
    ])
    .await;
    let pool = Pool::new(peer.origin.clone(), PoolConfig::default());
    for _ in 0..4 {
        assert_eq!(pool.send(get("/"), ample()).await.unwrap().body, "ok");
    }
    assert_eq!(peer.task.await.unwrap().len(), 4);
}

#[tokio::test]
async fn without_keep_alive_every_request_has_its_own_connection() {
    let peer = Peer::start(vec![vec![OK], vec![OK]]).await;
    let pool = Pool::new(peer.origin.clone(), PoolConfig { keep_alive: false, ..PoolConfig::default() });
    for _ in 0..2 {
        pool.send(get("/"), ample()).await.unwrap();
        assert_eq!(pool.connections_idle(), 0);
    }
    peer.task.await.unwrap();
}

#[tokio::test]
async fn failures_are_distinguished() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok";
    for (answer, expected) in [
        ("", "closed"),
        ("HTTP/1.1 200", "closed"),
        (cut, "closed"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe", "closed"),
        ("SMTP ready\r\n\r\n", "protocol"),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "protocol"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n", "too large"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n15\r\n123456789012345678901\r\n0\r\n\r\n",
            "too large",
        ),
    ] {
        let peer = Peer::start(vec![vec![answer]]).await;
        let pool =
            Pool::new(peer.origin, PoolConfig { response_body_bytes_max: 20, ..PoolConfig::default() });
        let kind = match pool.send(get("/"), ample()).await {
            Err(SendError::Closed { reused: false }) => "closed",
            Err(SendError::Protocol(_)) => "protocol",
            Err(SendError::ResponseTooLarge { status: StatusCode::OK, bytes_max: 20 }) => "too large",
            other => panic!("{answer:?}: {other:?}"),
        };
        assert_eq!(kind, expected, "{answer:?}");
        assert_eq!((pool.connections_idle(), pool.connections_busy()), (0, 0), "{answer:?}");
    }
}

#[tokio::test]
async fn status_is_returned_if_discarding_the_body_fails() {
    let chunks = "HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for (answer, reusable) in [
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok", true),
        (chunks, true),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 10\r\n\r\nok", false),
        ("HTTP/1.1 202 Accepted\r\ncontent-length: 100000000\r\n\r\n", false),
        ("HTTP/1.1 202 Accepted\r\n\r\nok", false),
    ] {
        let next = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let script = if reusable { vec![vec![answer, next]] } else { vec![vec![answer], vec![next]] };
        let peer = Peer::start(script).await;
        let config = PoolConfig {
            response_body: ResponseBody::Discard,
            response_body_bytes_max: 20,
            ..PoolConfig::default()
        };
        let pool = Pool::new(peer.origin, config);
        let answered = pool.send(get("/"), ample()).await.unwrap();
        assert_eq!((answered.status, answered.body.len()), (StatusCode::ACCEPTED, 0), "{answer:?}");
        assert_eq!(pool.send(get("/"), ample()).await.unwrap().status, StatusCode::OK, "{answer:?}");
        peer.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_response_that_does_not_come_times_out() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig::default());
    let deadline = Instant::now() + Duration::from_millis(20);
    let error = pool.send(get("/hold"), deadline).await.unwrap_err();
    assert!(matches!(error, SendError::Timeout), "{error}");
    assert!(Instant::now() >= deadline);
    assert_eq!((pool.connections_idle(), pool.connections_busy()), (0, 0));
}

#[tokio::test]
async fn a_body_that_stops_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool =
        Pool::new(Origin::new("127.0.0.1", listener.local_addr().unwrap().port()), PoolConfig::default());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok").await.unwrap();
        stream
    };
    let deadline = Instant::now() + Duration::from_millis(20);
    let (answer, _open) = tokio::join!(pool.send(get("/"), deadline), serve);
    assert!(matches!(answer, Err(SendError::Timeout)), "{answer:?}");
}

#[tokio::test]
async fn address_without_a_listener_is_a_connect_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error =
        Pool::new(Origin::new("127.0.0.1", port), PoolConfig::default()).send(get("/"), ample()).await;
    assert!(matches!(error, Err(SendError::Connect { .. })), "{error:?}");
}

#[tokio::test]
async fn big_responses_arrive_whole() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig { response_body_bytes_max: 3_000_000, ..PoolConfig::default() });
    for length in [0, 1, 100_000, 3_000_000] {
        let answer = pool.send(get(&format!("/large/{length}")), ample()).await.unwrap();
        assert_eq!(answer.body.len(), length);
        assert!(answer.body.iter().all(|&byte| byte == b'x'));
    }
    assert_eq!(running.server.connections(), 1);
    let error = pool.send(get("/large/3000001"), ample()).await.unwrap_err();
    assert!(matches!(error, SendError::ResponseTooLarge { .. }), "{error}");
}

#[tokio::test]
async fn expired_connections_are_not_used_again() {
    let peer = Peer::start(vec![vec![OK], vec![OK], vec![OK]]).await;
    let config = PoolConfig { idle_timeout: Duration::ZERO, ..PoolConfig::default() };
    let pool = Pool::new(peer.origin.clone(), config);
    for _ in 0..3 {
        pool.send(get("/"), ample()).await.unwrap();
    }
    pool.close_expired();
    assert_eq!(pool.connections_idle(), 0);
    peer.task.await.unwrap();
}

#[tokio::test]
async fn unresponsive_peer_leaves_connections_for_others() {
    let (silent, other) = (Running::start(Limits::default()), Running::start(Limits::default()));
    let outbound = Outbound::bounded(8);
    let config = || PoolConfig { outbound: outbound.clone(), ..PoolConfig::default() };
    let (to_silent, to_other) = (pool(&silent, config()), pool(&other, config()));
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let pool = Arc::clone(&to_silent);
            tokio::spawn(async move { pool.send(get("/hold"), ample()).await })
        })
        .collect();
    // A peer may use three quarters of all connections, although its own maximum is 64.
    silent.until_held(6).await;
    assert_eq!((outbound.open(), to_silent.connections_busy()), (Some(6), 20));
    for _ in 0..10 {
        assert_eq!(to_other.send(get("/count"), ample()).await.unwrap().status, StatusCode::OK);
        // A connection is not kept open while descriptors are scarce.
        assert_eq!((outbound.open(), to_other.connections_idle()), (Some(6), 0));
    }
    silent.script.release.add_permits(20);
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().status, StatusCode::OK);
    }
    drop((to_silent, to_other));
    assert_eq!(outbound.open(), Some(0), "every place is given back");
}

#[tokio::test]
async fn request_without_a_free_connection_fails_at_the_deadline() {
    let running = Running::start(Limits::default());
    let pool = pool(&running, PoolConfig { outbound: Outbound::bounded(2), ..PoolConfig::default() });
    let held: Vec<_> = (0..2)
        .map(|_| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move { pool.send(get("/hold"), ample()).await })
        })
        .collect();
    running.until_held(2).await;
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(matches!(pool.send(get("/count"), soon).await, Err(SendError::Busy { .. })));
    running.script.release.add_permits(2);
    for answer in held {
        answer.await.unwrap().unwrap();
    }
}

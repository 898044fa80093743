//! HTTP/2 of a pool, with servers that are scripted stream by stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::http2::{PING, Scheme, frame, until};
use crate::common::{AMPLE, ample};
use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use upesi_http::{Full, HandshakeOutcome, Limits, Origin, Pool, PoolConfig, ResponseBody, SendError};
use upesi_tls::Protocols;

type Secure = TlsStream<TcpStream>;
type H2 = Connection<Secure, Bytes>;

/// A server whose connections are served by a script. The script receives the number of the connection.
struct Scripted {
    port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Scripted {
    async fn start<F>(
        scheme: &Scheme,
        serve: impl Fn(usize, Secure, Arc<AtomicUsize>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = scheme.server(Protocols::Http2AndHttp1, false);
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let scripted = Self { port, connections: connections.clone(), requests: requests.clone() };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = TlsAcceptor::from(tls.config()).accept(stream).await else { continue };
                let number = connections.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(serve(number, stream, requests.clone()));
            }
        });
        scripted
    }

    /// `answer` answers each stream. It receives the numbers of the connection and of the request.
    async fn answering<F>(
        scheme: &Scheme,
        streams_max: u32,
        answer: impl Fn(usize, usize, Request<RecvStream>, SendResponse<Bytes>) -> F
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(scheme, move |number, stream, requests| {
            let answer = answer.clone();
            async move {
                let mut connection = h2(stream, streams_max).await;
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let request_number = requests.fetch_add(1, Ordering::SeqCst) + 1;
                    tokio::spawn(answer(number, request_number, request, respond));
                }
            }
        })
        .await
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn h2(stream: Secure, streams_max: u32) -> H2 {
    h2::server::Builder::new().max_concurrent_streams(streams_max).handshake(stream).await.unwrap()
}

fn say(respond: &mut SendResponse<Bytes>, status: u16, body: &'static [u8]) {
    let response = Response::builder().status(status).body(()).unwrap();
    let mut stream = respond.send_response(response, body.is_empty()).unwrap();
    if !body.is_empty() {
        stream.send_data(Bytes::from_static(body), true).unwrap();
    }
}

fn request(path: &str, body: &'static [u8]) -> Request<Full<Bytes>> {
    Request::builder().method("POST").uri(path).body(Full::new(Bytes::from_static(body))).unwrap()
}

async fn ask(pool: &Pool, path: &str) -> Result<(StatusCode, String), SendError> {
    let answer = pool.send(request(path, b"hello"), ample()).await?;
    Ok((answer.status, String::from_utf8(answer.body.to_vec()).unwrap()))
}

#[tokio::test]
async fn requests_share_a_connection_and_arrive_complete() {
    let scheme = Scheme::new();
    let running = scheme.serve(Limits::default(), scheme.server(Protocols::Http2AndHttp1, true));
    let pool = scheme.pool(running.server.local_addr().port(), PoolConfig::default());
    let held: Vec<_> = (0..20).map(|_| ask(&pool, "/hold")).collect();
    let release = async {
        running.until_held(20).await;
        assert_eq!((pool.connections_shared(), pool.connections_busy()), (1, 20));
        assert_eq!(running.server.connections(), 1);
        running.script.release.add_permits(20);
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(held), release);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().1 == "released"));
    assert_eq!(ask(&pool, "/who").await.unwrap().1, "greenbank");
    assert_eq!(ask(&pool, "/echo").await.unwrap(), (StatusCode::OK, "hello".to_owned()));
    let large = pool.send(request("/large/300000", b""), ample()).await.unwrap();
    assert_eq!(large.body.len(), 300_000, "more than a window");
    assert_eq!((running.server.connections(), pool.connections_idle(), pool.connections_busy()), (1, 1, 0));
}

#[tokio::test]
async fn peer_without_http_2_is_called_with_http_1_1() {
    let scheme = Scheme::new();
    let running = scheme.serve(Limits::default(), scheme.server(Protocols::Http1, false));
    let pool = scheme.pool(running.server.local_addr().port(), PoolConfig::default());
    let held: Vec<_> = (0..5).map(|_| ask(&pool, "/hold")).collect();
    let release = async {
        running.until_held(5).await;
        assert_eq!((running.server.connections(), pool.connections_shared()), (5, 0));
        running.script.release.add_permits(5);
    };
    tokio::join!(futures_util::future::join_all(held), release);
    // A client that offers only HTTP/1.1 gets it from a server with both protocols.
    let running = scheme.start(Limits::default());
    let tls = Some(scheme.client(Protocols::Http1));
    let origin = Origin::secure("127.0.0.1", running.server.local_addr().port());
    let pool = Pool::new(origin, PoolConfig { tls, ..PoolConfig::default() });
    assert_eq!(ask(&pool, "/echo").await.unwrap().1, "hello");
    assert_eq!(pool.connections_shared(), 0);
}

#[tokio::test]
async fn a_request_has_the_form_of_http_2() {
    let scheme = Scheme::new();
    let peer = Scripted::answering(&scheme, 10, |_, _, request, mut respond| async move {
        let (parts, mut body) = request.into_parts();
        let seen = parts.headers.get("host").is_none()
            && parts.headers.get("connection").is_none()
            && parts.headers.get("content-length").is_some_and(|length| length == "5")
            && parts.headers.get("fspiop-source").is_some_and(|source| source == "greenbank")
            && parts.uri.scheme_str() == Some("https")
            && parts.uri.authority().is_some_and(|authority| authority.host() == "127.0.0.1")
            && parts.uri.path_and_query().is_some_and(|target| target == "/fspiop/transfers?x=1%20y")
            && body.data().await.unwrap().unwrap() == "hello";
        say(&mut respond, if seen { 200 } else { 400 }, b"");
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    let mut sent = request("/fspiop/transfers?x=1%20y", b"hello");
    for (name, value) in [("FSPIOP-Source", "greenbank"), ("connection", "keep-alive"), ("te", "gzip")] {
        sent.headers_mut().insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    assert_eq!(pool.send(sent, ample()).await.unwrap().status, 200);
}

#[tokio::test]
async fn only_unprocessed_requests_are_repeated_and_once() {
    let scheme = Scheme::new();
    // First refused, then accepted.
    let peer = Scripted::answering(&scheme, 10, |_, number, _, mut respond| async move {
        match number {
            1 => respond.send_reset(Reason::REFUSED_STREAM),
            _ => say(&mut respond, 202, b""),
        }
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    assert_eq!(ask(&pool, "/").await.unwrap().0, 202);
    assert_eq!((peer.requests(), peer.connections()), (2, 1), "the connection is sound");
    // Always refused: the request is repeated only once.
    let peer = Scripted::answering(&scheme, 10, |_, _, _, mut respond| async move {
        respond.send_reset(Reason::REFUSED_STREAM);
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    assert!(matches!(ask(&pool, "/").await, Err(SendError::Closed { .. })));
    assert_eq!(peer.requests(), 2);
    // If it is reset with another error code, it may have been processed.
    for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::NO_ERROR, Reason::PROTOCOL_ERROR] {
        let peer = Scripted::answering(&scheme, 10, move |_, _, _, mut respond| async move {
            respond.send_reset(reason);
        })
        .await;
        let pool = scheme.pool(peer.port, PoolConfig::default());
        let failed = ask(&pool, "/").await;
        assert!(matches!(failed, Err(SendError::Protocol(_) | SendError::Closed { .. })), "{failed:?}");
        assert_eq!(peer.requests(), 1, "{reason:?}");
    }
}

#[tokio::test]
async fn goaway_moves_unprocessed_requests_to_another_connection() {
    let scheme = Scheme::new();
    // The first connection accepts one request, then sends GOAWAY, and answers the request.
    let peer = Scripted::start(&scheme, |number, stream, requests| async move {
        let mut connection = h2(stream, 10).await;
        let mut kept = Vec::new();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            requests.fetch_add(1, Ordering::SeqCst);
            if number > 1 {
                say(&mut respond, 200, b"elsewhere");
                continue;
            }
            kept.push(respond);
            connection.graceful_shutdown();
            let answer = &mut kept[0];
            say(answer, 200, b"here");
        }
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    assert_eq!(ask(&pool, "/").await.unwrap().1, "here");
    for _ in 0..3 {
        assert_eq!(ask(&pool, "/").await.unwrap().1, "elsewhere");
    }
    assert_eq!((peer.connections(), peer.requests()), (2, 4));
}

#[tokio::test]
async fn cut_connection_fails_its_requests_and_the_next_request_uses_another() {
    let scheme = Scheme::new();
    let peer = Scripted::start(&scheme, |number, stream, requests| async move {
        let mut connection = h2(stream, 10).await;
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            requests.fetch_add(1, Ordering::SeqCst);
            match number {
                1 => return,
                _ => say(&mut respond, 200, b""),
            }
        }
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    let cut = ask(&pool, "/").await;
    assert!(matches!(cut, Err(SendError::Closed { reused: false } | SendError::Protocol(_))), "{cut:?}");
    assert_eq!(ask(&pool, "/").await.unwrap().0, 200);
    assert_eq!((peer.connections(), peer.requests()), (2, 2), "it may have been acted upon: not repeated");
}

#[tokio::test]
async fn connection_to_a_peer_that_never_answers_is_closed() {
    let scheme = Scheme::new();
    let open = Arc::new(AtomicUsize::new(0));
    let counted = open.clone();
    let peer = Scripted::start(&scheme, move |_, stream, _| {
        let open = counted.clone();
        async move {
            open.fetch_add(1, Ordering::SeqCst);
            let mut connection = h2(stream, 10).await;
            let mut kept = Vec::new();
            while let Some(Ok(stream)) = connection.accept().await {
                kept.push(stream);
            }
            open.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    let soon = || Instant::now() + Duration::from_millis(200);
    let asked: Vec<_> = (0..5).map(|_| pool.send(request("/", b"x"), soon())).collect();
    for answer in futures_util::future::join_all(asked).await {
        assert!(matches!(answer, Err(SendError::Timeout)), "{answer:?}");
    }
    assert_eq!(pool.connections_busy(), 0);
    assert_eq!(pool.connections_idle(), 0);
    until("the connection is closed", || open.load(Ordering::SeqCst) == 0).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn connection_to_a_peer_with_a_closed_window_is_closed() {
    let scheme = Scheme::new();
    // A window of zero, and no further frame.
    let peer = Scripted::start(&scheme, |_, mut stream, _| async move {
        let shut = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        stream.write_all(&shut).await.unwrap();
        stream.flush().await.unwrap();
        let mut scratch = vec![0; 64 * 1024];
        while stream.read(&mut scratch).await.is_ok_and(|read| read > 0) {}
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    let late = pool.send(request("/", &[7; 100_000]), Instant::now() + Duration::from_millis(200)).await;
    assert!(matches!(late, Err(SendError::Timeout)), "{late:?}");
    assert_eq!((pool.connections_busy(), pool.connections_shared()), (0, 0));
}

#[tokio::test]
async fn a_peer_that_allows_few_streams_gets_more_connections() {
    let scheme = Scheme::new();
    let peer = Scripted::answering(&scheme, 2, |_, _, _, mut respond| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        say(&mut respond, 200, b"");
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig { connections_max: 6, ..PoolConfig::default() });
    ask(&pool, "/").await.unwrap();
    let asked: Vec<_> = (0..30).map(|_| ask(&pool, "/")).collect();
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.unwrap().0, 200);
    }
    let connections = peer.connections();
    assert!((3..=6).contains(&connections), "{connections}");
    assert_eq!(peer.requests(), 31, "none was refused");
}

#[tokio::test]
async fn answers_and_interim_responses_are_limited() {
    let scheme = Scheme::new();
    let peer = Scripted::answering(&scheme, 10, |_, _, request, mut respond| async move {
        let interim: usize = request.uri().path()[1..].parse().unwrap();
        for _ in 0..interim {
            let early = Response::builder().status(103).body(()).unwrap();
            if respond.send_informational(early).is_err() {
                return;
            }
        }
        say(&mut respond, 200, &[b'x'; 2000]);
    })
    .await;
    let config = PoolConfig { response_body_bytes_max: 1000, ..PoolConfig::default() };
    let kept = scheme.pool(peer.port, config.clone());
    let too_large = ask(&kept, "/0").await;
    let expected =
        matches!(too_large, Err(SendError::ResponseTooLarge { status, bytes_max: 1000 }) if status == 200);
    assert!(expected, "{too_large:?}");
    for how in [ResponseBody::KeepReadable, ResponseBody::Discard] {
        let pool = scheme.pool(peer.port, PoolConfig { response_body: how, ..config.clone() });
        for _ in 0..3 {
            let answer = pool.send(request("/8", b""), ample()).await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0), "{how:?}");
        }
        let too_many = ask(&pool, "/9").await;
        assert!(matches!(too_many, Err(SendError::InterimResponses { .. })), "{too_many:?}");
    }
}

#[tokio::test]
async fn peer_that_sends_empty_frames_is_cut_off() {
    let scheme = Scheme::new();
    let peer = Scripted::start(&scheme, |_, mut stream, _| async move {
        let settings = frame(4, 0, 0, &[]);
        let pings = frame(PING, 0, 0, &[0; 8]).repeat(100);
        stream.write_all(&settings).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let read = async { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await };
        let write = async { while writer.write_all(&pings).await.is_ok() {} };
        let _ = tokio::join!(read, write);
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig::default());
    let failed = tokio::time::timeout(AMPLE, ask(&pool, "/")).await.expect("it is cut off");
    assert!(matches!(failed, Err(SendError::Closed { .. } | SendError::Protocol(_))), "{failed:?}");
}

#[tokio::test]
async fn connections_end_when_they_idle_or_their_certificates_change() {
    let mut scheme = Scheme::new();
    let tls = scheme.server(Protocols::Http2AndHttp1, false);
    let (running, counts) = scheme.serve_counted(Limits::default(), tls);
    let port = running.server.local_addr().port();
    let idle_timeout = Duration::from_millis(50);
    let pool = scheme.pool(port, PoolConfig { idle_timeout, ..PoolConfig::default() });
    ask(&pool, "/echo").await.unwrap();
    assert_eq!(pool.connections_shared(), 1);
    let is_closed = || {
        pool.close_expired();
        pool.connections_shared() == 0
    };
    until("it has idled", is_closed).await;
    until("it has ended", || running.server.connections() == 0).await;

    let tls = scheme.client(Protocols::Http2AndHttp1);
    let config = PoolConfig { tls: Some(tls.clone()), ..PoolConfig::default() };
    let pool = Pool::new(Origin::secure("127.0.0.1", port), config);
    ask(&pool, "/echo").await.unwrap();
    let order = upesi_pki::Order::new("greenbank", upesi_pki::Usage::Client, upesi_tls::present_s());
    scheme.authority.issue(&upesi_pki::Order { replaces: true, ..order }).unwrap();
    assert!(tls.reload().unwrap());
    ask(&pool, "/echo").await.unwrap();
    assert_eq!(counts.of(HandshakeOutcome::Established), 3, "the old connection is no longer used");
    assert_eq!(pool.connections_shared(), 1);
    until("it has ended", || running.server.connections() == 1).await;
}

#[tokio::test]
async fn without_keep_alive_each_request_has_a_connection() {
    let scheme = Scheme::new();
    let peer = Scripted::answering(&scheme, 10, |_, _, _, mut respond| async move {
        say(&mut respond, 200, b"");
    })
    .await;
    let pool = scheme.pool(peer.port, PoolConfig { keep_alive: false, ..PoolConfig::default() });
    for _ in 0..3 {
        ask(&pool, "/").await.unwrap();
    }
    assert_eq!((peer.connections(), pool.connections_shared()), (3, 0));
}

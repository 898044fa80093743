//! A server with a scripted service, and a client that writes bytes by hand.

pub mod chains;
pub mod http2;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use upesi_http::{
    BodyError, Bytes, Connection, Full, Incoming, KnownAs, Limits, ProxyProtocol, Request, Response, Server,
    ServerTlsOptions, Service, StatusCode, Workers, body,
};

/// A time limit that a passing test never reaches.
pub const AMPLE: Duration = Duration::from_secs(30);

pub fn ample() -> Instant {
    Instant::now() + AMPLE
}

/// `/echo` returns the body (at most 1,000 bytes within 50 ms). `/hold` answers when it is released. `/large/N` answers
/// with N bytes. `/who` returns the common name of the client's certificate, `/count` the number of requests so far,
/// and `/from` the address of the connection. `/ignore` answers at once without reading the body. `/known` marks the
/// connection as a known client's, `/greenbank` and `/bluewallet` as that participant's. `/last` ends the connection
/// with its answer. `/wait` waits for its peer without a limit.
pub struct Script {
    pub requests: AtomicUsize,
    pub holding: Semaphore,
    pub release: Semaphore,
}

pub const ECHO_BYTES_MAX: usize = 1000;
pub const GREENBANK: u32 = 1;
pub const BLUEWALLET: u32 = 2;

impl Script {
    pub fn new() -> Self {
        Self { requests: AtomicUsize::new(0), holding: Semaphore::new(0), release: Semaphore::new(0) }
    }
}

impl Service for Script {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let count = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let path = request.uri().path().to_owned();
        let (status, bytes) = match path.as_str() {
            "/echo" => {
                let deadline = Instant::now() + Duration::from_millis(50);
                match body::read(request.into_body(), ECHO_BYTES_MAX, deadline).await {
                    Ok(bytes) => (StatusCode::OK, bytes),
                    Err(BodyError::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
                    Err(BodyError::TimedOut) => (StatusCode::REQUEST_TIMEOUT, Bytes::new()),
                    Err(BodyError::Broken) => (StatusCode::BAD_REQUEST, Bytes::new()),
                }
            }
            "/hold" => {
                self.holding.add_permits(1);
                self.release.acquire().await.unwrap().forget();
                (StatusCode::OK, Bytes::from_static(b"released"))
            }
            "/wait" => {
                self.holding.add_permits(1);
                let _waiting = connection.wait();
                std::future::pending::<()>().await;
                (StatusCode::OK, Bytes::new())
            }
            "/known" => {
                connection.become_known(KnownAs::Named);
                (StatusCode::OK, Bytes::new())
            }
            "/greenbank" | "/bluewallet" => {
                let participant = if path == "/greenbank" { GREENBANK } else { BLUEWALLET };
                connection.become_known(KnownAs::Participant(participant));
                (StatusCode::OK, Bytes::new())
            }
            "/who" => {
                let name = connection.peer().and_then(|peer| peer.facts().common_name.clone());
                (StatusCode::OK, Bytes::from(name.unwrap_or_else(|| "-".to_owned())))
            }
            "/from" => (StatusCode::OK, Bytes::from(connection.address().unwrap().to_string())),
            "/count" => (StatusCode::OK, Bytes::from(count.to_string())),
            "/last" => (StatusCode::OK, Bytes::new()),
            "/ignore" => (StatusCode::ACCEPTED, Bytes::new()),
            large => match large.strip_prefix("/large/").and_then(|length| length.parse().ok()) {
                Some(length) => (StatusCode::OK, Bytes::from(vec![b'x'; length])),
                None => (StatusCode::NOT_FOUND, Bytes::new()),
            },
        };
        let mut response = Response::new(Full::new(bytes));
        *response.status_mut() = status;
        if path == "/last" {
            response.headers_mut().insert("connection", "close".parse().unwrap());
        }
        response
    }
}

pub struct Running {
    pub server: Server,
    pub script: Arc<Script>,
    pub workers: Workers,
}

impl Running {
    pub fn start(limits: Limits) -> Self {
        Self::start_with(limits, None)
    }

    pub fn start_with(limits: Limits, secured: Option<ServerTlsOptions>) -> Self {
        Self::start_behind(limits, secured, None)
    }

    pub fn start_behind(
        limits: Limits,
        secured: Option<ServerTlsOptions>,
        balancers: Option<ProxyProtocol>,
    ) -> Self {
        Self::start_on(2, limits, secured, balancers)
    }

    /// With one worker, connections are handled in order. Each worker counts its own ticks, so the ticks of two
    /// connections may differ by one.
    pub fn start_on(
        workers: usize,
        limits: Limits,
        secured: Option<ServerTlsOptions>,
        balancers: Option<ProxyProtocol>,
    ) -> Self {
        let workers = Workers::start(workers, "test").unwrap();
        let script = Arc::new(Script::new());
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let server = Server::serve_behind(bound, limits, &workers, script.clone(), secured, balancers);
        Self { server, script, workers }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.local_addr()).await.unwrap()
    }

    /// Waits until `count` requests are held.
    pub async fn until_held(&self, count: u32) {
        self.script.holding.acquire_many(count).await.unwrap().forget();
    }
}

/// Reads one response with a content length.
pub async fn response(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            let mut body = bytes.split_off(end + 4);
            while body.len() < length {
                assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0, "closed within the body");
            }
            return (head, body);
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed within the head: {bytes:?}");
    }
}

pub async fn exchange(stream: &mut TcpStream, request: &str) -> (String, Vec<u8>) {
    stream.write_all(request.as_bytes()).await.unwrap();
    response(stream).await
}

/// Waits until the server closes. Returns the bytes that it still sent.
pub async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(AMPLE, stream.read_to_end(&mut rest)).await;
    ended.expect("the connection ends").unwrap();
    rest
}

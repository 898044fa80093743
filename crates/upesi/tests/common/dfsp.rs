//! A DFSP as the hub sees it: a server that records all messages, byte for byte and in order, and answers as a test
//! says. It can stop, and start again on the same port.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::net::TcpSocket;
use upesi_http::{
    Bytes, Connection, Full, Incoming, Limits, Request, Response, Server, ServerTls, ServerTlsOptions,
    Service, StatusCode, Workers, body,
};

use super::{AMPLE, described};

/// Larger than any message of the hub.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Every DFSP's URL has a path before the resource, which `FSPIOP-URI` must not contain.
const BASE_PATH: &str = "/fspiop/v1";

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    /// Path from the resource on.
    pub path: String,
    /// Sorted by name.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Status of the answer; `None` if the DFSP did not answer.
    pub status: Option<u16>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body that is text")
    }

    fn about(&self) -> Option<String> {
        about(&self.path, &self.body)
    }
}

/// Subject of a message: the id or the party of its path, or the id in the body of a POST.
pub fn about(path: &str, body: &[u8]) -> Option<String> {
    let path = path.split('?').next()?;
    let (family, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
    if !rest.is_empty() {
        return Some(rest.strip_suffix("/error").unwrap_or(rest).to_owned());
    }
    let name = match family {
        "transfers" => "transferId",
        "quotes" => "quoteId",
        "bulkQuotes" => "bulkQuoteId",
        "fxQuotes" => "conversionRequestId",
        "fxTransfers" => "commitRequestId",
        "bulkTransfers" => "bulkTransferId",
        "transactionRequests" => "transactionRequestId",
        "participants" => "requestId",
        _ => return None,
    };
    let text = String::from_utf8_lossy(body);
    let (_, rest) = text.split_once(&format!(r#""{name}":"#))?;
    Some(rest.trim_start().strip_prefix('"')?.split('"').next()?.to_owned())
}

/// Reaction of a DFSP to the next messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Answers with this status.
    Answers(u16),
    /// Answers with this status and this body.
    Says(u16, Bytes),
    /// Accepts the message and never answers.
    FallsSilent,
}

struct State {
    seen: Vec<Seen>,
    /// Number of delivered messages about each transfer that the test has read.
    taken: BTreeMap<String, usize>,
    /// Number of messages about each subject, with any answer, that the test has read.
    told: BTreeMap<String, usize>,
    conduct: Conduct,
    /// Common names of the certificates of received messages.
    peers: Vec<String>,
    /// Versions of HTTP of received messages.
    versions: BTreeSet<String>,
}

struct Inner {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Service for Inner {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let (parts, incoming) = request.into_parts();
        let deadline = tokio::time::Instant::now() + AMPLE;
        let body = body::read(incoming, BODY_BYTES_MAX, deadline).await.expect("a whole body");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut headers: Vec<_> =
            parts.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
        headers.sort();
        let path = parts.uri.to_string();
        let path = path.strip_prefix(BASE_PATH).unwrap_or_else(|| panic!("sent to {path}")).to_owned();
        let conduct = {
            let mut state = self.state();
            let status = match state.conduct {
                Conduct::Answers(status) | Conduct::Says(status, _) => Some(status),
                Conduct::FallsSilent => None,
            };
            let peer = connection.peer().and_then(|peer| peer.facts().common_name.clone());
            state.peers.extend(peer);
            state.versions.insert(format!("{:?}", parts.version));
            let seen = Seen { method: parts.method.to_string(), path, headers, body, status };
            // Every message of the hub in these tests must be described in its document.
            if seen.header("fspiop-source") == Some("Hub") {
                described::check(&seen).unwrap_or_else(|fault| panic!("{fault}"));
            }
            state.seen.push(seen);
            state.conduct.clone()
        };
        self.arrived.notify_all();
        let (status, body) = match conduct {
            Conduct::Answers(status) => (status, Bytes::new()),
            Conduct::Says(status, body) => (status, body),
            Conduct::FallsSilent => std::future::pending().await,
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }
}

struct Alive {
    // Dropped first: every connection ends with its workers.
    workers: Workers,
    _server: Server,
}

/// A scripted DFSP.
pub struct Dfsp {
    pub name: String,
    pub address: SocketAddr,
    inner: Arc<Inner>,
    alive: Option<Alive>,
    /// Reserves the port while the DFSP is stopped. Otherwise a server of another test could get it, and answer
    /// instead.
    grave: Option<TcpSocket>,
    tls: Option<ServerTls>,
}

impl Dfsp {
    pub fn start(name: &str) -> Self {
        Self::start_with(name, None)
    }

    /// Like `start`, with TLS.
    pub fn start_secured(name: &str, tls: ServerTls) -> Self {
        Self::start_with(name, Some(tls))
    }

    fn start_with(name: &str, tls: Option<ServerTls>) -> Self {
        described::prepare();
        let (taken, told) = (BTreeMap::new(), BTreeMap::new());
        let state = State {
            seen: Vec::new(),
            taken,
            told,
            conduct: Conduct::Answers(200),
            peers: Vec::new(),
            versions: BTreeSet::new(),
        };
        let inner = Arc::new(Inner { state: Mutex::new(state), arrived: Condvar::new() });
        let mut dfsp = Self {
            name: name.to_owned(),
            address: "127.0.0.1:0".parse().unwrap(),
            inner,
            alive: None,
            grave: None,
            tls,
        };
        dfsp.revive();
        dfsp
    }

    /// Base URL of its resources.
    pub fn base_url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{BASE_PATH}", self.address)
    }

    /// Stops listening, and breaks its connections.
    pub fn die(&mut self) {
        self.alive.take().expect("it is alive").workers.shutdown();
        let grave = TcpSocket::new_v4().unwrap();
        // Old connections linger, and only a socket with this option can ignore them. Afterwards no other socket may
        // share the port.
        grave.set_reuseaddr(true).unwrap();
        grave.bind(self.address).unwrap();
        grave.set_reuseaddr(false).unwrap();
        self.grave = Some(grave);
    }

    /// Listens again on the same port.
    pub fn revive(&mut self) {
        self.grave = None;
        let deadline = Instant::now() + AMPLE;
        let bound = loop {
            match Server::bind(self.address) {
                Ok(bound) => break bound,
                // A connection of another test got the port in the meantime.
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::yield_now();
        };
        self.address = bound.local_addr();
        let workers = Workers::start(1, &self.name).unwrap();
        let secured = self.tls.clone().map(|tls| ServerTlsOptions {
            tls,
            worker: workers.get(0).clone(),
            handshake_timeout: AMPLE,
            handshakes_max: 512,
            counts: Arc::default(),
        });
        let server = Server::serve_with(bound, Limits::default(), &workers, self.inner.clone(), secured);
        self.alive = Some(Alive { workers, _server: server });
    }

    /// Applies to all messages from now on.
    pub fn conduct(&self, conduct: Conduct) {
        self.inner.state().conduct = conduct;
    }

    /// Waits for the next message about a transfer that it answered with success.
    pub fn next(&self, transfer: &str) -> Seen {
        self.wait(&format!("the next message about {transfer}"), |state| {
            let taken = state.taken.entry(transfer.to_owned()).or_default();
            let about = |seen: &&Seen| {
                seen.status.is_some_and(|status| (200..300).contains(&status))
                    && seen.about().as_deref() == Some(transfer)
            };
            let next = state.seen.iter().filter(about).nth(*taken)?.clone();
            *taken += 1;
            Some(next)
        })
    }

    /// Waits until there are this many messages about a transfer, with any answer. Returns all of them.
    pub fn attempts(&self, transfer: &str, at_least: usize) -> Vec<Seen> {
        self.wait(&format!("{at_least} messages about {transfer}"), |state| {
            let about = |seen: &&Seen| seen.about().as_deref() == Some(transfer);
            let found: Vec<_> = state.seen.iter().filter(about).cloned().collect();
            (found.len() >= at_least).then_some(found)
        })
    }

    /// Waits for the next message about a subject, with any answer.
    pub fn next_attempt(&self, about: &str) -> Seen {
        self.wait(&format!("the next message about {about}"), |state| {
            let told = state.told.entry(about.to_owned()).or_default();
            let next = state.seen.iter().filter(|seen| seen.about().as_deref() == Some(about)).nth(*told)?;
            *told += 1;
            Some(next.clone())
        })
    }

    /// The messages that [`Self::next_attempt`] has not returned.
    pub fn unexpected(&self) -> Vec<Seen> {
        let state = self.inner.state();
        let mut told = state.told.clone();
        let is_new = |seen: &&Seen| {
            let left = seen.about().and_then(|about| told.get_mut(&about).filter(|left| **left > 0));
            left.map(|left| *left -= 1).is_none()
        };
        state.seen.iter().filter(is_new).cloned().collect()
    }

    /// The common names of the certificates of received messages.
    pub fn peers(&self) -> Vec<String> {
        self.inner.state().peers.clone()
    }

    /// The versions of HTTP of received messages.
    pub fn versions(&self) -> Vec<String> {
        self.inner.state().versions.iter().cloned().collect()
    }

    /// Number of received messages.
    pub fn count(&self) -> usize {
        self.inner.state().seen.len()
    }

    fn wait<T>(&self, what: &str, mut find: impl FnMut(&mut State) -> Option<T>) -> T {
        let deadline = Instant::now() + AMPLE;
        let mut state = self.inner.state();
        loop {
            if let Some(found) = find(&mut state) {
                return found;
            }
            let patience = deadline.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                let seen = state.seen.iter().rev().take(8).rev();
                let lines: Vec<_> = seen
                    .map(|seen| {
                        let body: String = String::from_utf8_lossy(&seen.body).chars().take(200).collect();
                        format!("  {} {} ({:?}) {body}", seen.method, seen.path, seen.status)
                    })
                    .collect();
                drop(state);
                panic!("{} waited in vain for {what}; it saw last\n{}", self.name, lines.join("\n"));
            }
            state = self.inner.arrived.wait_timeout(state, patience).unwrap().0;
        }
    }
}

impl Drop for Dfsp {
    fn drop(&mut self) {
        if let Some(alive) = self.alive.take() {
            alive.workers.shutdown();
        }
    }
}

// A client that writes the bytes of its requests itself.

/// A connection to a hub.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// An answer, with header names in lower case.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The code of an error object.
    pub fn error_code(&self) -> Option<&str> {
        self.body.strip_prefix(r#"{"errorInformation":{"errorCode":""#)?.get(..4)
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        stream.set_write_timeout(Some(AMPLE)).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends to a hub that may have stopped.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn exchange(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        self.answer().expect("the connection was closed without an answer")
    }

    /// The next answer; `None` if the hub closed the connection first.
    pub fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if self.receive() == 0 {
                assert!(self.received.is_empty(), "closed within a head");
                return None;
            }
        };
        let rest = self.received.split_off(end + 4);
        let head = String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
        let head = head.trim_end().to_ascii_lowercase();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
        while self.received.len() < length {
            assert!(self.receive() > 0, "closed within a body");
        }
        let rest = self.received.split_off(length);
        answer.body = String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
        Some(answer)
    }

    /// Returns zero when the connection has ended, also by a reset.
    fn receive(&mut self) -> usize {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(length) => {
                self.received.extend_from_slice(&piece[..length]);
                length
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

/// A request with these headers, in this order, and this body. `content-length` is added unless it or
/// `transfer-encoding` is one of the headers.
pub fn request(line: &str, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let is_framed = headers.iter().any(|(name, _)| matches!(&**name, "content-length" | "transfer-encoding"));
    if !is_framed {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

//! A gateway on a real socket with a real engine, and a client that writes bytes by hand.

mod scheme;

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::time::Instant;
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::{Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Participants};
use upesi_fspiop::{Resource, SyncError};
use upesi_gateway::{Gateway, GatewayConfig, GatewayContext};
use upesi_http::{Limits, Server, Workers};
use upesi_ledger::{Participant, ParticipantId};
use upesi_transfers::Transfers;
use upesi_types::{ErrorCode, FspId, Timestamp};

pub use self::scheme::{name, onboard, position};

pub const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
pub const NOW: &str = "2031-04-01T12:00:00.000Z";
pub const PREIMAGE: [u8; 32] = [7; 32];
/// A time limit that a passing test never reaches.
pub const AMPLE: Duration = Duration::from_secs(30);
pub const SHORT: Duration = Duration::from_millis(40);

/// A clock that always shows [`NOW`].
pub struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse_iso(NOW).unwrap()
    }
}

/// Settings that a test may change before the start.
pub struct Settings {
    pub gateway: GatewayConfig,
    pub http: Limits,
    pub queue_commands_max: usize,
    pub dress: fn(&mut TestContext),
    /// Handles requests that are not about transfers.
    pub recorder: Option<Arc<Recorder>>,
}

pub type TestContext = GatewayContext<(Transfers, Others)>;

/// Participants with distinct identities.
pub fn two_banks(context: &mut TestContext) {
    let participant = |number, name: &str| {
        Participant::new(ParticipantId::new(number).unwrap(), FspId::parse(name).unwrap(), Timestamp::EPOCH)
    };
    let all = vec![participant(1, "Hub"), participant(2, "greenbank"), participant(3, "bluewallet")];
    context.participants.set(Arc::new(Participants::new(all, &[])));
}

/// Requests that are not about transfers go to a recorder, if there is one.
pub struct Others(pub Option<Arc<Recorder>>);

/// Accepts all requests, except of unknown senders. Tests find their requests by the path.
#[derive(Default)]
pub struct Recorder(pub Mutex<Vec<Request>>);

impl Handler for Others {
    fn serves(&self, _resource: Resource) -> bool {
        self.0.is_some()
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        if request.parties.source.as_str() == "stranger" {
            return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, "invalid fspiop-source header"));
        }
        let recorder = self.0.as_ref().expect("a recorder serves all resources");
        recorder.0.lock().unwrap().push(request);
        Ok(Accepted)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gateway: GatewayConfig::default(),
            http: Limits::default(),
            queue_commands_max: 1_000,
            dress: |_| {},
            recorder: None,
        }
    }
}

/// All running parts, with the banks of [`scheme`], in the order of their drop.
pub struct Running {
    pub server: Server,
    pub workers: Workers,
    pub engine: Option<Engine>,
    pub handle: EngineHandle,
    pub registry: Arc<Registry>,
    runtime: tokio::runtime::Runtime,
    /// Number of records after the onboarding of the banks.
    records_before: u64,
    _directory: TempDir,
}

impl Running {
    pub fn start(settings: Settings) -> Self {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(StandingClock);
        let options = EngineOptions {
            clock: clock.clone(),
            queue_commands_max: settings.queue_commands_max,
            ..EngineOptions::new(directory.path())
        };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let mut registry = Registry::default();
        let handler = (Transfers::new(handle.clone()), Others(settings.recorder));
        let mut context = GatewayContext { clock, ..GatewayContext::new(handle.clone(), handler) };
        (settings.dress)(&mut context);
        let gateway = Gateway::new(context, settings.gateway, &mut registry);
        let registry = Arc::new(registry);
        let workers = Workers::start(2, "test").unwrap();
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let server = Server::serve(bound, settings.http, &workers, Arc::new(gateway));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(onboard(&handle));
        let records_before = handle.status().durable_seq;
        let engine = Some(engine);
        Self { server, workers, engine, handle, registry, runtime, records_before, _directory: directory }
    }

    pub fn plain() -> Self {
        Self::start(Settings::default())
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn connect(&self) -> Client {
        Client::to(self.server.local_addr())
    }

    /// Sends one request on its own connection.
    pub fn ask(&self, request: &[u8]) -> Answer {
        self.connect().exchange(request)
    }

    /// The gateway's metrics, as the hub's admin port shows them.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Number of records of requests so far. A request that is rejected at once has none.
    pub fn records(&self) -> u64 {
        self.last_seq() - self.records_before
    }

    /// The last record in the journal.
    pub fn last_seq(&self) -> u64 {
        self.handle.status().durable_seq
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let open = self.wait(self.server.shutdown(Instant::now()));
        self.workers.shutdown();
        let _ = open;
    }
}

pub struct Client {
    pub stream: TcpStream,
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

    /// The FSPIOP code of an error object, whose form is checked.
    pub fn code(&self) -> u16 {
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"), "{self:?}");
        let rest = self.body.strip_prefix(r#"{"errorInformation":{"errorCode":""#);
        let code = rest.and_then(|rest| rest.get(..4)).unwrap_or_else(|| panic!("no error object: {self:?}"));
        code.parse().unwrap()
    }
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn exchange(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        self.answer()
    }

    /// Whether bytes of an answer, or the end of the connection, have arrived.
    pub fn has_answer(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let has_bytes = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        has_bytes
    }

    /// The next answer.
    pub fn answer(&mut self) -> Answer {
        let end = loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            assert!(
                self.receive() > 0,
                "closed within a head: {:?}",
                String::from_utf8_lossy(&self.received)
            );
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
        answer
    }

    fn receive(&mut self) -> usize {
        let mut piece = [0; 16 * 1024];
        let length = self.stream.read(&mut piece).unwrap();
        self.received.extend_from_slice(&piece[..length]);
        length
    }

    /// Waits until the server closes. Returns true if no byte came before.
    pub fn is_closed_without_a_word(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest.is_empty() && self.received.is_empty()
    }
}

const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";

/// A request with all headers of transfers. An edit `-name` removes a header, `name: value` replaces or adds it,
/// `+name: value` adds another one. `content-length` is correct unless it is edited.
pub fn request(line: &str, edits: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut headers: Vec<String> = vec![
        "host: hub.example".into(),
        format!("content-type: {MEDIA}"),
        format!("accept: {MEDIA}"),
        "date: Tue, 01 Apr 2031 12:00:00 GMT".into(),
        "fspiop-source: greenbank".into(),
        "fspiop-destination: bluewallet".into(),
        format!("content-length: {}", body.len()),
    ];
    for edit in edits {
        if let Some(more) = edit.strip_prefix('+') {
            headers.push(more.into());
            continue;
        }
        let name = edit.strip_prefix('-').unwrap_or(edit).split(':').next().unwrap();
        headers.retain(|header| header.split(':').next() != Some(name));
        if !edit.starts_with('-') {
            headers.push((*edit).into());
        }
    }
    let mut request = format!("{line} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n")).into_bytes();
    request.extend_from_slice(body);
    request
}

/// A chunked body.
pub fn chunked(body: &str, chunk_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + body.len() / chunk_bytes * 16 + 16);
    for chunk in body.as_bytes().chunks(chunk_bytes) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

pub fn condition() -> String {
    String::from_utf8(upesi_fspiop::encode_octets(&Sha256::digest(PREIMAGE).into()).to_vec()).unwrap()
}

pub fn preimage() -> String {
    String::from_utf8(upesi_fspiop::encode_octets(&PREIMAGE).to_vec()).unwrap()
}

/// A transfer of 125.5 KES from greenbank to bluewallet.
pub fn prepare_body(id: &str) -> String {
    format!(
        concat!(
            r#"{{"transferId":"{id}","payerFsp":"greenbank","payeeFsp":"bluewallet","#,
            r#""amount":{{"currency":"KES","amount":"125.5"}},"ilpPacket":"AYICexample","#,
            r#""condition":"{condition}","expiration":"2031-04-01T12:00:30.000Z"}}"#
        ),
        id = id,
        condition = condition()
    )
}

pub fn fulfil_body() -> String {
    format!(r#"{{"fulfilment":"{}","transferState":"COMMITTED"}}"#, preimage())
}

pub const ERROR_BODY: &str =
    r#"{"errorInformation":{"errorCode":"5104","errorDescription":"account frozen"}}"#;

pub fn post(edits: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    request("POST /transfers", edits, body)
}

pub fn get(id: &str, edits: &[&str]) -> Vec<u8> {
    request(&format!("GET /transfers/{id}"), edits, "")
}

pub fn put(id: &str, edits: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    request(&format!("PUT /transfers/{id}"), edits, body)
}

pub fn put_error(id: &str, edits: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    request(&format!("PUT /transfers/{id}/error"), edits, body)
}

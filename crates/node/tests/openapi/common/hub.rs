//! A real gateway and a real admin API on sockets, with a real engine. A handler that accepts everything takes the
//! requests that are not about transfers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;
use upesi_admin::{
    Access, AdminContext, AdminService, AuditKey, AuditPort, DirectoryHandle, HubKey, HubKeyState, Lanes,
    MessageView, MetricsText, QuoteView,
};
use upesi_apidocs::ApiPort;
use upesi_delivery::lanes::{Failure, LaneStatus};
use upesi_delivery::{Accepted, Handler, Request as Received};
use upesi_engine::{Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload};
use upesi_fspiop::{Resource, SyncError, Versions};
use upesi_gateway::{Gateway, GatewayConfig, GatewayContext};
use upesi_http::{Limits, PaceLimits, Schemes, Server, Workers};
use upesi_ledger::command::NewSettlementModel;
use upesi_ledger::{AdminCommand, CallbackKey, Command, ParticipantId, Reply};
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::OracleRegistry;
use upesi_tables::store::{Store, StoreOptions};
use upesi_testsupport::lanes::lane;
use upesi_transfers::Transfers;
use upesi_types::{Currency, FspId, Timestamp, TransferId};

use super::{Document, Operation, to_text};

/// A moment after the examples' `completedTimestamp`.
const NOW: &str = "2026-11-21T09:39:53.000Z";

pub struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse_iso(NOW).unwrap()
    }
}

struct TakesEverything;

impl Handler for TakesEverything {
    fn serves(&self, _resource: Resource) -> bool {
        true
    }

    async fn handle(&self, _request: Received) -> Result<Accepted, SyncError> {
        Ok(Accepted)
    }
}

struct OneLane;

impl Lanes for OneLane {
    fn lanes(&self) -> Vec<LaneStatus> {
        vec![lane(ParticipantId::HUB)]
    }

    /// The first callback was tried three times.
    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure> {
        let failure = |key: &CallbackKey| Failure { key: *key, attempts: 3, reason: "answered 500".into() };
        keys.first().map(failure).into_iter().collect()
    }
}

/// The id of the only stored quote.
const QUOTE_ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";

/// A quote that could not be delivered.
fn kept_quote(id: &str) -> Option<QuoteView> {
    if id != QUOTE_ID {
        return None;
    }
    let at = StandingClock.now();
    let message = |at, source, destination, headers: &str, body: &str| {
        let (source, body) = (FspId::parse(source)?, body.as_bytes().to_vec());
        Some(MessageView::new(at, source, FspId::parse(destination), headers.as_bytes(), body))
    };
    let headers = "content-type: application/vnd.interoperability.quotes+json;version=1.1\r\n\
        fspiop-source: greenbank\r\nfspiop-destination: bluewallet\r\n";
    let error = r#"{"errorInformation":{"errorCode":"1001","errorDescription":"Destination communication error - Network error"}}"#;
    let mut quote = QuoteView::new(Resource::Quotes, TransferId::parse(id)?, at, Some(at.plus_ms(60_000)));
    quote.request = message(at, "greenbank", "bluewallet", headers, &format!("{{\"quoteId\":\"{id}\"}}"));
    quote.error = message(at.plus_ms(4), "Hub", "greenbank", "", error);
    Some(quote)
}

/// A key that RFC 8410 prints.
fn audit_key(directory: &TempDir) -> Arc<AuditKey> {
    const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    let path = directory.path().join("audit.key");
    std::fs::write(&path, PEM).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    Arc::new(AuditKey::load(&path).unwrap())
}

pub struct Hub {
    /// The document of the FSPIOP port.
    pub document: Document,
    pub engine_handle: EngineHandle,
    fspiop: Server,
    admin: Server,
    workers: Workers,
    _engine: Engine,
    _directory: TempDir,
}

/// A request as described in a document, to be changed and sent.
#[derive(Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Value>,
    /// The status of its success, or 501.
    pub status: u16,
}

impl Hub {
    pub fn start() -> Self {
        Self::start_with(|_| Access::open())
    }

    /// With this access to the admin port. The function receives the data directory.
    pub fn start_with(access: impl FnOnce(&Path) -> Access) -> Self {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(StandingClock);
        let options = EngineOptions { clock: clock.clone(), ..EngineOptions::new(directory.path()) };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        // Walks send requests faster than the limit of one address.
        let pace = PaceLimits { rate: 1_000_000, ..PaceLimits::default() };
        let config = GatewayConfig { pace, ..GatewayConfig::default() };
        let handlers = (Transfers::new(handle.clone()), TakesEverything);
        let context = GatewayContext { clock, ..GatewayContext::new(handle.clone(), handlers) };
        let gateway = Gateway::new(context, config, &mut Registry::default());
        let workers = Workers::start(1, "test").unwrap();
        let bind = || Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let fspiop = Server::serve(bind(), Limits::default(), &workers, Arc::new(gateway));
        let store = StoreOptions { free_bytes_min: 0, ..StoreOptions::default() };
        let store = Store::open(directory.path().join("store"), &store).unwrap();
        let built_in = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
        let oracles = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
        let context = AdminContext {
            quotes: Some(Arc::new(|id| Ok(kept_quote(id)))),
            directory: Some(DirectoryHandle::new(built_in, oracles).unwrap()),
            lanes: Arc::new(OneLane),
            metrics: MetricsText::new(Duration::ZERO, || "# EOF\n".to_owned()),
            log_level: Arc::new(QuietLog),
            profiling: Some(Arc::new(Vec::new)),
            audit: AuditPort::new(Some(audit_key(&directory))),
            hub_keys: Arc::new(hub_keys),
            ..AdminContext::new(handle.clone())
        };
        let admin = AdminService::new(AdminContext { access: access(directory.path()), ..context });
        let admin = Server::serve(bind(), upesi_admin::limits(64), &workers, Arc::new(admin));
        let document = Document::of(ApiPort::Fspiop);
        Self {
            document,
            engine_handle: handle,
            fspiop,
            admin,
            workers,
            _engine: engine,
            _directory: directory,
        }
    }

    /// A hub with the DFSPs of the examples, because requests about transfers are accepted from participants only.
    pub fn with_participants() -> Self {
        let hub = Self::start();
        let currency = Currency::parse("KES").unwrap();
        let name = |text: &str| FspId::parse(text).unwrap();
        let account =
            |kind: &str| AdminCommand::CreateHubAccount { name: name("Hub"), currency, kind: kind.into() };
        let participant =
            |text: &str| AdminCommand::CreateParticipant { name: name(text), currency, is_proxy: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for command in [
            account("HUB_RECONCILIATION"),
            account("HUB_MULTILATERAL_SETTLEMENT"),
            AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("DEFERREDNET", None)),
            participant("greenbank"),
            participant("bluewallet"),
        ] {
            let reply = hub.engine_handle.submit(Command::Admin(command), Payload::default());
            let reply = runtime.block_on(reply).unwrap();
            assert!(matches!(reply, Reply::Admin(Ok(_))), "{reply:?}");
        }
        hub
    }

    /// A connection to the FSPIOP port.
    pub fn connect(&self) -> Client {
        Client::connect(self.fspiop.local_addr())
    }

    /// A connection to the admin port.
    pub fn connect_to_admin(&self) -> Client {
        Client::connect(self.admin.local_addr())
    }

    /// The request of an operation with the examples of its parameters, without a body.
    pub fn request(&self, operation: &Operation<'_>) -> Request {
        let mut headers = Vec::new();
        for parameter in self.document.parameters(operation) {
            if parameter["in"] == "header" {
                headers.push((to_text(&parameter["name"]), to_text(&parameter["example"])));
            }
        }
        let family = operation.path[1..].split('/').next().unwrap();
        if let Some(resource) = Resource::parse(family) {
            let version = Versions::default().hub_made_of(resource);
            let media_type = format!("application/vnd.interoperability.{family}+json;version={version}");
            let described = self.document.request_body(operation).map(|(media_type, _)| media_type);
            assert!(described.is_none_or(|described| described == media_type), "{}", operation.name());
            headers.push(("Content-Type".to_owned(), media_type.clone()));
            if operation.method != "PUT" {
                headers.push(("Accept".to_owned(), media_type));
            }
        }
        let statuses: Vec<u16> = operation.value["responses"]
            .as_object()
            .unwrap()
            .keys()
            .filter_map(|status| status.parse().ok())
            .filter(|status| matches!(status, 200..300 | 501))
            .collect();
        assert_eq!(statuses.len(), 1, "{}", operation.name());
        Request {
            method: operation.method.clone(),
            target: self.document.target(operation, true),
            headers,
            body: None,
            status: statuses[0],
        }
    }
}

impl Request {
    pub fn send(&self, client: &mut Client) -> Answer {
        let body = self.body.as_ref().map(Value::to_string);
        client.send(&self.method, &self.target, &self.headers, body.as_deref())
    }

    pub fn with_body(&self, body: Value) -> Self {
        Self { body: Some(body), ..self.clone() }
    }

    pub fn without_header(&self, name: &str) -> Self {
        let mut request = self.clone();
        request.headers.retain(|(other, _)| other != name);
        request
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.fspiop.shutdown(Instant::now()));
        runtime.block_on(self.admin.shutdown(Instant::now()));
        self.workers.shutdown();
    }
}

/// A log that accepts any level.
struct QuietLog;

impl upesi_admin::LogLevel for QuietLog {
    fn level(&self) -> String {
        "info".to_owned()
    }

    fn targets(&self) -> Vec<String> {
        vec!["upesi_delivery".to_owned()]
    }

    fn set_level(&self, _level: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The public key of the example.
const HUB_KEY: [u8; 91] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04, 0x70, 0x2c, 0x08, 0x97, 0x32, 0xd7, 0x47,
    0xe3, 0x29, 0xa5, 0x39, 0x61, 0x05, 0xeb, 0x26, 0x9c, 0xf7, 0xcf, 0xba, 0xdd, 0xae, 0x51, 0x1d, 0xc8,
    0xfe, 0x6f, 0x0b, 0xc7, 0xc4, 0x4a, 0xea, 0xe1, 0x0e, 0x91, 0x2e, 0xa6, 0xad, 0x68, 0xab, 0x44, 0x55,
    0xff, 0xb8, 0x86, 0x3e, 0x19, 0x43, 0x4b, 0xf3, 0x61, 0x46, 0x8f, 0xd9, 0xd2, 0x85, 0xe4, 0x38, 0x4c,
    0x5e, 0x04, 0xa8, 0x51, 0x3d, 0xbc,
];

fn hub_keys() -> Vec<HubKey> {
    vec![HubKey::new(HubKeyState::Current, "ES256", &HUB_KEY, None)]
}

// A client that sends exactly the given bytes over one connection.

/// A time limit that a passing test never reaches.
const AMPLE: Duration = Duration::from_secs(30);

pub struct Client {
    address: SocketAddr,
    stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        Self { address, stream, received: Vec::new() }
    }

    /// Sends one request. The connection is kept unless the answer closes it.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Answer {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: hub\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            request += &format!("content-length: {}\r\n", body.len());
        }
        request += &format!("\r\n{}", body.unwrap_or_default());
        self.stream.write_all(request.as_bytes()).unwrap();
        let answer = self.read(method);
        if answer.header("connection") == Some("close") {
            *self = Self::connect(self.address);
        }
        answer
    }

    fn read(&mut self, method: &str) -> Answer {
        let end = self.read_until(|bytes| bytes.windows(4).position(|at| at == b"\r\n\r\n")) + 4;
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let length = if method == "HEAD" || status == 304 { 0 } else { length };
        self.read_until(|bytes| (bytes.len() >= length).then_some(0));
        answer.body = String::from_utf8(self.received.drain(..length).collect()).unwrap();
        answer
    }

    fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> usize {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(at) = found(&self.received) {
                return at;
            }
            let length = match self.stream.read(&mut buffer) {
                // The hub in this process takes a CPU profile, whose signal interrupts all threads.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            assert!(length > 0, "the connection ended after {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&buffer[..length]);
        }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The code of an error object; 0 without one.
    pub fn code(&self) -> u16 {
        let value: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let code = value.pointer("/errorInformation/errorCode").and_then(serde_json::Value::as_str);
        code.map_or(0, |code| code.parse().unwrap())
    }

    /// The methods of the path, without `HEAD`, which comes with every `GET` of the hub itself.
    pub fn allowed(&self) -> Vec<String> {
        let allow =
            self.header("allow").unwrap_or_default().split(',').map(|method| method.trim().to_owned());
        allow.filter(|method| !method.is_empty() && method != "HEAD").collect()
    }
}

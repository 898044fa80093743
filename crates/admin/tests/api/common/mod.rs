//! A hub with the admin API on its own port, and a client that writes requests by hand.

pub mod names;
pub mod people;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use upesi_admin::{
    Access, AccessOptions, AdminContext, AdminService, AllowedHosts, AllowedOrigins, BOOTSTRAP_FILE,
    BREAK_GLASS_FILE, DirectoryHandle, FindQuote, FollowedNow, Issuer, Lanes, MetricsText, Operation,
};
use upesi_delivery::lanes::{Failure, LaneStatus};
use upesi_engine::{Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, Storage};
use upesi_http::{BreakerState, Limits, Schemes, Server, Workers};
use upesi_journal::sim_disk::SimDisk;
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_ledger::{CallbackKey, Command, LedgerConfig, ParticipantId, Reply};
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::OracleRegistry;
use upesi_tables::store::{Store, StoreOptions};
use upesi_testsupport::lanes::lane;
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

/// Start time of every test.
pub const START: &str = "2031-04-01T10:00:00.000Z";
pub const PREIMAGE: [u8; 32] = [7; 32];

/// A clock that a test sets.
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}

struct OneLane;

impl Lanes for OneLane {
    fn lanes(&self) -> Vec<LaneStatus> {
        vec![LaneStatus { breaker: BreakerState::Probing, ..lane(ParticipantId::HUB) }]
    }

    /// The first callback was tried three times.
    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure> {
        let failure = |key: &CallbackKey| Failure { key: *key, attempts: 3, reason: "answered 500".into() };
        keys.first().map(failure).into_iter().collect()
    }
}

/// Settings that a test may change before the start.
pub struct Settings {
    pub quotes: Option<FindQuote>,
    pub limits: Limits,
    /// Time limit for a body; `None` without a limit.
    pub body_timeout: Option<Duration>,
    pub queue_commands_max: usize,
    /// A simulated disk for the store's journal.
    pub store_log: Option<SimDisk>,
    /// Replaces the engine's data directory.
    pub storage: Option<Storage>,
    /// Replaces the journal.
    pub log: Option<Arc<dyn upesi_journal::Log>>,
    /// Whether clients must authenticate.
    pub authentication: bool,
    /// Whether some changes need two operators.
    pub approvals: bool,
    /// Whether only users can approve.
    pub approvers_are_people: bool,
    /// Identity providers whose tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// The secret that is mixed into the keys of second factors.
    pub people_secret: Option<upesi_keys::Secret>,
    pub ledger_limits: upesi_ledger::Limits,
    pub node: Option<u32>,
    /// The follower's progress, if the node is a follower.
    pub followed: Option<FollowedNow>,
    /// Origins that are treated as the port's own.
    pub allowed_origins: AllowedOrigins,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            quotes: None,
            limits: upesi_admin::limits(64),
            body_timeout: None,
            queue_commands_max: 1_000,
            store_log: None,
            storage: None,
            log: None,
            authentication: false,
            approvals: false,
            approvers_are_people: false,
            issuers: Vec::new(),
            people_secret: None,
            ledger_limits: upesi_ledger::Limits::SHIPPED,
            node: None,
            followed: None,
            allowed_origins: AllowedOrigins::default(),
        }
    }
}

fn open_store(path: &Path, log: Option<SimDisk>) -> Store {
    let options = StoreOptions { free_bytes_min: 0, ..StoreOptions::default() };
    let Some(log) = log else { return Store::open(path, &options).unwrap() };
    std::fs::create_dir(path).unwrap();
    // A segment of the usual size would be large for a simulated disk.
    let options = StoreOptions { segment_bytes: 64 * 1024, ..options };
    Store::open_with_log_on(path, Arc::new(log), &options).unwrap()
}

pub struct Hub {
    pub handle: EngineHandle,
    pub clock: Arc<TestClock>,
    pub address: SocketAddr,
    /// The requested log levels.
    pub levels: Arc<Mutex<Vec<String>>>,
    pub operations: Vec<Operation>,
    pub access: Access,
    pub engine: Option<Engine>,
    _server: Server,
    _workers: Workers,
    pub directory: TempDir,
}

impl Hub {
    pub fn start() -> Self {
        Self::launch(Settings::default())
    }

    pub fn start_with(quotes: Option<FindQuote>) -> Self {
        Self::launch(Settings { quotes, ..Settings::default() })
    }

    /// A node of a cluster.
    pub fn node(number: u32) -> Self {
        Self::launch(Settings { node: Some(number), ..Settings::default() })
    }

    /// A hub with other limits on its port.
    pub fn start_limited(limits: Limits, body_timeout: Duration) -> Self {
        Self::launch(Settings { limits, body_timeout: Some(body_timeout), ..Settings::default() })
    }

    pub fn launch(settings: Settings) -> Self {
        let Settings { quotes, limits, body_timeout, queue_commands_max, store_log, storage, log, .. } =
            settings;
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(Timestamp::parse_iso(START).unwrap().as_ms())));
        let options = EngineOptions {
            segment_bytes: 64 * 1024,
            batch_bytes_max: 16 * 1024,
            queue_commands_max,
            clock: Arc::clone(&clock) as _,
            // Time advances only when a test says so.
            tick_interval: Duration::from_secs(3_600),
            storage,
            log,
            ledger: LedgerConfig { limits: settings.ledger_limits, ..LedgerConfig::default() },
            ..EngineOptions::new(directory.path())
        };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let store = open_store(&directory.path().join("store"), store_log);
        let built_in = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
        let oracles = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
        let levels = Arc::<Mutex<Vec<String>>>::default();
        let asked = Arc::clone(&levels);
        let workers = Workers::start(1, "admin").unwrap();
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.local_addr();
        let context = AdminContext {
            allowed_hosts: Some(AllowedHosts::new(address, ["hub"])),
            body_timeout: body_timeout.unwrap_or(Duration::from_secs(30)),
            directory: Some(DirectoryHandle::new(built_in, oracles).unwrap()),
            quotes,
            lanes: Arc::new(OneLane),
            metrics: MetricsText::new(Duration::ZERO, || "# EOF\n".to_owned()),
            log_level: Arc::new(Levels(asked)),
            node: settings.node,
            followed: settings.followed,
            allowed_origins: settings.allowed_origins,
            ..AdminContext::new(handle.clone())
        };
        let bootstrap_file = directory.path().join(BOOTSTRAP_FILE);
        let break_glass_file = directory.path().join(BREAK_GLASS_FILE);
        let (is_by_two, approvers_are_people) = (settings.approvals, settings.approvers_are_people);
        let issuers = settings.issuers;
        let options = AccessOptions {
            bootstrap_file,
            break_glass_file,
            is_by_two,
            approvers_are_people,
            issuers,
            people_secret: settings.people_secret,
        };
        let context = match settings.authentication {
            true => AdminContext { access: Access::required(options), ..context },
            false => context,
        };
        let service = AdminService::new(context);
        let (operations, access) = (service.operations().to_vec(), service.access().clone());
        let server = Server::serve(bound, limits, &workers, Arc::new(service));
        Self {
            handle,
            clock,
            address,
            levels,
            operations,
            access,
            engine: Some(engine),
            _server: server,
            _workers: workers,
            directory,
        }
    }

    /// A hub with its accounts and a default model, and these DFSPs with a net debit cap of 1000 and funds of 5000 in
    /// KES.
    pub async fn with_dfsps(names: &[&str]) -> Self {
        Self::start().of_dfsps(names).await
    }

    /// Like `with_dfsps`, with other limits of the ledger.
    pub async fn with_limits(ledger_limits: upesi_ledger::Limits, names: &[&str]) -> Self {
        Self::launch(Settings { ledger_limits, ..Settings::default() }).of_dfsps(names).await
    }

    async fn of_dfsps(self, names: &[&str]) -> Self {
        let hub = self;
        hub.prepare_scheme().await;
        for (index, name) in names.iter().enumerate() {
            hub.onboard(name, index as u64).await;
        }
        hub
    }

    pub async fn prepare_scheme(&self) {
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            let body = format!(r#"{{"currency":"KES","type":"{kind}"}}"#);
            self.expect("POST", "/participants/Hub/accounts", &body, 201).await;
        }
        self.expect("POST", "/settlementModels", MODEL, 201).await;
    }

    pub async fn onboard(&self, name: &str, index: u64) {
        self.expect("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"KES"}}"#), 201).await;
        let limit = r#"{"currency":"KES","limit":{"type":"NET_DEBIT_CAP","value":1000},"initialPosition":0}"#;
        self.expect("POST", &format!("/participants/{name}/initialPositionAndLimits"), limit, 201).await;
        // Accounts are numbered in order: two of the hub, then position and settlement of each DFSP.
        let account = 4 + 2 * index;
        let funds = funds_in(&id(1000 + index).to_string(), "5000");
        self.expect("POST", &format!("/participants/{name}/accounts/{account}"), &funds, 202).await;
    }

    /// Sends a request with a JSON body, or without a body if it is empty.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.call_as("application/json", method, path, body).await
    }

    pub async fn call_as(&self, content_type: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n");
        if !body.is_empty() {
            let length = body.len();
            head += &format!("content-type: {content_type}\r\ncontent-length: {length}\r\n");
        }
        self.raw(&format!("{head}\r\n{body}")).await
    }

    /// Sends the given bytes. Returns the status and the body of the answer.
    pub async fn raw(&self, request: &str) -> (u16, String) {
        let (head, body) = self.exchange(request).await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body)
    }

    pub async fn exchange(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        names::check(head, body);
        (head.to_owned(), body.to_owned())
    }

    /// Sends a request that must be answered with this status. Returns the body.
    pub async fn expect(&self, method: &str, path: &str, body: &str, status: u16) -> String {
        let (found, answer) = self.call(method, path, body).await;
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        answer
    }

    pub async fn get(&self, path: &str) -> String {
        self.expect("GET", path, "", 200).await
    }

    /// Submits a command of another edge.
    pub async fn submit(&self, command: Command, body: &str) {
        let payload = Payload { headers: "".into(), body: body.to_owned().into() };
        let reply = self.handle.submit(command, payload).await.unwrap();
        let outcome = reply.clone().into_outcome();
        assert!(reply == Reply::Accepted || matches!(outcome, Some(Ok(_))), "{reply:?}");
    }
}

pub const MODEL: &str = r#"{"name":"DEFERREDNET","settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","requireLiquidityCheck":true,"ledgerAccountType":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#;

pub fn funds_in(id: &str, amount: &str) -> String {
    funds(id, "recordFundsIn", amount)
}

pub fn funds(id: &str, action: &str, amount: &str) -> String {
    format!(
        r#"{{"transferId":"{id}","externalReference":"bank-555","action":"{action}","reason":"prefund","amount":{{"amount":{amount},"currency":"KES"}},"extensionList":{{"extension":[{{"key":"memo","value":"initial"}}]}}}}"#
    )
}

/// The body of an error; the description is escaped as in JSON.
pub fn refusal(code: u16, description: &str) -> String {
    let text: String = serde_json::from_str(&format!("\"{description}\"")).unwrap();
    let name = names::name_of(code, &text).as_str();
    format!(
        r#"{{"errorInformation":{{"errorCode":"{code}","errorDescription":"{description}","errorName":"{name}"}}}}"#
    )
}

pub fn id(number: u64) -> TransferId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    TransferId::from_random_bytes(bytes)
}

pub fn name(text: &str) -> FspId {
    FspId::parse(text).unwrap()
}

pub fn prepare(id: TransferId, payer: &str, payee: &str, amount: &str) -> Command {
    Command::Prepare(Prepare {
        id,
        source: name(payer),
        destination: Some(name(payee)),
        payer: name(payer),
        payee: name(payee),
        amount: Ok(Amount::parse_decimal(amount).unwrap()),
        currency: Currency::parse("KES").unwrap(),
        condition: Some(Sha256::digest(PREIMAGE).into()),
        expires_at: Timestamp::parse_iso(START).unwrap().plus_ms(30_000),
        fingerprint: [2; 16],
        extensions: None,
    })
}

/// A log that remembers its levels.
struct Levels(Arc<Mutex<Vec<String>>>);

impl upesi_admin::LogLevel for Levels {
    fn level(&self) -> String {
        self.0.lock().unwrap().last().cloned().unwrap_or_else(|| "info".to_owned())
    }

    fn targets(&self) -> Vec<String> {
        vec!["upesi_delivery".to_owned(), "upesi_engine".to_owned()]
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        if level == "loud" {
            return Err("is no level".to_owned());
        }
        self.0.lock().unwrap().push(level.to_owned());
        Ok(())
    }
}

/// A payee's fulfil that commits the transfer.
pub fn fulfil(id: TransferId, payer: &str, payee: &str) -> Fulfil {
    Fulfil {
        transfer: id.into(),
        source: name(payee),
        destination: Some(name(payer)),
        state: FulfilState::Committed,
        may_reserve: true,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint: [7; 16],
        extensions: None,
    }
}

/// A prepared and committed transfer.
pub async fn pay(hub: &Hub, number: u64, payer: &str, payee: &str, amount: &str) {
    hub.submit(prepare(id(number), payer, payee, amount), "").await;
    hub.submit(Command::Fulfil(fulfil(id(number), payer, payee)), "").await;
}

/// A request with a JSON body, or without a body if it is null. Returns the JSON answer.
pub async fn ask(hub: &Hub, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = hub.call(method, path, &body).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text}")))
}

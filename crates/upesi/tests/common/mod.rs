//! A whole hub in this process, with its own sockets and data directory, and scripted DFSPs around it.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod described;
pub mod dfsp;
pub mod dialogue;
pub mod exposition;
pub mod message;
pub mod oracle;
pub mod recorder;
pub mod secure;
pub mod signed;
pub mod simulation;
pub mod story;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use dfsp::Dfsp;
use message::{Message, Sent, Terms};
use serde_json::Value;
use tempfile::TempDir;
use upesi_engine::{Clock, SystemClock};
use upesi_node::logging::LogControl;
use upesi_node::{Hub, HubError};
use upesi_offline::audit::{AuditOptions, audit};
use upesi_settings::Sources;
use upesi_types::{Timestamp, TransferId};

use self::dfsp::{Answer, Client, request};

/// A time limit that a passing test never reaches.
pub const AMPLE: Duration = Duration::from_secs(30);
/// Net debit cap and funds of every DFSP.
pub const CAP: u64 = 5_000;
pub const FUNDS: u64 = 3_000;
pub const MODEL: &str = r#"{"name":"DEFERREDNETKES","settlementGranularity":"NET","settlementInterchange":"MULTILATERAL","settlementDelay":"DEFERRED","currency":"KES","requireLiquidityCheck":true,"ledgerAccountType":"POSITION","settlementAccountType":"SETTLEMENT","autoPositionReset":true}"#;

/// Short delays, so that retries come at once.
const SETTINGS: [(&str, &str); 12] = [
    ("fspiop.listen", "127.0.0.1:0"),
    ("admin.listen", "127.0.0.1:0"),
    ("fspiop.workers", "2"),
    ("hub.payee_confirmation", "true"),
    ("engine.tick_interval_ms", "5"),
    ("callbacks.backoff_min_ms", "5"),
    ("callbacks.backoff_max_ms", "20"),
    ("callbacks.breaker_pause_min_ms", "10"),
    ("callbacks.breaker_pause_max_ms", "20"),
    ("data.segment_bytes", "16777216"),
    ("data.reserve_bytes", "65536"),
    ("metrics.interval_ms", "1"),
];

/// The machine's clock, which can be advanced.
#[derive(Default)]
pub struct TestClock {
    ahead_ms: AtomicI64,
    jumped_ms: AtomicI64,
}

impl TestClock {
    /// Advances the time.
    pub fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock, as a user would.
    pub fn jump(&self, ms: i64) {
        self.jumped_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl TestClock {
    /// The time without any setting of the wall clock.
    pub fn unset(&self) -> Timestamp {
        SystemClock.now().plus_ms(self.ahead_ms.load(Ordering::SeqCst))
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.unset().plus_ms(self.jumped_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let ahead = self.ahead_ms.load(Ordering::SeqCst).unsigned_abs();
        SystemClock.monotonic() + Duration::from_millis(ahead)
    }
}

/// A hub, its DFSPs, and their shared state.
pub struct World {
    hub: Option<Hub>,
    pub clock: Arc<TestClock>,
    pub dfsps: BTreeMap<String, Dfsp>,
    settings: Vec<(String, String)>,
    runtime: tokio::runtime::Runtime,
    data: TempDir,
    transfers: AtomicU64,
}

impl World {
    /// A hub with an empty data directory, and with these settings in addition to the usual ones of tests.
    pub fn bare(settings: &[(&str, &str)]) -> Self {
        let settings = SETTINGS.iter().chain(settings);
        let mut world = Self {
            hub: None,
            clock: Arc::default(),
            dfsps: BTreeMap::new(),
            settings: settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            data: TempDir::new().unwrap(),
            transfers: AtomicU64::new(0),
        };
        world.start();
        world
    }

    /// A hub with greenbank, bluewallet and redmoney, which are onboarded through the admin API.
    pub fn new(settings: &[(&str, &str)]) -> Self {
        let mut world = Self::bare(settings);
        world.prepare_scheme();
        for name in ["greenbank", "bluewallet", "redmoney"] {
            world.join(name);
        }
        world
    }

    // ---- the hub ----

    pub fn start(&mut self) {
        self.hub = Some(self.try_start().unwrap());
    }

    /// The reason why a hub does not start with these settings.
    pub fn refused(settings: &[(&str, &str)]) -> String {
        let mut world = Self::bare(&[]);
        world.stop(AMPLE);
        world.settings.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        world.try_start().err().expect("it does not start").to_string()
    }

    /// The reason why a stopped hub does not start again; `None` if it starts. It is stopped afterwards.
    pub fn refusal(&self) -> Option<String> {
        assert!(self.hub.is_none(), "it runs");
        let hub = self.try_start();
        hub.map(|hub| self.runtime.block_on(hub.shutdown(AMPLE))).err().map(|error| error.to_string())
    }

    fn try_start(&self) -> Result<Hub, HubError> {
        let mut flags = vec![("test".into(), "data.dir".into(), self.data.path().display().to_string())];
        let all = self.settings.iter().map(|(key, value)| ("test".to_owned(), key.clone(), value.clone()));
        flags.extend(all);
        let sources = Sources { flags, ..Sources::default() };
        let settings =
            upesi_settings::load(&sources).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).settings;
        let clock = Arc::clone(&self.clock) as _;
        Hub::start(&settings, LogControl::detached(), clock)
    }

    /// Stops the hub in order, and waits this long for requests in flight.
    pub fn stop(&mut self, patience: Duration) {
        if let Some(hub) = self.hub.take() {
            self.runtime.block_on(hub.shutdown(patience));
        }
    }

    /// Restarts the hub in order, with further settings.
    pub fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.settings.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        self.restart();
    }

    pub fn restart(&mut self) {
        self.stop(AMPLE);
        self.start();
    }

    pub fn hub(&self) -> &Hub {
        self.hub.as_ref().expect("the hub runs")
    }

    pub fn fspiop(&self) -> SocketAddr {
        self.hub().fspiop_address()
    }

    pub fn admin_url(&self) -> String {
        format!("http://{}", self.hub().admin_address())
    }

    /// Every record of the journal, one per line. All acknowledged records are included.
    pub fn journal(&self) -> String {
        let data = self.data().display().to_string();
        let printed = Command::new(env!("CARGO_BIN_EXE_upesi")).args(["journal", &data]).output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        String::from_utf8(printed.stdout).unwrap()
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Stops the hub and audits its data directory.
    pub fn stop_and_audit(&mut self) {
        self.stop(AMPLE);
        let directory = self.data.path().to_owned();
        let report = audit(&AuditOptions { directory, allow_live: false, with_archive: true }).unwrap();
        assert!(report.is_sound(), "{:#?}", report.findings);
    }

    // ---- operators ----

    pub fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut headers = vec![("host".to_owned(), "localhost".to_owned())];
        if !body.is_empty() {
            headers.push(("content-type".into(), "application/json".into()));
        }
        let request = request(&format!("{method} {path}"), &headers, body.as_bytes());
        Client::connect(self.hub().admin_address()).exchange(&request)
    }

    /// Sends a request of an operator, which must succeed.
    pub fn operate(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.admin(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { serde_json::from_str(&answer.body).unwrap() }
    }

    pub fn prepare_scheme(&self) {
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            self.operate(
                "POST",
                "/participants/Hub/accounts",
                &format!(r#"{{"currency":"KES","type":"{kind}"}}"#),
            );
        }
        self.operate("POST", "/settlementModels", MODEL);
    }

    /// Starts a DFSP and onboards it.
    pub fn join(&mut self, name: &str) {
        self.join_as(name, false);
    }

    /// Starts a proxy to another scheme and onboards it.
    pub fn join_proxy(&mut self, name: &str) {
        self.join_as(name, true);
    }

    fn join_as(&mut self, name: &str, is_proxy: bool) {
        let dfsp = Dfsp::start(name);
        self.onboard_as(name, is_proxy);
        self.set_endpoints(name, &dfsp.base_url());
        self.dfsps.insert(name.to_owned(), dfsp);
    }

    pub fn onboard(&self, name: &str) {
        self.onboard_as(name, false);
    }

    fn onboard_as(&self, name: &str, is_proxy: bool) {
        let participant = format!(r#"{{"name":"{name}","currency":"KES","isProxy":{is_proxy}}}"#);
        self.operate("POST", "/participants", &participant);
        let limits = format!(
            r#"{{"currency":"KES","limit":{{"type":"NET_DEBIT_CAP","value":{CAP}}},"initialPosition":0}}"#
        );
        self.operate("POST", &format!("/participants/{name}/initialPositionAndLimits"), &limits);
        let funds = format!(
            r#"{{"transferId":"{}","externalReference":"bank","action":"recordFundsIn","reason":"prefund","amount":{{"amount":{FUNDS},"currency":"KES"}}}}"#,
            self.new_id()
        );
        let account = self.account(name, "SETTLEMENT");
        self.operate("POST", &format!("/participants/{name}/accounts/{account}"), &funds);
    }

    /// Adds a binding, `KIND:VALUE`, to a participant.
    pub fn bind(&self, name: &str, binding: &str) {
        let (kind, value) = binding.split_once(':').unwrap();
        let body = format!(r#"{{"kind":"{kind}","value":"{value}"}}"#);
        self.operate("POST", &format!("/participants/{name}/bindings"), &body);
    }

    /// Removes a binding. The value needs no encoding.
    pub fn unbind(&self, name: &str, binding: &str) {
        let (kind, value) = binding.split_once(':').unwrap();
        self.operate("DELETE", &format!("/participants/{name}/bindings?kind={kind}&value={value}"), "");
    }

    pub fn set_endpoints(&self, name: &str, base_url: &str) {
        for (kind, path) in [
            ("POST", "/transfers"),
            ("PUT", "/transfers/{{transferId}}"),
            ("ERROR", "/transfers/{{transferId}}/error"),
        ] {
            self.set_endpoint(name, &format!("TRANSFER_{kind}"), &format!("{base_url}{path}"));
        }
    }

    /// The number of an account.
    pub fn account(&self, name: &str, kind: &str) -> u64 {
        let accounts = self.operate("GET", &format!("/participants/{name}/accounts"), "");
        let mut accounts = accounts.as_array().unwrap().iter();
        let account = accounts.find(|account| account["ledgerAccountType"] == kind).unwrap();
        account["id"].as_u64().unwrap()
    }

    /// The position in KES, as the admin API writes it.
    pub fn position(&self, name: &str) -> String {
        self.position_in(name, "KES")
    }

    /// The position in any currency.
    pub fn position_in(&self, name: &str, currency: &str) -> String {
        let path = format!("/participants/{name}/positions?currency={currency}");
        self.operate("GET", &path, "")["value"].to_string()
    }

    /// Undelivered callbacks: callbacks that the hub retries, and parked ones.
    pub fn undelivered(&self) -> (u64, u64) {
        let page = self.operate("GET", "/callbacks", "");
        (page["totals"]["pending"].as_u64().unwrap(), page["totals"]["parked"].as_u64().unwrap())
    }

    /// Polls until the answer equals the expected one, for work that the hub does in the background.
    pub fn until<T: PartialEq + std::fmt::Debug>(&self, wanted: &T, ask: impl Fn() -> T) {
        let deadline = Instant::now() + AMPLE;
        loop {
            let found = ask();
            if found == *wanted {
                return;
            }
            assert!(Instant::now() < deadline, "it stays {found:?}, not {wanted:?}");
            std::thread::yield_now();
        }
    }

    // ---- lookups and quotes ----

    /// Like [`Self::new`], with DFSPs that accept messages of every kind.
    pub fn with_lookups(settings: &[(&str, &str)]) -> Self {
        let world = Self::new(settings);
        for dfsp in world.dfsps.values() {
            world.set_all_endpoints(&dfsp.name, &dfsp.base_url());
        }
        world
    }

    /// Sets the endpoints of all resources other than transfers.
    pub fn set_all_endpoints(&self, name: &str, base_url: &str) {
        let party = "{{partyIdType}}/{{partyIdentifier}}";
        for (family, kind) in [("parties", "PARTIES"), ("participants", "PARTICIPANT")] {
            for (sub_id, path) in
                [("", party.to_owned()), ("_SUB_ID", format!("{party}/{{{{partySubIdOrType}}}}"))]
            {
                let url = format!("{base_url}/{family}/{path}");
                if family == "parties" {
                    self.set_endpoint(name, &format!("{kind}{sub_id}_GET"), &url);
                }
                self.set_endpoint(name, &format!("{kind}{sub_id}_PUT"), &url);
                self.set_endpoint(name, &format!("{kind}{sub_id}_PUT_ERROR"), &format!("{url}/error"));
            }
        }
        let batch = format!("{base_url}/participants/{{{{requestId}}}}");
        self.set_endpoint(name, "PARTICIPANT_BATCH_PUT", &batch);
        self.set_endpoint(name, "PARTICIPANT_BATCH_PUT_ERROR", &format!("{batch}/error"));
        for (kind, path) in [
            ("POST", "/fxTransfers"),
            ("PUT", "/fxTransfers/{{commitRequestId}}"),
            ("ERROR", "/fxTransfers/{{commitRequestId}}/error"),
        ] {
            self.set_endpoint(name, &format!("FX_TRANSFER_{kind}"), &format!("{base_url}{path}"));
        }
        for (kind, path) in [
            ("POST", "/bulkTransfers"),
            ("PUT", "/bulkTransfers/{{bulkTransferId}}"),
            ("ERROR", "/bulkTransfers/{{bulkTransferId}}/error"),
        ] {
            self.set_endpoint(name, &format!("BULK_TRANSFER_{kind}"), &format!("{base_url}{path}"));
        }
        for kind in ["QUOTES", "BULK_QUOTES", "FX_QUOTES", "TRX_REQ_SERVICE", "AUTHORIZATIONS", "SERVICES"] {
            self.set_endpoint(name, kind, base_url);
        }
    }

    pub fn set_endpoint(&self, name: &str, kind: &str, url: &str) {
        let body = format!(r#"{{"type":"FSPIOP_CALLBACK_URL_{kind}","value":"{url}"}}"#);
        self.operate("POST", &format!("/participants/{name}/endpoints"), &body);
    }

    /// Opens a position account of a DFSP in another currency.
    pub fn open_account(&self, name: &str, currency: &str) {
        for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
            let account = format!(r#"{{"currency":"{currency}","type":"{kind}"}}"#);
            self.operate("POST", "/participants/Hub/accounts", &account);
        }
        self.operate("POST", "/settlementModels", &MODEL.replace("KES", currency));
        self.operate("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"{currency}"}}"#));
        let limits = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{CAP}}},"initialPosition":0}}"#
        );
        self.operate("POST", &format!("/participants/{name}/initialPositionAndLimits"), &limits);
    }

    /// Opens a participant's accounts in another currency that the hub already has, with a net debit cap of 50 and
    /// funds of 40.
    pub fn join_currency(&self, name: &str, currency: &str) {
        self.operate("POST", "/participants", &format!(r#"{{"name":"{name}","currency":"{currency}"}}"#));
        let limits = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":50}},"initialPosition":0}}"#
        );
        self.operate("POST", &format!("/participants/{name}/initialPositionAndLimits"), &limits);
        let accounts = self.operate("GET", &format!("/participants/{name}/accounts"), "");
        let is_cover = |account: &&Value| {
            account["ledgerAccountType"] == "SETTLEMENT" && account["currency"] == *currency
        };
        let account = accounts.as_array().unwrap().iter().find(is_cover).unwrap();
        let funds = format!(
            r#"{{"transferId":"{}","externalReference":"bank","action":"recordFundsIn","reason":"prefund","amount":{{"amount":40,"currency":"{currency}"}}}}"#,
            self.new_id()
        );
        self.operate("POST", &format!("/participants/{name}/accounts/{}", account["id"]), &funds);
    }

    /// Starts an oracle for a type. It answers as the test says.
    pub fn add_oracle(&mut self, kind: &str) {
        let oracle = Dfsp::start("oracle");
        let body = format!(
            r#"{{"oracleIdType":"{kind}","endpoint":{{"value":"{}","endpointType":"URL"}},"isDefault":true}}"#,
            oracle.base_url()
        );
        self.operate("POST", "/oracles", &body);
        self.dfsps.insert("oracle".to_owned(), oracle);
    }

    /// Waits until no message is in flight, and checks that the test has read every message.
    pub fn expect_silence(&self) {
        self.until(&0, || self.metric("upesi_relay_in_flight"));
        for (name, dfsp) in &self.dfsps {
            let unexpected = dfsp.unexpected();
            assert!(unexpected.is_empty(), "{name} was sent more: {unexpected:#?}");
        }
    }

    /// A value of the hub's metrics; zero if the series does not exist yet.
    ///
    /// Gauges of the engine are set at its ticks: wait for them with [`Self::until`].
    pub fn metric(&self, series: &str) -> u64 {
        let answer = self.admin("GET", "/metrics", "");
        let sample = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        sample.map_or(0, |value| value.parse().unwrap_or_else(|_| panic!("{series} {value}")))
    }

    // ---- DFSPs ----

    /// A telephone number that no other call returns.
    pub fn new_number(&self) -> String {
        format!("2547{:08}", self.transfers.fetch_add(1, Ordering::Relaxed))
    }

    pub fn new_id(&self) -> String {
        let number = self.transfers.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        TransferId::from_random_bytes(bytes).to_string()
    }

    pub fn dfsp(&self, name: &str) -> &Dfsp {
        &self.dfsps[name]
    }

    pub fn dfsp_mut(&mut self, name: &str) -> &mut Dfsp {
        self.dfsps.get_mut(name).unwrap()
    }

    /// A whole payment.
    pub fn pay(&self, payer: &str, payee: &str, amount: &str, currency: &str) {
        let id = self.new_id();
        let (amount, currency) = (amount.into(), currency.into());
        let terms = Terms {
            payer: payer.into(),
            payee: payee.into(),
            amount,
            currency,
            ..Terms::new(&id, self.now())
        };
        self.deliver(Message::prepare(&terms));
        assert_eq!(self.dfsp(payee).next(&id).method, "POST");
        self.deliver(Message::fulfil(&id, "COMMITTED").from(payee).to(payer));
        assert_eq!(self.dfsp(payer).next(&id).method, "PUT");
    }

    /// One day's payments: greenbank owes 32.25, bluewallet is owed 20.5, redmoney is owed 11.75.
    pub fn trade(&self) {
        self.pay("greenbank", "bluewallet", "40.5", "KES");
        self.pay("bluewallet", "redmoney", "20", "KES");
        self.pay("redmoney", "greenbank", "8.25", "KES");
    }

    /// Sends a message. Returns the answer, and the data that callbacks are compared with.
    pub fn send(&self, message: Message) -> (Answer, Sent) {
        let sent = message.into_sent();
        let answer = Client::connect(self.fspiop()).exchange(&sent.bytes());
        (answer, sent)
    }

    /// Sends messages at the same moment, each over its own connection. Returns the answers.
    pub fn at_once(&self, messages: &[Message]) -> Vec<Answer> {
        let address = self.fspiop();
        let start = Barrier::new(messages.len());
        std::thread::scope(|scope| {
            let send = |message: &Message| {
                let (bytes, start) = (message.clone().into_sent().bytes(), &start);
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    start.wait();
                    client.exchange(&bytes)
                })
            };
            let sent: Vec<_> = messages.iter().map(send).collect();
            sent.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        })
    }

    /// Sends a message that must be accepted.
    pub fn deliver(&self, message: Message) -> Sent {
        let (answer, sent) = self.send(message);
        let expected = if sent.method == "PUT" || sent.path == "/participants" { 200 } else { 202 };
        assert_eq!((answer.status, &*answer.body), (expected, ""), "{} {}", sent.method, sent.path);
        sent
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test has already failed; a hub that hangs must not hide its message.
            return;
        }
        self.stop(Duration::ZERO);
    }
}

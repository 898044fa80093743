//! A hub with the console on its admin port, and a client that writes requests by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use upesi_admin::{
    Access, AccessOptions, AdminContext, AdminService, BOOTSTRAP_FILE, BREAK_GLASS_FILE, Issuer, Lanes,
    Operation, make_bootstrap,
};
use upesi_delivery::lanes::{Failure, LaneStatus};
use upesi_engine::{
    Clock as _, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, RequestKind,
    Response, ResponseOutcome, ResponseTimes,
};
use upesi_http::{BreakerState, Server, Workers};
use upesi_ledger::{CallbackKey, Command, ParticipantId};
use upesi_testsupport::lanes::lane;
use upesi_testsupport::scheme::{TestClock, fulfil, id, onboard, prepare};
use upesi_types::Timestamp;

/// Start time of every test.
pub const START: &str = "2031-04-01T10:00:00.000Z";

/// The lanes of the first two DFSPs; the second one is stopped.
pub struct TwoLanes {
    pub error: String,
}

impl Lanes for TwoLanes {
    fn lanes(&self) -> Vec<LaneStatus> {
        let of = |number, breaker, last_error| LaneStatus {
            refused: 0,
            breaker,
            delivered: 1_234_567,
            last_error,
            ..lane(ParticipantId::new(number).unwrap())
        };
        vec![of(2, BreakerState::Closed, None), of(3, BreakerState::Open, Some(self.error.clone()))]
    }

    fn failures(&self, _: &[CallbackKey]) -> Vec<Failure> {
        Vec::new()
    }
}

/// The answer to a request.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub struct Hub {
    pub handle: EngineHandle,
    pub clock: Arc<TestClock>,
    pub times: ResponseTimes,
    address: SocketAddr,
    directory: TempDir,
    engine: Option<Engine>,
    /// All operations of the API.
    pub operations: Vec<Operation>,
    _server: Server,
    _workers: Workers,
}

impl Hub {
    /// A hub without authentication, with these DFSPs.
    pub async fn with_dfsps(names: &[&str]) -> Self {
        let hub = Self::launch(None, "answered 503");
        onboard(&hub.handle, names).await;
        hub
    }

    /// A hub that requires authentication, and perhaps two people. The lanes have this error.
    pub fn launch(is_by_two: Option<bool>, error: &str) -> Self {
        Self::launch_with(is_by_two, error, Vec::new(), Timestamp::parse_iso(START).unwrap())
    }

    /// A hub that also accepts the users of identity providers, and whose clock begins at this time.
    pub fn launch_with(is_by_two: Option<bool>, error: &str, issuers: Vec<Issuer>, start: Timestamp) -> Self {
        let directory = TempDir::new().unwrap();
        let clock = TestClock::starting_at(start.as_ms());
        let options = EngineOptions {
            segment_bytes: 64 * 1024,
            batch_bytes_max: 16 * 1024,
            clock: Arc::clone(&clock) as _,
            // Time advances only when a test says so.
            tick_interval: Duration::from_secs(3_600),
            ..EngineOptions::new(directory.path())
        };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let times = ResponseTimes::default();
        let access = is_by_two.map_or_else(Access::open, |is_by_two| {
            Access::required(AccessOptions {
                bootstrap_file: directory.path().join(BOOTSTRAP_FILE),
                break_glass_file: directory.path().join(BREAK_GLASS_FILE),
                is_by_two,
                approvers_are_people: false,
                issuers,
                people_secret: None,
            })
        });
        let context = AdminContext {
            lanes: Arc::new(TwoLanes { error: error.to_owned() }),
            response_times: times.clone(),
            access,
            ..AdminContext::new(handle.clone())
        };
        let workers = Workers::start(1, "admin").unwrap();
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.local_addr();
        let service = AdminService::with_pages(context, upesi_console::PAGES);
        let operations = service.operations().to_vec();
        let server = Server::serve(bound, upesi_admin::limits(64), &workers, Arc::new(service));
        Self {
            handle,
            clock,
            times,
            address,
            directory,
            engine: Some(engine),
            operations,
            _server: server,
            _workers: workers,
        }
    }

    /// Stops the engine; the admin port continues.
    pub fn stop_engine(&mut self) {
        self.engine.take().unwrap().shutdown();
    }

    /// A token that creates the first operator.
    pub fn bootstrap(&self) -> String {
        make_bootstrap(self.directory.path()).unwrap().to_string()
    }

    pub async fn send(&self, lines: &str, method: &str, path: &str, body: &str) -> Answer {
        self.send_bytes(lines, method, path, body.as_bytes()).await
    }

    /// Sends a request with any body.
    pub async fn send_bytes(&self, lines: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}");
        let head = format!("{head}content-length: {length}\r\n\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A page that must be there.
    pub async fn page(&self, path: &str) -> String {
        let answer = self.send("", "GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Makes a change through the JSON API.
    pub async fn change(&self, method: &str, path: &str, body: &str) -> String {
        let answer = self.send("content-type: application/json\r\n", method, path, body).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        answer.body
    }

    /// Submits a DFSP's command.
    pub async fn submit(&self, command: Command) {
        self.handle.submit(command, Payload::default()).await.unwrap();
    }

    pub fn expiry(&self) -> Timestamp {
        self.clock.now().plus_ms(30_000)
    }

    /// A committed transfer.
    pub async fn pay(&self, number: u64, payer: &str, payee: &str, amount: &str) {
        self.submit(prepare(id(number), payer, payee, amount, self.expiry())).await;
        self.submit(fulfil(id(number), payer, payee)).await;
    }

    /// Counts requests of one participant to another by their outcome.
    pub fn observe(&self, asker: u32, asked: u32, answered: u32, failed: u32) {
        let number = |number| ParticipantId::new(number).unwrap();
        let took = Duration::from_millis(20);
        let good = (0..answered).map(|_| ResponseOutcome::Answered(took));
        for outcome in good.chain((0..failed).map(|_| ResponseOutcome::Unanswered)) {
            let (asker, asked, kind) = (Some(number(asker)), number(asked), RequestKind::Transfer);
            self.times.observe(&Response { asker, asked, kind, outcome }, self.clock.now());
        }
    }
}

/// The text of a page: without tags, with its quotation marks, and with single spaces.
pub fn text(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for char in html.chars() {
        match char {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                text.push(' ');
            }
            char if !is_tag => text.push(char),
            _ => {}
        }
    }
    let text = text.replace("&#39;", "'").replace("&#34;", "\"");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that a page contains texts in this order.
pub fn contains(html: &str, texts: &[&str]) {
    let page = text(html);
    let mut rest = &*page;
    for wanted in texts {
        let Some((_, after)) = rest.split_once(wanted) else {
            panic!("{wanted:?} is not in the rest of the page:\n{rest}")
        };
        rest = after;
    }
}

/// The first link of a page that begins with this text.
pub fn link(html: &str, begin: &str) -> String {
    let mut links = html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let found = links.find(|link| link.starts_with(begin));
    found.unwrap_or_else(|| panic!("no link {begin} in {html}")).replace("&#38;", "&")
}

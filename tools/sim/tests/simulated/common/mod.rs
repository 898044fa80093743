//! A world of two simulated DFSPs without a hub.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use upesi_fspiop::Resource;
use upesi_http::{
    Bytes, Full, HeaderValue, Method, Origin, Pool, PoolConfig, Request, StatusCode, Uri, Workers,
};
use upesi_sim::{
    DfspSettings, Direction, OriginateError, Originator, OriginatorOptions, SeenMessage, SimConfig,
    Simulator, TransferOutcome, Upstream,
};
use upesi_types::{Amount, Currency};

/// Maximum time that a test waits for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Two DFSPs that send their messages directly to each other.
pub struct World {
    pub workers: Workers,
    pub simulator: Simulator,
    pub originator: Arc<Originator>,
}

pub fn options() -> OriginatorOptions {
    OriginatorOptions {
        amount: Amount::parse_wire("2.5").unwrap(),
        currency: Currency::parse("XXX").unwrap(),
        expiry: Duration::from_secs(60),
        seed: 1,
        nonce: 1,
        trace: true,
        resends_max: 0,
    }
}

impl World {
    /// Creates a world whose second DFSP has these settings.
    pub fn new(payee: DfspSettings) -> Self {
        Self::with(payee, |_| ())
    }

    /// Creates such a world with further changes to the configuration.
    pub fn with(payee: DfspSettings, change: impl FnOnce(&mut SimConfig)) -> Self {
        let workers = Workers::start(2, "test").unwrap();
        let mut config = SimConfig::new(2, Upstream::Peers);
        config.dfsps[1].1 = payee;
        config.answer_attempts_max = 2;
        change(&mut config);
        let simulator = Simulator::start(config, &workers).unwrap();
        let originator = Arc::new(Originator::new(&simulator, options()));
        Self { workers, simulator, originator }
    }

    /// Sends transfers `numbers` from the first DFSP to the second, and returns the accepted ones.
    pub async fn send(
        &self,
        numbers: std::ops::Range<u64>,
    ) -> Vec<Result<upesi_sim::PendingTransfer, OriginateError>> {
        let mut sent = Vec::new();
        for number in numbers {
            let originator = self.originator.clone();
            let send = self.workers.round_robin().spawn(async move { originator.send(number, 0, 1).await });
            sent.push(send.await.unwrap());
        }
        sent
    }

    /// Sends this many transfers and returns their outcomes.
    pub async fn outcomes(&self, count: u64) -> Vec<TransferOutcome> {
        let mut outcomes = Vec::new();
        for pending in self.send(0..count).await {
            let finished = timeout(PATIENCE, pending.unwrap().finished).await.expect("a callback").unwrap();
            outcomes.push(finished.outcome);
        }
        outcomes
    }

    /// The maximum position of a DFSP, by its own books.
    pub fn high(&self, dfsp: usize) -> i128 {
        self.simulator
            .expected_positions()
            .values()
            .nth(dfsp)
            .unwrap()
            .values()
            .next()
            .map_or(0, |one| one.high)
    }

    /// Waits until `done` holds. Messages may still be in transit when their effects are already visible elsewhere.
    pub async fn until(&self, what: &str, done: impl Fn(&Simulator) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(&self.simulator) {
            assert!(Instant::now() < deadline, "{what} did not happen: {:?}", self.simulator.counters());
            tokio::task::yield_now().await;
        }
    }

    /// Sends a hub's message to a DFSP, at a path that starts with its name.
    pub async fn say(&self, (method, path): (Method, String), body: &str) {
        let address = self.simulator.local_addr();
        let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
        let mut request = Request::new(Full::new(Bytes::from(body.to_owned())));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(path).unwrap();
        add_headers(&mut request);
        let answer = pool.send(request, Instant::now() + PATIENCE).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
    }

    /// Stops everything.
    pub async fn end(self) {
        self.simulator.shutdown(Instant::now() + Duration::from_secs(1)).await;
        tokio::task::spawn_blocking(move || self.workers.shutdown()).await.unwrap();
    }
}

/// Adds the headers that the API requires, as from the first DFSP to the second.
pub fn add_headers<B>(request: &mut Request<B>) {
    let path = request.uri().path().to_owned();
    let family = path.split('/').find(|segment| Resource::parse(segment).is_some()).unwrap_or("transfers");
    let media_type = format!("application/vnd.interoperability.{family}+json;version=1.1");
    let accept = matches!(*request.method(), Method::GET | Method::POST).then_some(("accept", &*media_type));
    let all = [
        ("fspiop-source", "dfsp-1"),
        ("fspiop-destination", "dfsp-2"),
        ("content-type", &media_type),
        ("date", "Tue, 01 Apr 2031 12:00:00 GMT"),
    ];
    for (name, value) in all.into_iter().chain(accept) {
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
}

/// The body of a prepare from the first DFSP to the second.
pub fn prepare_of(id: &str, condition: &str) -> Value {
    json!({"transferId": id, "payerFsp": "dfsp-1", "payeeFsp": "dfsp-2", "condition": condition,
        "amount": {"currency": "XXX", "amount": "2"}, "ilpPacket": "AYIC", "expiration": "2030-01-01T00:00:00.000Z"})
}

pub struct Watched {
    pub workers: Workers,
    pub simulator: Simulator,
    pub pool: Pool,
    pub seen: mpsc::Receiver<SeenMessage>,
}

impl Watched {
    pub fn start(config: SimConfig) -> Self {
        let workers = Workers::start(1, "test").unwrap();
        let (watch, seen) = mpsc::channel(1000);
        let simulator = Simulator::start(SimConfig { watch: Some(watch), ..config }, &workers).unwrap();
        let address = simulator.local_addr();
        let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
        Self { workers, simulator, pool, seen }
    }

    /// Sends a request as the first DFSP to the second, with one more header if one is given.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        header: Option<(&'static str, &str)>,
        body: &Value,
    ) -> (StatusCode, Bytes) {
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(path).unwrap();
        add_headers(&mut request);
        if let Some((name, value)) = header {
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        let answer = self.pool.send(request, Instant::now() + PATIENCE).await.unwrap();
        (answer.status, answer.body)
    }

    /// The next message that a DFSP sent.
    pub async fn sent(&mut self) -> SeenMessage {
        loop {
            let seen = timeout(PATIENCE, self.seen.recv()).await.expect("a message").unwrap();
            if seen.direction == Direction::Sent {
                return seen;
            }
        }
    }

    pub async fn end(self) {
        self.simulator.shutdown(Instant::now() + Duration::from_secs(1)).await;
        tokio::task::spawn_blocking(move || self.workers.shutdown()).await.unwrap();
    }
}

//! Two DFSPs that talk straight to each other, and a client that sends them what it likes and sees what they send.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use upesi_http::{
    Bytes, Full, HeaderValue, Method, Origin, Pool, PoolConfig, Request, StatusCode, Uri, Workers,
};
use upesi_sim::{Direction, SeenMessage, SimConfig, Simulator};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The body of a prepare from the first DFSP to the second.
pub fn prepare_of(id: &str, condition: &str) -> Value {
    json!({"transferId": id, "payerFsp": "dfsp-1", "payeeFsp": "dfsp-2", "condition": condition,
        "amount": {"currency": "XXX", "amount": "2"}, "ilpPacket": "AYIC", "expiration": "2030-01-01T00:00:00.000Z"})
}

pub struct World {
    pub workers: Workers,
    pub simulator: Simulator,
    pub pool: Pool,
    pub seen: mpsc::Receiver<SeenMessage>,
}

impl World {
    pub fn start(config: SimConfig) -> Self {
        let workers = Workers::start(1, "test").unwrap();
        let (watch, seen) = mpsc::channel(1000);
        let simulator = Simulator::start(SimConfig { watch: Some(watch), ..config }, &workers).unwrap();
        let address = simulator.local_addr();
        let pool = Pool::new(Origin::new(&address.ip().to_string(), address.port()), PoolConfig::default());
        Self { workers, simulator, pool, seen }
    }

    /// As the first DFSP to the second, with one header more where one is given.
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
        let parties = [("fspiop-source", "dfsp-1"), ("fspiop-destination", "dfsp-2")];
        for (name, value) in parties.into_iter().chain(header) {
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

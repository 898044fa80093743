//! An outbox, DFSPs that answer by a script, and the delivery between them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};
use upesi_delivery::lanes::{
    Backlog, BacklogError, BacklogFuture, CallbackKey, Courier, CourierConfig, HopTiming, LaneCapacity,
    LaneDispatcher, OwedCallback, Page, ParticipantId, Position, Refusal, Renderer, Repetition,
};
use upesi_delivery::{OutgoingRequest, Unroutable};
use upesi_engine::{DurableRecord, Payload};
use upesi_http::{
    Bytes, Connection, Full, HeaderMap, HeaderValue, Incoming, Limits, Method, Request, Response, Server,
    Service, StatusCode, Target, Workers, body,
};
use upesi_types::Timestamp;

/// A time limit that a passing test never reaches.
pub const AMPLE: Duration = Duration::from_secs(60);

/// Callbacks of records from here on are not repeated.
pub const MOOT_SEQ: u64 = 100_000;

pub const ENDPOINT: &str = "FSPIOP_CALLBACK_URL_TRANSFER_PUT";

/// A record with callbacks about a transfer. The header block contains the transfer's number.
fn record(seq: u64, transfer: u64) -> Arc<DurableRecord> {
    let payload = Payload {
        headers: Bytes::from(transfer.to_string()),
        body: Bytes::from(format!("{transfer}/{seq}")),
    };
    Arc::new(DurableRecord {
        seq,
        time: Timestamp::EPOCH,
        callbacks: Vec::new(),
        payload,
        prepared_before: None,
        asker: None,
    })
}

fn transfer(record: &DurableRecord) -> u64 {
    str::from_utf8(&record.payload.headers).unwrap().parse().unwrap()
}

pub fn participant(number: u32) -> ParticipantId {
    ParticipantId::new(number).unwrap()
}

/// Takes the place of the engine: the outbox with its durable callbacks.
#[derive(Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
    changed: Notify,
    /// Number of reads that fail: every other one.
    pub failures: AtomicUsize,
    reads: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    undelivered: BTreeMap<CallbackKey, Arc<DurableRecord>>,
    delivered: Vec<CallbackKey>,
    parked: Vec<(CallbackKey, String, u32)>,
    page_items_max: usize,
    /// Participants whose pages were requested.
    pages: Vec<ParticipantId>,
}

fn callback(key: CallbackKey, record: &Arc<DurableRecord>) -> OwedCallback {
    let bytes = record.payload.body.len();
    OwedCallback { key, order: transfer(record), bytes, awaits_answer: false, record: record.clone() }
}

impl Outbox {
    fn read(&self) -> Result<MutexGuard<'_, Inner>, BacklogError> {
        let fails = |left: usize| left.checked_sub(1);
        if self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
            && self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok()
        {
            return Err(BacklogError { reason: "the disk is busy".to_owned() });
        }
        Ok(self.inner.lock().unwrap())
    }

    pub fn add(&self, target: ParticipantId, seq: u64, transfer: u64) -> OwedCallback {
        let key = CallbackKey { target, seq, index: 0 };
        let record = record(seq, transfer);
        self.inner.lock().unwrap().undelivered.insert(key, record.clone());
        callback(key, &record)
    }

    pub fn delivered(&self) -> Vec<CallbackKey> {
        self.inner.lock().unwrap().delivered.clone()
    }

    pub fn parked(&self) -> Vec<(CallbackKey, String, u32)> {
        self.inner.lock().unwrap().parked.clone()
    }

    /// Size of the largest returned page.
    pub fn page_items_max(&self) -> usize {
        self.inner.lock().unwrap().page_items_max
    }

    /// Number of page requests, including failed ones.
    pub fn pages(&self, target: ParticipantId) -> usize {
        self.inner.lock().unwrap().pages.iter().filter(|of| **of == target).count()
    }

    /// Makes all parked callbacks undelivered again, as the ledger does before it informs the delivery.
    pub fn unpark(&self) -> Vec<CallbackKey> {
        self.inner.lock().unwrap().parked.drain(..).map(|(key, _, _)| key).collect()
    }

    pub async fn until_delivered(&self, count: usize) {
        self.until(|inner| inner.delivered.len() >= count).await;
    }

    pub async fn until_parked(&self, count: usize) {
        self.until(|inner| inner.parked.len() >= count).await;
    }

    async fn until(&self, holds: impl Fn(&Inner) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if holds(&self.inner.lock().unwrap()) {
                    return;
                }
                changed.await;
            }
        };
        timeout(AMPLE, wait).await.expect("it never came to that");
    }
}

impl Backlog for Outbox {
    fn pending(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: LaneCapacity,
    ) -> BacklogFuture<'_, Page> {
        Box::pin(async move {
            self.inner.lock().unwrap().pages.push(target);
            let mut inner = self.read()?;
            let pending = inner.undelivered.iter().filter(|(key, _)| {
                key.target == target
                    && after.is_none_or(|after| (key.seq, key.index) > after)
                    && !inner.parked.iter().any(|(parked, _, _)| parked == *key)
            });
            let mut items: Vec<_> =
                pending.take(room.items + 1).map(|(key, record)| callback(*key, record)).collect();
            let more = items.len() > room.items;
            items.truncate(room.items);
            inner.page_items_max = inner.page_items_max.max(items.len());
            let more_after = items.last().filter(|_| more).map(OwedCallback::position);
            Ok(Page { items, more_after })
        })
    }

    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>> {
        Box::pin(async move {
            let inner = self.read()?;
            let pending = inner.undelivered.keys().filter(|key| {
                key.target == target
                    && after.is_none_or(|after| (key.seq, key.index) > after)
                    && !inner.parked.iter().any(|(parked, _, _)| parked == *key)
            });
            Ok(pending.take(limit).copied().collect())
        })
    }

    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<OwedCallback>> {
        Box::pin(async move {
            let inner = self.read()?;
            let find = |key| inner.undelivered.get(&key).map(|record| callback(key, record));
            Ok(keys.into_iter().filter_map(find).collect())
        })
    }

    fn delivered(&self, keys: Vec<CallbackKey>) {
        let mut inner = self.inner.lock().unwrap();
        for key in keys {
            assert!(inner.undelivered.remove(&key).is_some(), "{key:?} is reported twice");
            inner.delivered.push(key);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    fn parked(&self, key: CallbackKey, reason: String, attempts: u32) {
        self.inner.lock().unwrap().parked.push((key, reason, attempts));
        self.changed.notify_waiters();
    }
}

/// Endpoints by participant.
#[derive(Default)]
pub struct Endpoints(Mutex<HashMap<ParticipantId, String>>);

impl Endpoints {
    pub fn set(&self, target: ParticipantId, address: SocketAddr) {
        self.set_url(target, format!("http://{address}/callbacks"));
    }

    pub fn url(&self, target: ParticipantId) -> Option<String> {
        self.0.lock().unwrap().get(&target).cloned()
    }

    pub fn set_url(&self, target: ParticipantId, url: String) {
        self.0.lock().unwrap().insert(target, url);
    }
}

impl Renderer for Endpoints {
    fn render(&self, key: CallbackKey, record: &DurableRecord) -> Result<OutgoingRequest, Unroutable> {
        let url = self.url(key.target).ok_or(Unroutable::NoEndpoint { endpoint_type: ENDPOINT })?;
        let target = Target::parse(&format!("{url}/{}", transfer(record))).map_err(|error| {
            Unroutable::BadEndpoint { endpoint_type: ENDPOINT, reason: error.to_string() }
        })?;
        let mut headers = HeaderMap::new();
        headers.insert("x-seq", HeaderValue::from(key.seq));
        Ok(OutgoingRequest {
            target,
            method: Method::PUT,
            headers,
            body: record.payload.body.clone(),
            is_hub_made: false,
            sender: None,
        })
    }

    fn name(&self, target: ParticipantId) -> String {
        target.number().to_string()
    }

    fn refusal(&self, status: StatusCode, _body: &[u8]) -> Refusal {
        let (reason, repetition) = (format!("answered {status}"), Repetition::UntilDeadline);
        Refusal { reason, repetition, retry_after: None }
    }

    fn is_moot(&self, key: CallbackKey, _record: &DurableRecord) -> Option<String> {
        (key.seq >= MOOT_SEQ).then(|| "too late".to_owned())
    }

    /// Of three consecutive callbacks, one brings a prepare, one a fulfil, and one is the hub's own.
    fn hop_timing(&self, key: CallbackKey, _record: &DurableRecord) -> Option<HopTiming> {
        match key.seq % 3 {
            1 => Some(HopTiming::Prepare(Duration::from_millis(2))),
            2 => {
                // For the second fulfil, the time of its transfer's prepare is not known.
                let in_all = (key.seq < 6).then_some(Duration::from_millis(43));
                Some(HopTiming::Fulfil { took: Duration::from_millis(3), in_all })
            }
            _ => None,
        }
    }
}

/// A message that a DFSP received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub seq: u64,
    pub body: Bytes,
    pub status: u16,
}

type Script = Box<dyn Fn(u64, usize) -> u16 + Send + Sync>;

/// A DFSP. It answers by journal sequence and by the number of earlier attempts, and holds requests while a test says
/// so.
pub struct Dfsp {
    script: Script,
    pub received: Mutex<Vec<Received>>,
    /// Requests that are being answered.
    pub present: AtomicUsize,
    pub present_max: AtomicUsize,
    pub gate: Semaphore,
    pub at_gate: Semaphore,
}

impl Dfsp {
    fn new(gate: usize, script: Script) -> Arc<Self> {
        Arc::new(Self {
            script,
            received: Mutex::default(),
            present: AtomicUsize::new(0),
            present_max: AtomicUsize::new(0),
            gate: Semaphore::new(gate),
            at_gate: Semaphore::new(0),
        })
    }

    pub fn open() -> usize {
        Semaphore::MAX_PERMITS / 2
    }

    pub async fn until_at_gate(&self, count: u32) {
        timeout(AMPLE, self.at_gate.acquire_many(count)).await.expect("they never came").unwrap().forget();
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Service for Dfsp {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let present = self.present.fetch_add(1, Ordering::Relaxed) + 1;
        self.present_max.fetch_max(present, Ordering::Relaxed);
        let (head, body) = request.into_parts();
        let body = body::read(body, 10_000, Instant::now() + AMPLE).await.unwrap();
        // The task yields, so that the DFSP sees concurrent requests as concurrent.
        tokio::task::yield_now().await;
        self.at_gate.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
        let seq: u64 = head.headers["x-seq"].to_str().unwrap().parse().unwrap();
        let status = {
            let mut received = self.received.lock().unwrap();
            let before = received.iter().filter(|received| received.seq == seq).count();
            let status = (self.script)(seq, before);
            let path = head.uri.path().to_owned();
            received.push(Received { method: head.method, path, seq, body, status });
            status
        };
        self.present.fetch_sub(1, Ordering::Relaxed);
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }
}

pub struct World {
    pub outbox: Arc<Outbox>,
    pub endpoints: Arc<Endpoints>,
    pub courier: Courier,
    pub outlet: LaneDispatcher,
    /// Workers of the DFSPs. The delivery has its own.
    workers: Workers,
    _courier_workers: Workers,
}

/// Delays are short enough for tests.
pub fn config() -> CourierConfig {
    CourierConfig {
        backoff_min: Duration::from_millis(2),
        backoff_max: Duration::from_millis(10),
        breaker_pause_min: Duration::from_millis(5),
        breaker_pause_max: Duration::from_millis(20),
        backlog_retry_wait: Duration::from_millis(2),
        report_interval: Duration::from_millis(1),
        ..CourierConfig::default()
    }
}

impl World {
    pub fn start(config: CourierConfig) -> Self {
        let (outbox, endpoints) = (Arc::new(Outbox::default()), Arc::new(Endpoints::default()));
        let courier_workers = Workers::start(1, "courier").unwrap();
        let courier = Courier::start(&courier_workers, config, outbox.clone(), endpoints.clone()).unwrap();
        let outlet = courier.outlet();
        let workers = Workers::start(1, "dfsp").unwrap();
        Self { outbox, endpoints, courier, outlet, workers, _courier_workers: courier_workers }
    }

    /// A DFSP as the endpoint of a participant. It answers `gate` requests.
    pub fn dfsp(
        &self,
        target: ParticipantId,
        gate: usize,
        script: impl Fn(u64, usize) -> u16 + Send + Sync + 'static,
    ) -> Arc<Dfsp> {
        let dfsp = Dfsp::new(gate, Box::new(script));
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        self.endpoints.set(target, bound.local_addr());
        Server::serve(bound, Limits::default(), &self.workers, dfsp.clone());
        dfsp
    }

    /// Waits until the lane takes new callbacks live.
    pub async fn until_level(&self, target: ParticipantId) {
        let level = async {
            while self.courier.lane(target).is_none_or(|lane| lane.catching_up) {
                tokio::task::yield_now().await;
            }
        };
        timeout(AMPLE, level).await.expect("the lane never became level");
    }

    /// Callbacks about these transfers become durable from `first_seq` on, and are offered as one batch.
    pub fn notify(&mut self, target: ParticipantId, first_seq: u64, transfers: &[u64]) {
        for (seq, transfer) in (first_seq..).zip(transfers) {
            self.outlet.offer(self.outbox.add(target, seq, *transfer));
        }
        self.outlet.flush();
    }
}

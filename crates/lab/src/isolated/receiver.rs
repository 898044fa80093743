//! Receivers of callbacks that take everything at once, or after a while, and remember nothing but when it came.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_http::{
    Bytes, Full, Incoming, Limits, Request, Response, Server, Service, StatusCode, Workers, body,
};

use super::IsolatedError;
use super::measurement::{nanosecond_histogram, record};

/// Header in which a measured callback carries its number.
pub(super) const NUMBER_HEADER: &str = "x-lab-number";
/// Name of the receivers' threads.
pub(super) const RECEIVER: &str = "lab-receive";
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Receivers on a port of their own.
pub(super) struct Receivers {
    service: Arc<Sink>,
    server: Server,
    workers: Workers,
}

struct Sink {
    delay: Duration,
    epoch: Instant,
    /// When each callback was handed over, in nanoseconds since the epoch; empty where nobody asks.
    sent_ns: Vec<AtomicU64>,
    arrived: AtomicU64,
    latency_ns: Mutex<Histogram<u64>>,
}

impl Receivers {
    /// Starts them on any free port of loopback. `numbered` callbacks can be timed.
    pub fn start(threads: usize, delay: Duration, numbered: usize) -> Result<Self, IsolatedError> {
        let workers = Workers::start(threads, RECEIVER)?;
        let bound = Server::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
        let service = Arc::new(Sink {
            delay,
            epoch: Instant::now(),
            sent_ns: (0..numbered).map(|_| AtomicU64::new(0)).collect(),
            arrived: AtomicU64::new(0),
            latency_ns: Mutex::new(nanosecond_histogram()),
        });
        let server = Server::serve(bound, Limits::default(), &workers, Arc::clone(&service));
        Ok(Self { service, server, workers })
    }

    /// Their base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.local_addr())
    }

    /// Notes that a callback has been handed over.
    pub fn sent(&self, number: usize) {
        if let Some(sent) = self.service.sent_ns.get(number) {
            sent.store(self.service.now_ns(), Ordering::Release);
        }
    }

    /// Requests that came so far.
    pub fn arrived(&self) -> u64 {
        self.service.arrived.load(Ordering::Acquire)
    }

    /// The latencies noted since this was last called: from being handed over to having arrived whole.
    pub fn take_latency(&self) -> Histogram<u64> {
        let mut latency_ns = self.service.latency_ns.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut latency_ns, nanosecond_histogram())
    }

    pub fn stop(self) {
        self.workers.shutdown();
    }
}

impl Sink {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn note(&self, number: Option<usize>) {
        let sent = number.and_then(|number| self.sent_ns.get(number));
        let sent_ns = sent.map_or(0, |sent| sent.load(Ordering::Acquire));
        if sent_ns > 0 {
            let latency = Duration::from_nanos(self.now_ns().saturating_sub(sent_ns));
            record(&mut self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner), latency);
        }
    }
}

impl Service for Sink {
    async fn call(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let number = request.headers().get(NUMBER_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        let deadline = tokio::time::Instant::now() + BODY_TIMEOUT;
        let mut response = Response::new(Full::default());
        if body::read(request.into_body(), BODY_BYTES_MAX, deadline).await.is_err() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
        self.note(number);
        self.arrived.fetch_add(1, Ordering::AcqRel);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        response
    }
}

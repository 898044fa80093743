//! Receivers of callbacks that take everything at once, or after a while, and remember nothing but when it came.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use upesi_http::{
    Bytes, Connection, Full, Incoming, Limits, Request, Response, Server, Service, StatusCode, Workers, body,
};

use super::IsolatedError;
use super::stopwatch::Stopwatch;

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
    watch: Arc<Stopwatch>,
    arrived: AtomicU64,
}

impl Receivers {
    /// Starts them on any free port of loopback. The watch stops for a numbered callback when it has arrived whole.
    pub fn start(threads: usize, delay: Duration, watch: Arc<Stopwatch>) -> Result<Self, IsolatedError> {
        let workers = Workers::start(threads, RECEIVER)?;
        let bound = Server::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
        let service = Arc::new(Sink { delay, watch, arrived: AtomicU64::new(0) });
        let server = Server::serve(bound, Limits::default(), &workers, Arc::clone(&service));
        Ok(Self { service, server, workers })
    }

    /// Their base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.local_addr())
    }

    /// Requests that came so far.
    pub fn arrived(&self) -> u64 {
        self.service.arrived.load(Ordering::Acquire)
    }

    pub fn stop(self) {
        self.workers.shutdown();
    }
}

impl Service for Sink {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let number = request.headers().get(NUMBER_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        let deadline = tokio::time::Instant::now() + BODY_TIMEOUT;
        let mut response = Response::new(Full::default());
        if body::read(request.into_body(), BODY_BYTES_MAX, deadline).await.is_err() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
        if let Some(number) = number {
            self.watch.end(number);
        }
        self.arrived.fetch_add(1, Ordering::AcqRel);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        response
    }
}

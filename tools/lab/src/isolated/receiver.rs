//! Receivers of callbacks. They accept everything at once, or after a delay, and record only the time of arrival.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_http::{
    Bytes, Connection, Full, Incoming, Limits, Request, Response, Server, Service, StatusCode, Workers, body,
};
use upesi_sim::{DfspSettings, SimConfig, Simulator, Upstream};
use upesi_types::FspId;

use super::IsolatedError;
use super::measurement::Times;
use super::stream::StreamError;

/// Header with the number of a measured callback.
pub(super) const NUMBER_HEADER: &str = "x-lab-number";
pub(super) const RECEIVER: &str = "lab-receive";
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A receiver of callbacks.
pub(super) trait CallbackReceiver {
    /// Base URL. For a DFSP, its name is appended.
    fn url(&self) -> String;

    /// Number of callbacks so far, each counted once.
    fn arrived(&self) -> u64;

    /// Waits until the effects of the callbacks have ended, so that they do not affect the next repetition.
    fn settle(&self, _patience: Duration) -> Result<(), IsolatedError> {
        Ok(())
    }

    /// A failure of the receivers, if there is one.
    fn finding(&self) -> Option<String> {
        None
    }

    fn stop(&self);
}

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
    /// Starts receivers on any free loopback port. The watch of a numbered callback stops when it has arrived
    /// completely.
    pub fn start(threads: usize, delay: Duration, watch: Arc<Stopwatch>) -> Result<Self, IsolatedError> {
        let workers = Workers::start(threads, RECEIVER)?;
        let bound = Server::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
        let service = Arc::new(Sink { delay, watch, arrived: AtomicU64::new(0) });
        let server = Server::serve(bound, Limits::default(), &workers, Arc::clone(&service));
        Ok(Self { service, server, workers })
    }
}

impl CallbackReceiver for Receivers {
    fn url(&self) -> String {
        format!("http://{}", self.server.local_addr())
    }

    fn arrived(&self) -> u64 {
        self.service.arrived.load(Ordering::Acquire)
    }

    fn stop(&self) {
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

/// Start times and durations of a fixed number of items. Items with other numbers are not timed.
pub(super) struct Stopwatch {
    epoch: Instant,
    /// Start of each item in nanoseconds since the epoch; 0 if it has not started.
    begun_ns: Vec<AtomicU64>,
    taken: Times,
}

impl Stopwatch {
    pub fn new(numbers: usize) -> Self {
        Self {
            epoch: Instant::now(),
            begun_ns: (0..numbers).map(|_| AtomicU64::new(0)).collect(),
            taken: Times::of(1),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Records the start of an item.
    pub fn begin(&self, number: usize) {
        if let Some(begun) = self.begun_ns.get(number) {
            begun.store(self.now_ns(), Ordering::Release);
        }
    }

    /// Records the end of an item.
    pub fn end(&self, number: usize) {
        let begun_ns = self.begun_ns.get(number).map_or(0, |begun| begun.load(Ordering::Acquire));
        if begun_ns > 0 {
            self.taken.note(0, Duration::from_nanos(self.now_ns().saturating_sub(begun_ns)));
        }
    }

    /// The times noted since the last call.
    pub fn take(&self) -> Histogram<u64> {
        self.taken.take()
    }
}

pub(super) const DFSPS: &str = "lab-dfsps";
/// Every message, in per mille.
const EVERY: u16 = 1_000;
const POLL: Duration = Duration::from_millis(1);

/// Running DFSPs, and the hub that receives their answers.
pub(super) struct SimulatedDfsps {
    simulator: Simulator,
    workers: Workers,
    hub: Receivers,
}

impl SimulatedDfsps {
    /// Starts the DFSPs of a stream on any free loopback port. They take `delay` to answer a callback.
    pub fn start(
        names: &[String],
        threads: usize,
        delay: Duration,
        seed: u64,
    ) -> Result<Self, IsolatedError> {
        let is_slow = !delay.is_zero();
        let settings = DfspSettings {
            slow_read_per_mille: if is_slow { EVERY } else { 0 },
            slow_read_ms: u32::try_from(delay.as_millis()).unwrap_or(u32::MAX),
            ..DfspSettings::default()
        };
        let dfsp = |name: &String| match FspId::parse(name) {
            Some(name) => Ok((name, settings)),
            None => Err(StreamError::Message {
                index: 0,
                reason: format!("{name} is not a valid name of a DFSP"),
            }),
        };
        let dfsps = names.iter().map(dfsp).collect::<Result<Vec<_>, StreamError>>()?;
        let hub = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let workers = Workers::start(threads, DFSPS)?;
        let config = SimConfig { dfsps, seed, ..SimConfig::new(0, Upstream::Hub(hub.url())) };
        let simulator = Simulator::start(config, &workers)?;
        Ok(Self { simulator, workers, hub })
    }
}

impl CallbackReceiver for SimulatedDfsps {
    fn url(&self) -> String {
        format!("http://{}", self.simulator.local_addr())
    }

    fn arrived(&self) -> u64 {
        self.simulator.counters().prepares_received
    }

    /// Waits until every received transfer has been answered.
    fn settle(&self, patience: Duration) -> Result<(), IsolatedError> {
        let started = Instant::now();
        while self.hub.arrived() < self.arrived() {
            if started.elapsed() > patience {
                return Err(IsolatedError::Stuck {
                    what: "fulfilment by the simulated DFSPs",
                    seconds: patience.as_secs(),
                });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn finding(&self) -> Option<String> {
        let counters = self.simulator.counters();
        let unanswered = counters.fulfilments_refused + counters.fulfilments_unanswered;
        let bad = [
            (counters.unreadable, "callbacks that they could not read"),
            (counters.prepares_repeated, "transfers that were received twice"),
            (unanswered, "fulfilments that the hub did not accept"),
        ];
        let told: Vec<String> = bad
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!told.is_empty()).then(|| format!("the simulated DFSPs counted {}", told.join(", ")))
    }

    fn stop(&self) {
        self.workers.shutdown();
        self.hub.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopwatch_times_only_items_that_started_and_ended() {
        let watch = Stopwatch::new(2);
        watch.begin(0);
        watch.begin(7);
        [0, 1, 7].into_iter().for_each(|number| watch.end(number));
        let times = watch.take();
        assert_eq!(times.len(), 1, "1 never began, and there is no 7");
        assert!(times.min() > 0);
        assert_eq!(watch.take().len(), 0);
    }
}

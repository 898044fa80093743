//! Simulated DFSPs as receivers of callbacks: they read each transfer, look its condition up, answer 202, and send the
//! fulfilment to what stands for the hub, which takes it and does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_http::Workers;
use upesi_sim::{DfspSettings, SimConfig, Simulator, Upstream};
use upesi_types::FspId;

use super::IsolatedError;
use super::receiver::Receivers;
use super::stopwatch::Stopwatch;
use super::stream::StreamError;

/// Name of the threads of the DFSPs.
pub(super) const DFSPS: &str = "lab-dfsps";
/// Every message, in per mille.
const EVERY: u16 = 1_000;
const POLL: Duration = Duration::from_millis(1);

/// Running DFSPs, and the hub that they answer to.
pub(super) struct SimulatedDfsps {
    simulator: Simulator,
    workers: Workers,
    hub: Receivers,
}

impl SimulatedDfsps {
    /// Starts the DFSPs of a stream on any free port of loopback. They take `delay` to answer a callback.
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
            None => Err(StreamError::Message { index: 0, reason: format!("{name} is no name of a DFSP") }),
        };
        let dfsps = names.iter().map(dfsp).collect::<Result<Vec<_>, StreamError>>()?;
        let hub = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let workers = Workers::start(threads, DFSPS)?;
        let config = SimConfig { dfsps, seed, ..SimConfig::new(0, Upstream::Hub(hub.url())) };
        let simulator = Simulator::start(config, &workers)?;
        Ok(Self { simulator, workers, hub })
    }

    /// Their base URL; that of one DFSP has its name behind it.
    pub fn url(&self) -> String {
        format!("http://{}", self.simulator.local_addr())
    }

    /// Transfers that came so far, each counted once.
    pub fn arrived(&self) -> u64 {
        self.simulator.counters().prepares_received
    }

    /// Waits until every transfer that came has been answered, so that the answers do not fall into the next
    /// repetition.
    pub fn settle(&self, patience: Duration) -> Result<(), IsolatedError> {
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

    /// What they could not do, if anything.
    pub fn finding(&self) -> Option<String> {
        let counters = self.simulator.counters();
        let unanswered = counters.fulfilments_refused + counters.fulfilments_unanswered;
        let bad = [
            (counters.unreadable, "callbacks that they could not read"),
            (counters.prepares_repeated, "transfers that came twice"),
            (unanswered, "fulfilments that nobody took"),
        ];
        let told: Vec<String> = bad
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!told.is_empty()).then(|| format!("the simulated DFSPs counted {}", told.join(", ")))
    }

    pub fn stop(self) {
        self.workers.shutdown();
        self.hub.stop();
    }
}

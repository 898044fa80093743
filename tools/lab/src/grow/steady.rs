//! A steady load on a hub during other work, and the effect of that work on the hub's DFSPs.
#![expect(clippy::float_arithmetic, reason = "rates of a measurement; no money")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use upesi_http::Workers;
use upesi_process::exit::Failure;
use upesi_sim::{
    Originator, OriginatorOptions, PendingTransfer, SimConfig, Simulator, TransferOutcome, Upstream,
};
use upesi_types::{Amount, Currency};

use crate::AdminClient;
use crate::drive::onboard::onboard;
use crate::failures::{software, unavailable};
use crate::statistics::{part, quantiles};

/// Maximum number of unfinished transfers. Above it, transfers are not sent and count as not served.
const OPEN_MAX: u64 = 50_000;
/// Longer than any step of the clock during the load.
const EXPIRY: Duration = Duration::from_secs(10 * 86_400);
/// Maximum time to wait for unfinished transfers after the end of the load.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_STEP: Duration = Duration::from_millis(20);
const CONNECTIONS: usize = 128;

/// The load that was served during one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServedPart {
    pub meanwhile: &'static str,
    pub seconds: f64,
    /// Number of transfers that were due.
    pub offered: u64,
    pub committed: u64,
    pub committed_per_s: f64,
    /// Median latency from the due time, in milliseconds.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

#[derive(Debug)]
struct LoadPart {
    meanwhile: &'static str,
    begun: Instant,
    offered: u64,
    latencies_us: Vec<u64>,
}

/// Load that continues until it is finished.
pub(super) struct SteadyLoad {
    shared: Arc<LoadState>,
    pacer: Option<JoinHandle<()>>,
    workers: Arc<Workers>,
    /// The DFSPs serve until this is dropped.
    _simulator: Simulator,
}

struct LoadState {
    originator: Originator,
    dfsps: usize,
    parts: Mutex<Vec<LoadPart>>,
    open: AtomicU64,
    is_ending: AtomicBool,
}

impl SteadyLoad {
    /// Onboards the DFSPs and starts to send this many transfers per second.
    pub(super) async fn start(
        fspiop_url: &str,
        admin_url: &str,
        dfsps: usize,
        rate_per_s: u32,
        nonce: u64,
    ) -> Result<Self, Failure> {
        let workers = Arc::new(Workers::start(1, "steady").map_err(unavailable)?);
        let currency =
            Currency::parse("XXX").ok_or_else(|| software("XXX is not in the list of currencies"))?;
        let upstream = Upstream::Hub(fspiop_url.to_owned());
        let config = SimConfig { connections_max: CONNECTIONS, ..SimConfig::new(dfsps, upstream) };
        let simulator = Simulator::start(config, &workers).map_err(unavailable)?;
        let admin = AdminClient::new(admin_url).map_err(unavailable)?;
        onboard(&admin, &simulator, currency, nonce).await.map_err(unavailable)?;
        let options = OriginatorOptions {
            amount: Amount::parse_wire("2").unwrap_or_default(),
            currency,
            expiry: EXPIRY,
            seed: nonce,
            nonce,
            trace: true,
            resends_max: 0,
        };
        let shared = Arc::new(LoadState {
            originator: Originator::new(&simulator, options),
            dfsps,
            parts: Mutex::default(),
            open: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        let pause = Duration::from_secs(1) / rate_per_s.max(1);
        let (pacing, on) = (Arc::clone(&shared), Arc::clone(&workers));
        // A separate thread, because a runtime's timers have a resolution of milliseconds.
        let pacer = std::thread::spawn(move || pacing.pace(&on, pause));
        Ok(Self { shared, pacer: Some(pacer), workers, _simulator: simulator })
    }

    /// Assigns transfers from now on to this part.
    pub(super) fn begin(&self, meanwhile: &'static str) {
        let part = LoadPart { meanwhile, begun: Instant::now(), offered: 0, latencies_us: Vec::new() };
        self.shared.parts().push(part);
    }

    /// Stops sending, waits for open transfers, and returns the result of each part.
    pub(super) fn finish(mut self) -> Vec<ServedPart> {
        let ended = Instant::now();
        self.stop();
        let deadline = Instant::now() + PATIENCE;
        while self.shared.open.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(PATIENCE_STEP);
        }
        let parts = self.shared.parts();
        let ends: Vec<Instant> = parts.iter().skip(1).map(|part| part.begun).chain([ended]).collect();
        parts.iter().zip(ends).map(|(part, end)| part.served(end)).collect()
    }

    fn stop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        if let Some(pacer) = self.pacer.take() {
            // A panic there was printed. Its missing transfers show in the counts.
            let _ = pacer.join();
        }
    }
}

impl Drop for SteadyLoad {
    fn drop(&mut self) {
        self.stop();
        self.workers.shutdown();
    }
}

impl LoadState {
    fn parts(&self) -> MutexGuard<'_, Vec<LoadPart>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(self: Arc<Self>, workers: &Workers, pause: Duration) {
        let begun = Instant::now();
        for number in 0_u32.. {
            let intended = begun + pause * number;
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
            if self.is_ending.load(Ordering::Acquire) {
                return;
            }
            self.with_part(intended, |part| part.offered += 1);
            if self.open.fetch_add(1, Ordering::AcqRel) >= OPEN_MAX {
                self.open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let shared = Arc::clone(&self);
            drop(
                workers
                    .round_robin()
                    .spawn(async move { shared.transfer(u64::from(number), intended).await }),
            );
        }
    }

    async fn transfer(&self, number: u64, intended: Instant) {
        let payer = (number % self.dfsps as u64) as usize;
        let payee = (payer + 1) % self.dfsps;
        if let Ok(PendingTransfer { finished, .. }) = self.originator.send(number, payer, payee).await
            && let Ok(finished) = finished.await
            && finished.outcome == TransferOutcome::Committed
        {
            let us = finished.at.saturating_duration_since(intended).as_micros();
            let us = u64::try_from(us).unwrap_or(u64::MAX);
            self.with_part(intended, |part| part.latencies_us.push(us));
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Calls `note` with the part that contains a transfer's due time. Does nothing before the first part.
    fn with_part(&self, intended: Instant, note: impl FnOnce(&mut LoadPart)) {
        if let Some(part) = self.parts().iter_mut().rev().find(|part| part.begun <= intended) {
            note(part);
        }
    }
}

impl LoadPart {
    fn served(&self, end: Instant) -> ServedPart {
        let ms = self.latencies_us.iter().map(|us| *us as f64 / 1e3);
        let [p50_ms, p99_ms, max_ms] = quantiles(ms, [50, 99, 100]);
        let seconds = end.saturating_duration_since(self.begun).as_secs_f64();
        let committed = self.latencies_us.len() as u64;
        ServedPart {
            meanwhile: self.meanwhile,
            seconds,
            offered: self.offered,
            committed,
            committed_per_s: part(committed as f64, seconds),
            p50_ms,
            p99_ms,
            max_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_counts_transfers_by_their_due_time() {
        let begun = Instant::now();
        let latencies_us = (1..=200).rev().map(|ms| ms * 1_000).collect();
        let part = LoadPart { meanwhile: "backup", begun, offered: 210, latencies_us };
        let served = part.served(begun + Duration::from_secs(4));
        assert_eq!((served.offered, served.committed), (210, 200));
        assert_eq!((served.committed_per_s, served.p50_ms, served.p99_ms), (50.0, 100.0, 198.0));
        assert_eq!((served.seconds, served.max_ms), (4.0, 200.0));
        let nothing = LoadPart { meanwhile: "", begun, offered: 0, latencies_us: Vec::new() };
        assert_eq!(nothing.served(begun), ServedPart::default());
    }
}

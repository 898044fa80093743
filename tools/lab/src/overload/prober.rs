//! Probers: connections that send requests about a transfer all the time, to measure the time until a rejection.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use upesi_http::{Bytes, Full, Origin, Pool, PoolConfig, Request, Target};
use upesi_process::exit::Failure;

use crate::failures::{runtime, unavailable};

/// Number of probers, each with its own connection.
const PROBERS: usize = 4;
/// Minimum pause of a prober. All probers together send about a hundredth of the peak, so that their load does not
/// matter.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of probes that one prober keeps: hours of them.
const PROBES_MAX: usize = 1_000_000;
const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) status: u16,
    /// Time until the last byte of the response, including the time for opening a connection.
    pub(super) duration: Duration,
}

pub(super) struct Prober {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Probe>>,
}

impl Prober {
    /// Starts to send requests in the name of a DFSP. Their body is not valid: the hub answers an accepted one with
    /// 400, and it has no effect.
    pub(super) fn start(url: &str, dfsp: &str, peak_per_s: u32) -> Result<Self, Failure> {
        let pause = Duration::from_secs(100 * PROBERS as u64) / peak_per_s.max(1);
        let pause = pause.max(PAUSE_MIN);
        let origin = Target::parse(url).map_err(unavailable)?.origin;
        let request = Request::post("/transfers")
            .header("content-type", MEDIA)
            .header("accept", MEDIA)
            .header("date", "Tue, 01 Apr 2031 12:00:00 GMT")
            .header("fspiop-source", dfsp)
            .body(Full::new(Bytes::from_static(b"{}")))
            .map_err(unavailable)?;
        let (runtime, stop) = (runtime()?, Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        // A separate thread, because the load's threads are busy.
        let thread = thread::Builder::new().name("prober".to_owned()).spawn(move || {
            let ask = |_| ask(origin.clone(), request.clone(), pause, Arc::clone(&is_over));
            let all = async { (0..PROBERS).map(ask).collect::<JoinSet<_>>().join_all().await };
            runtime.block_on(all).concat()
        });
        Ok(Self { stop, thread: thread.map_err(unavailable)? })
    }

    /// Ends the probers and returns all probes.
    pub(super) fn finish(self) -> Vec<Probe> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Sends requests until the end.
async fn ask(
    origin: Origin,
    request: Request<Full<Bytes>>,
    pause: Duration,
    is_over: Arc<AtomicBool>,
) -> Vec<Probe> {
    let pool = Pool::new(origin, PoolConfig { connections_max: 1, ..PoolConfig::default() });
    let mut probes = Vec::new();
    while !is_over.load(Ordering::Relaxed) && probes.len() < PROBES_MAX {
        let asked = Instant::now();
        // A failed connection is opened again.
        if let Ok(answer) = pool.send(request.clone(), asked + ANSWER_TIMEOUT).await {
            probes.push(Probe { status: answer.status.as_u16(), duration: asked.elapsed() });
        }
        tokio::time::sleep(pause).await;
    }
    probes
}

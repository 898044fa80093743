//! Connections that send one request after the other to a separate hub, and the cost of these requests.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use upesi_http::{Bytes, Full, Pool, PoolConfig, Request, ResponseBody, StatusCode, Target, Workers};

use super::measurement::{Measurement, ThreadTimes, Times};
use super::{Context, IsolatedError, hub_binary};
use crate::drive::child::HubProcess;
use crate::observe::process::WatchedProcess;
use crate::result::schema::ProcessRow;
use crate::statistics::{cores_used, rounded, us_per_event};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const SENDER: &str = "lab-send";

/// The subject of the measurement.
pub(super) const HUB: &str = "a hub process on this machine";

/// The target of requests to a base URL.
pub(super) fn target_of(url: &str) -> Result<Target, IsolatedError> {
    Target::parse(url)
        .map_err(|error| IsolatedError::Refused { what: "the hub's address", reason: error.to_string() })
}

/// Starts a hub on a directory, and runs a measurement with sending threads. Ends both.
pub(super) fn beside_hub(
    context: &Context,
    data: &Path,
    arguments: Vec<String>,
    threads: usize,
    work: impl FnOnce(&HubProcess, &Runtime, &Arc<Workers>) -> Result<Measurement, IsolatedError>,
) -> Result<Measurement, IsolatedError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(IsolatedError::thread)?;
    let arguments = [context.hub_arguments.clone(), arguments].concat();
    let log = context.surroundings.out.as_ref().map(|out| out.join("hub.log"));
    let binary = hub_binary()?;
    let mut hub = runtime.block_on(HubProcess::start(&binary, data, &arguments, log.as_deref()))?;
    let workers = Arc::new(Workers::start(threads, SENDER)?);
    let measured = work(&hub, &runtime, &workers);
    workers.shutdown();
    hub.end();
    measured
}

type MakeRequest = dyn Fn(usize) -> Result<Request<Full<Bytes>>, String> + Send + Sync;

pub(super) struct Senders {
    make: Box<MakeRequest>,
    success: StatusCode,
    pools: Vec<Pool>,
    workers: Arc<Workers>,
    connections: usize,
    next: AtomicUsize,
    latency: Times,
    failed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Senders {
    pub fn new(
        target: &Target,
        workers: &Arc<Workers>,
        connections: usize,
        success: StatusCode,
        make: impl Fn(usize) -> Result<Request<Full<Bytes>>, String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let config = PoolConfig {
            connections_max: connections.div_ceil(workers.iter().count()),
            response_body: ResponseBody::Discard,
            ..PoolConfig::default()
        };
        Arc::new(Self {
            make: Box::new(make),
            success,
            pools: workers.iter().map(|_| Pool::new(target.origin.clone(), config.clone())).collect(),
            workers: Arc::clone(workers),
            connections,
            next: AtomicUsize::new(0),
            latency: Times::of(workers.iter().count()),
            failed: AtomicU64::new(0),
            failure: Mutex::default(),
        })
    }

    /// Sends the first part, which opens the connections and does not count.
    pub fn begin(self: &Arc<Self>, runtime: &Runtime, part: usize) -> Result<(), IsolatedError> {
        runtime.block_on(Arc::clone(self).send(0, part))
    }

    /// Sends further parts with this many requests each.
    pub fn measure(
        self: &Arc<Self>,
        runtime: &Runtime,
        hub_pid: u32,
        (part, repetitions): (usize, usize),
        measurement: &mut Measurement,
    ) -> Result<(), IsolatedError> {
        let failed_before = self.failed.load(Ordering::Acquire);
        let mut watched = [hub_pid, std::process::id()].map(WatchedProcess::new);
        let before = watched.each_ref().map(WatchedProcess::now);
        for repetition in 1..=repetitions {
            let before = ThreadTimes::now();
            let failed = self.failed.load(Ordering::Acquire);
            let started = Instant::now();
            runtime.block_on(Arc::clone(self).send(repetition * part, (repetition + 1) * part))?;
            let took = started.elapsed();
            let used = before.since();
            let failed = self.failed.load(Ordering::Acquire) - failed;
            measurement.repeat(took, part as u64 - failed, &self.latency.take(), &used);
        }
        measurement.failed = self.failed.load(Ordering::Acquire) - failed_before;
        for (process, before) in watched.iter_mut().zip(&before) {
            let after = process.now();
            process.add(before, &after);
        }
        measurement.processes = processes(measurement, &watched);
        let first = self.first_failure();
        let finding = first.as_ref().map(|why| format!("the first request that failed: {why}"));
        measurement.findings.extend(finding);
        Ok(())
    }

    /// Sends the requests from one number to another, and waits for all answers.
    async fn send(self: Arc<Self>, from: usize, to: usize) -> Result<(), IsolatedError> {
        self.next.store(from, Ordering::Release);
        let mut tasks = Vec::new();
        for connection in 0..self.connections {
            let worker = self.workers.get(connection);
            tasks.push(worker.spawn(Arc::clone(&self).send_in_turn(worker.index(), to)));
        }
        for task in tasks {
            task.await.map_err(|_| IsolatedError::panicked())?;
        }
        Ok(())
    }

    async fn send_in_turn(self: Arc<Self>, worker: usize, to: usize) {
        loop {
            let number = self.next.fetch_add(1, Ordering::AcqRel);
            if number >= to {
                return;
            }
            let began = Instant::now();
            match self.exchange(worker, number).await {
                Ok(()) => self.latency.note(worker, began.elapsed()),
                Err(reason) => {
                    self.failed.fetch_add(1, Ordering::AcqRel);
                    self.first_failure().get_or_insert(reason);
                }
            }
        }
    }

    async fn exchange(&self, worker: usize, number: usize) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + REQUEST_TIMEOUT;
        let sent = self.pools[worker].send((self.make)(number)?, deadline).await;
        let answer = sent.map_err(|error| error.to_string())?;
        if answer.status == self.success { Ok(()) } else { Err(format!("answered {}", answer.status)) }
    }

    fn first_failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hub and lab, each a separate process. The CPU of the sending threads is known to the nanosecond.
fn processes(measurement: &Measurement, [hub, lab]: &[WatchedProcess; 2]) -> Vec<ProcessRow> {
    let (wall, completed) = (measurement.took(), measurement.completed());
    let row = |name: &str, process: &WatchedProcess, cpu: Duration| {
        let cpu_us = us_per_event(cpu, completed).map(|us| rounded(us, 3));
        process.row(name, cpu_us, cores_used(cpu, wall).map(|cores| rounded(cores, 3)))
    };
    vec![row("hub", hub, hub.cpu), row("lab", lab, measurement.cpu.of(""))]
}

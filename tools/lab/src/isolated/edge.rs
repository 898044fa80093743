//! One request of a transfer over HTTP, to a hub of its own: `POST /transfers` until the 202, or `PUT /transfers/{ID}`
//! until the 200. Callbacks are held back, or swallowed by receivers that do nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::{Builder, Runtime};
use upesi_http::{
    Full, Method, Pool, PoolConfig, Request as HttpRequest, ResponseBody, StatusCode, Target, Workers,
    header_block,
};

use super::measurement::{Measurement, nanosecond_histogram, record};
use super::meter::{ThreadTimes, UsedCpu};
use super::preload::{Past, read_existing};
use super::receiver::Receivers;
use super::scheme::Scheme;
use super::scratch::Scratch;
use super::settings::Keys;
use super::source::{Source, number, yes_no};
use super::stopwatch::Stopwatch;
use super::stream::{Message, MessageKind, Stream, StreamError};
use super::{Context, IsolatedError};
use crate::drive::admin_client::AdminClient;
use crate::drive::child::HubProcess;
use crate::observe::hub_metrics::{Snapshot, stages};
use crate::observe::usage::{Moment, Watched};
use crate::result::schema::{Parameter, ProcessRow, Queues};
use crate::result::statistics::{cores_used, rounded, us_per_event};

/// Requests of one run where no number is given.
const MESSAGES: usize = 20_000;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Name of the threads that send.
const SENDER: &str = "lab-send";
/// A port that nobody listens on: the first connection to it fails, and the lane pauses for the rest of the run.
const NOBODY: &str = "http://127.0.0.1:1";
const HOLD_CALLBACKS: [&str; 3] = [
    "--set=callbacks.breaker_threshold=1",
    "--set=callbacks.breaker_pause_min_ms=3600000",
    "--set=callbacks.breaker_pause_max_ms=3600000",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Prepare,
    Fulfil,
}

impl Request {
    const fn kind(self) -> MessageKind {
        match self {
            Self::Prepare => MessageKind::Prepare,
            Self::Fulfil => MessageKind::Fulfil,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Fulfil => "fulfil",
        }
    }

    /// The status of a success (FSPIOP API v1.1 §3.2.3).
    const fn success(self) -> StatusCode {
        match self {
            Self::Prepare => StatusCode::ACCEPTED,
            Self::Fulfil => StatusCode::OK,
        }
    }
}

/// How the request is sent.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    request: Request,
    source: Source,
    connections: usize,
    threads: usize,
    /// Whether callbacks are held back, instead of being swallowed by receivers.
    holds_callbacks: bool,
    durable: bool,
    /// Finished transfers that the hub has behind it.
    existing: usize,
    repetitions: usize,
}

impl Settings {
    pub fn read(request: Request, keys: &mut Keys<'_>) -> Self {
        let source = Source::read(keys, MESSAGES);
        let settings = Self {
            request,
            existing: read_existing(keys, &source),
            source,
            connections: keys.size("connections", 1..=8_192, 32),
            threads: keys.size("threads", 1..=64, 1),
            holds_callbacks: keys.choice("callbacks", &["held", "swallowed"]) == "held",
            durable: keys.flag("durable", true),
            repetitions: keys.size("repetitions", 1..=1_000, 5),
        };
        if settings.threads > settings.connections {
            keys.contradiction("threads must not be more than connections".to_owned());
        }
        if settings.source.messages <= settings.repetitions {
            keys.contradiction(
                "give more messages than repetitions: each repetition sends a part".to_owned(),
            );
        }
        settings
    }

    pub fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load(context, self.request.kind())?;
        let scratch = Scratch::new(&context.scratch)?;
        let data = scratch.path().join("data");
        let receivers = Receivers::start(1, Duration::ZERO, Arc::new(Stopwatch::new(0)))?;
        let endpoints = if self.holds_callbacks { NOBODY.to_owned() } else { receivers.url() };
        let count = self.source.messages;
        let prepares = match self.request {
            Request::Prepare => Vec::new(),
            Request::Fulfil => stream.decode_fulfilled(count)?.0,
        };
        let past = Past {
            scheme: Scheme::of(&stream, Some(endpoints))?,
            existing: self.existing,
            dfsps: self.source.dfsps,
            seed: context.seed,
            reserved: Arc::new(prepares),
        };
        past.write(&data)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(IsolatedError::thread)?;
        let mut hub = runtime.block_on(self.start_hub(context, &data))?;
        let workers = Arc::new(Workers::start(self.threads, SENDER)?);
        let measured = self.measure(&stream, &hub, &runtime, &workers);
        workers.shutdown();
        hub.end();
        receivers.stop();
        measured
    }

    async fn start_hub(&self, context: &Context, data: &Path) -> Result<HubProcess, IsolatedError> {
        let own = || -> Result<PathBuf, IsolatedError> {
            let source =
                |source| IsolatedError::Io { what: "cannot find this program's file".to_owned(), source };
            std::env::current_exe().map_err(source)
        };
        let binary = context.binary.clone().map_or_else(own, Ok)?;
        let mut arguments = context.hub_arguments.clone();
        if self.holds_callbacks {
            arguments.extend(HOLD_CALLBACKS.map(str::to_owned));
        }
        arguments.push(format!("--set=engine.durable={}", self.durable));
        // Streams expire in 2099.
        arguments.push("--set=hub.transfer_validity_max_s=3153600000".to_owned());
        let log = context.logs.as_ref().map(|logs| logs.join("hub.log"));
        Ok(HubProcess::start(&binary, data, &arguments, log.as_deref()).await?)
    }

    fn measure(
        &self,
        stream: &Stream,
        hub: &HubProcess,
        runtime: &Runtime,
        workers: &Arc<Workers>,
    ) -> Result<Measurement, IsolatedError> {
        let messages = stream.of_kind(self.request.kind()).take(self.source.messages).cloned();
        let messages: Vec<Message> = messages.collect();
        if messages.len() < self.source.messages {
            let (found, needed) = (messages.len(), self.source.messages);
            return Err(StreamError::TooShort { what: self.request.unit(), found, needed }.into());
        }
        let target = Target::parse(&hub.fspiop_url()).map_err(|error| IsolatedError::Refused {
            what: "the hub's address",
            reason: error.to_string(),
        })?;
        let senders = Senders::new(self, &target, workers, messages);
        let mut measurement = Measurement::new(self.request.unit(), "a hub process on this machine");
        let parts = self.source.messages / (self.repetitions + 1);
        // The first part opens the connections and does not count.
        runtime.block_on(senders.clone().send(0, parts))?;
        let failed_before = senders.failed.load(Ordering::Acquire);
        let metrics_before = runtime.block_on(metrics(hub));
        let mut cpu = UsedCpu::default();
        let used = [hub.pid(), std::process::id()].map(Used::from_now);
        for repetition in 1..=self.repetitions {
            let before = ThreadTimes::now();
            let failed = senders.failed.load(Ordering::Acquire);
            let started = Instant::now();
            runtime.block_on(senders.clone().send(repetition * parts, (repetition + 1) * parts))?;
            let took = started.elapsed();
            cpu.add(&before.since());
            let failed = senders.failed.load(Ordering::Acquire) - failed;
            measurement.repeat(took, parts as u64 - failed, &senders.take_latency());
        }
        measurement.failed = senders.failed.load(Ordering::Acquire) - failed_before;
        let used = used.map(Used::until_now);
        let seconds = measurement.took().as_secs_f64();
        measurement.stages =
            stages(&[(metrics_before, runtime.block_on(metrics(hub)))], seconds, &Queues::default());
        measurement.processes = processes(&measurement, &used, &cpu);
        measurement.durable = Some(self.durable);
        measurement.findings.extend(senders.first_failure());
        measurement.parameters = self.source.parameters(stream);
        measurement.parameters.extend([
            ("connections", number(self.connections)),
            ("durable", yes_no(self.durable)),
            ("existing", number(self.existing)),
            ("callbacks", Parameter::from(if self.holds_callbacks { "held" } else { "swallowed" })),
        ]);
        Ok(measurement)
    }
}

async fn metrics(hub: &HubProcess) -> Snapshot {
    let Ok(client) = AdminClient::new(&hub.admin_url()) else { return Snapshot::default() };
    let text = client.get("/metrics").await.unwrap_or_default();
    Snapshot::read(&String::from_utf8_lossy(&text))
}

/// A process from a moment on.
struct Used {
    process: Watched,
    before: Moment,
}

impl Used {
    fn from_now(pid: u32) -> Self {
        let process = Watched::new(pid);
        Self { before: process.now(), process }
    }

    /// What it has used since.
    fn until_now(mut self) -> Watched {
        let after = self.process.now();
        self.process.add(&self.before, &after);
        self.process
    }
}

/// Hub and lab, each a process of its own. The CPU of the threads that send is known to the nanosecond.
fn processes(measurement: &Measurement, [hub, lab]: &[Watched; 2], cpu: &UsedCpu) -> Vec<ProcessRow> {
    let (wall, completed) = (measurement.took(), measurement.completed());
    let row = |name: &str, process: &Watched, cpu: Duration| {
        let cpu_us = us_per_event(cpu, completed).map(|us| rounded(us, 3));
        process.row(name, cpu_us, cores_used(cpu, wall).map(|cores| rounded(cores, 3)))
    };
    vec![row("hub", hub, hub.cpu), row("lab", lab, cpu.total())]
}

/// Connections that send one request after the other.
struct Senders {
    request: Request,
    messages: Vec<Message>,
    pools: Vec<Pool>,
    workers: Arc<Workers>,
    connections: usize,
    next: AtomicUsize,
    latency_ns: Vec<Mutex<Histogram<u64>>>,
    failed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Senders {
    fn new(
        settings: &Settings,
        target: &Target,
        workers: &Arc<Workers>,
        messages: Vec<Message>,
    ) -> Arc<Self> {
        let config = PoolConfig {
            connections_max: settings.connections.div_ceil(settings.threads),
            response_body: ResponseBody::Discard,
            ..PoolConfig::default()
        };
        Arc::new(Self {
            request: settings.request,
            messages,
            pools: workers.iter().map(|_| Pool::new(target.origin.clone(), config.clone())).collect(),
            workers: Arc::clone(workers),
            connections: settings.connections,
            next: AtomicUsize::new(0),
            latency_ns: workers.iter().map(|_| Mutex::new(nanosecond_histogram())).collect(),
            failed: AtomicU64::new(0),
            failure: Mutex::default(),
        })
    }

    /// Sends the messages from one index to another, and waits for all answers.
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
            let index = self.next.fetch_add(1, Ordering::AcqRel);
            let Some(message) = self.messages.get(index).filter(|_| index < to) else { return };
            let began = Instant::now();
            match self.exchange(worker, message).await {
                Ok(()) => record(&mut lock(&self.latency_ns[worker]), began.elapsed()),
                Err(reason) => {
                    self.failed.fetch_add(1, Ordering::AcqRel);
                    lock(&self.failure).get_or_insert(reason);
                }
            }
        }
    }

    async fn exchange(&self, worker: usize, message: &Message) -> Result<(), String> {
        let headers = header_block::from_block(&message.headers).map_err(|error| error.to_string())?;
        let (method, path) = match self.request {
            Request::Prepare => (Method::POST, "/transfers".to_owned()),
            Request::Fulfil => (Method::PUT, format!("/transfers/{}", message.id)),
        };
        let mut request = HttpRequest::new(Full::new(message.body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| "the path is no URI".to_owned())?;
        *request.headers_mut() = headers;
        let deadline = tokio::time::Instant::now() + REQUEST_TIMEOUT;
        let answer = self.pools[worker].send(request, deadline).await.map_err(|error| error.to_string())?;
        if answer.status == self.request.success() {
            Ok(())
        } else {
            Err(format!("answered {}", answer.status))
        }
    }

    fn take_latency(&self) -> Histogram<u64> {
        let mut sum = nanosecond_histogram();
        for latency_ns in &self.latency_ns {
            let mut latency_ns = lock(latency_ns);
            // Cannot fail: all have the same bounds.
            let _ = sum.add(&*latency_ns);
            latency_ns.reset();
        }
        sum
    }

    fn first_failure(&self) -> Option<String> {
        lock(&self.failure).as_ref().map(|reason| format!("the first request that failed: {reason}"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

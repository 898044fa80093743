//! Prepares and fulfils through the engine: queue, ledger, journal with sync, answers. The groups vary the maximum size
//! of a batch, the number of DFSPs, the number of submitting threads, and the sync.
//!
//! `cargo bench -p upesi-engine --bench positions`; a word as argument selects cases, such as `batches/50`. `MESSAGES`
//! is the number of messages of an iteration (5,000). `UPESI_BENCH_DIR` names a directory on the disk to measure
//! (default: below the target directory).

use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SubmitError, SystemClock,
};
use upesi_journal::Durability;
use upesi_ledger::{Command, Reply};
use upesi_testsupport::scheme;

/// The hub's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const DFSPS: [&str; 8] = ["dfsp1", "dfsp2", "dfsp3", "dfsp4", "dfsp5", "dfsp6", "dfsp7", "dfsp8"];
/// Longer than the bench runs, and no longer than a scheme allows by default.
const VALIDITY_MS: i64 = 3_600_000;
const BUSY_WAIT: Duration = Duration::from_millis(1);
/// Lengths of the parts of a request, as in the lab's messages.
static HEADERS: [u8; 420] = [b'h'; 420];
static BODY: [u8; 860] = [b'b'; 860];

#[derive(Clone, Copy)]
enum Kind {
    Prepare,
    /// The fulfil of a transfer that is already reserved.
    Fulfil,
}

#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    /// Maximum number of commands in a batch; `None` takes the engine's own maximum.
    batch: Option<usize>,
    dfsps: usize,
    /// Threads that submit, each its share of the messages.
    submitters: usize,
    /// Commands in progress, all threads together.
    in_flight: usize,
    durability: Durability,
}

const CASE: Case = Case {
    kind: Kind::Prepare,
    batch: None,
    dfsps: 2,
    submitters: 1,
    in_flight: 1_024,
    durability: Durability::Synced,
};

impl Case {
    fn pair(self, number: u64) -> (&'static str, &'static str) {
        let count = self.dfsps as u64;
        let (payer, distance) = (number % count, 1 + number / count % (count - 1));
        (DFSPS[payer as usize], DFSPS[((payer + distance) % count) as usize])
    }
}

/// An engine that one case feeds.
struct Bench {
    case: Case,
    runtime: Runtime,
    engine: Engine,
    handle: EngineHandle,
    messages: u64,
    /// Number of the next transfer.
    next: u64,
    _directory: TempDir,
}

impl Bench {
    fn start(case: Case, messages: u64) -> Self {
        let base = std::env::var_os("UPESI_BENCH_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let directory = tempfile::tempdir_in(base).unwrap();
        let defaults = EngineOptions::new(directory.path());
        let options = EngineOptions {
            batch_commands_max: case.batch.unwrap_or(defaults.batch_commands_max),
            durability: case.durability,
            ..defaults
        };
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(scheme::onboard(&handle, &DFSPS[..case.dfsps]));
        Self { case, runtime, engine, handle, messages, next: 0, _directory: directory }
    }

    /// Submits the messages of one iteration. Returns the time from the first submission to the last answer, without
    /// the reservations before fulfils.
    fn run(&mut self) -> Duration {
        let numbers = self.next..self.next + self.messages;
        self.next = numbers.end;
        let expires_at = SystemClock.now().plus_ms(VALIDITY_MS);
        let prepare = |number| {
            let (payer, payee) = self.case.pair(number);
            scheme::prepare(scheme::id(number), payer, payee, "1", expires_at)
        };
        let fulfil = |number| {
            let (payer, payee) = self.case.pair(number);
            scheme::fulfil(scheme::id(number), payer, payee)
        };
        let took = self.submit(numbers.clone().map(prepare));
        match self.case.kind {
            Kind::Prepare => took,
            Kind::Fulfil => self.submit(numbers.map(fulfil)),
        }
    }

    fn submit(&self, commands: impl Iterator<Item = Command>) -> Duration {
        let Case { submitters, in_flight, .. } = self.case;
        let mut shares = vec![Vec::new(); submitters];
        commands.enumerate().for_each(|(index, command)| shares[index % submitters].push(command));
        let (begin, handle) = (Barrier::new(submitters), &self.handle);
        let work = |share: Vec<Command>| {
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            begin.wait();
            let started = Instant::now();
            runtime.block_on(submit_all(handle, share, in_flight / submitters));
            (started, Instant::now())
        };
        let work = &work;
        let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
            let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let first = spans.iter().map(|(started, _)| *started).min().unwrap();
        let last = spans.iter().map(|(_, ended)| *ended).max().unwrap();
        last - first
    }

    fn finish(self) {
        let counts = self.handle.read(|ledger| (ledger.totals().reserved, ledger.totals().committed));
        let counts = self.runtime.block_on(counts).unwrap();
        let committed = match self.case.kind {
            Kind::Prepare => 0,
            Kind::Fulfil => self.next,
        };
        assert_eq!(counts, (self.next, committed), "a message was rejected");
        self.engine.shutdown();
    }
}

async fn submit_all(engine: &EngineHandle, commands: Vec<Command>, in_flight: usize) {
    let commands = Arc::new(Mutex::new(commands.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..in_flight.max(1) {
        let (engine, commands) = (engine.clone(), Arc::clone(&commands));
        tasks.spawn(async move {
            loop {
                let next = commands.lock().unwrap().next();
                let Some(command) = next else { return };
                submit(&engine, command).await;
            }
        });
    }
    tasks.join_all().await;
}

/// Submits a command until the engine accepts it. The engine is busy while the archive is behind.
async fn submit(engine: &EngineHandle, command: Command) {
    let payload = Payload { headers: Bytes::from_static(&HEADERS), body: Bytes::from_static(&BODY) };
    loop {
        match engine.submit(command.clone(), payload.clone()).await {
            Ok(Reply::Accepted) => return,
            Err(SubmitError::Busy) => tokio::time::sleep(BUSY_WAIT).await,
            other => panic!("the engine rejected a message: {other:?}"),
        }
    }
}

fn batch_name(batch: Option<usize>) -> String {
    batch.map_or_else(|| "natural".to_owned(), |batch| batch.to_string())
}

fn measure(criterion: &mut Criterion, group: &str, cases: impl IntoIterator<Item = (String, Case)>) {
    let messages = std::env::var("MESSAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let mut group = criterion.benchmark_group(group);
    group
        .throughput(Throughput::Elements(messages))
        .sample_size(10)
        .nresamples(1_000)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .sampling_mode(SamplingMode::Flat);
    for (name, case) in cases {
        let mut bench = None;
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let bench = bench.get_or_insert_with(|| Bench::start(case, messages));
            bencher.iter_custom(|iterations| (0..iterations).map(|_| bench.run()).sum());
        });
        // None if the command line selects other cases.
        if let Some(bench) = bench {
            bench.finish();
        }
    }
    group.finish();
}

fn batches(criterion: &mut Criterion) {
    let limits = [Some(1), Some(10), Some(20), Some(40), Some(50), Some(100), None];
    let cases = limits.into_iter().flat_map(|batch| [2, 4, 8].map(|dfsps| Case { batch, dfsps, ..CASE }));
    let named = |case: Case| (format!("{}, {} DFSPs", batch_name(case.batch), case.dfsps), case);
    measure(criterion, "batches", cases.map(named));
}

/// As many commands in progress as fit one batch: the time of a batch, and not of the queue before it.
fn one_batch_in_progress(criterion: &mut Criterion) {
    let case = |size, dfsps| Case { batch: Some(size), in_flight: size, dfsps, ..CASE };
    let cases = [case(1, 2), case(100, 2), case(100, 4), case(100, 8)];
    let named = |case: Case| (format!("{}, {} DFSPs", batch_name(case.batch), case.dfsps), case);
    measure(criterion, "one batch in progress", cases.map(named));
}

fn submitters(criterion: &mut Criterion) {
    let cases = [1, 2, 4, 8]
        .into_iter()
        .flat_map(|submitters| [2, 4, 8].map(|dfsps| Case { batch: Some(50), submitters, dfsps, ..CASE }));
    let named = |case: Case| (format!("{} threads, {} DFSPs", case.submitters, case.dfsps), case);
    measure(criterion, "submitters", cases.map(named));
}

fn durability(criterion: &mut Criterion) {
    let names = [("synced", Durability::Synced), ("not synced", Durability::Volatile)];
    let cases = names.map(|(name, durability)| (name.to_owned(), Case { durability, ..CASE }));
    measure(criterion, "durability", cases);
}

fn fulfils(criterion: &mut Criterion) {
    measure(criterion, "fulfils", [("natural, 2 DFSPs".to_owned(), Case { kind: Kind::Fulfil, ..CASE })]);
}

criterion_group!(benches, batches, one_batch_in_progress, submitters, durability, fulfils);
criterion_main!(benches);

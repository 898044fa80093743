//! Prepares per second through the whole engine: queue, decide, journal with sync, evolve, answer; with payloads of
//! 1 KB and of 64 bytes.
//!
//! `UPESI_BENCH_DIR` names a directory on the disk to measure (default: below the target directory). At the end it
//! prints the CPU time of each thread per prepare, which is more meaningful than the rate on a shared machine.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::DirEntry;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SystemClock,
};
use upesi_ledger::Reply;
use upesi_testsupport::scheme;

/// The hub's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Callers that wait at the same time.
const IN_FLIGHT: u64 = 8_192;
/// Longer than the bench runs, and no longer than a scheme allows by default.
const VALIDITY_MS: i64 = 3_600_000;
const DFSPS: [&str; 8] = ["dfsp1", "dfsp2", "dfsp3", "dfsp4", "dfsp5", "dfsp6", "dfsp7", "dfsp8"];

/// The cases: a name, and the bytes of the headers and of the body.
const PAYLOADS: [(&str, usize, usize); 2] =
    [("durable_prepares_1kb", 400, 624), ("durable_prepares_64b", 24, 40)];

async fn send(engine: EngineHandle, payload: Payload, numbers: std::ops::Range<u64>) {
    let expires_at = SystemClock.now().plus_ms(VALIDITY_MS);
    for number in numbers {
        let (payer, payee) = (DFSPS[number as usize % 8], DFSPS[(number as usize + 1) % 8]);
        let command = scheme::prepare(scheme::id(number), payer, payee, "1", expires_at);
        assert_eq!(engine.submit(command, payload.clone()).await, Ok(Reply::Accepted));
    }
}

/// An engine with the counts of its work.
struct Bench {
    runtime: Runtime,
    engine: Engine,
    handle: EngineHandle,
    payload: Payload,
    /// Prepares so far.
    prepares: u64,
    /// CPU time of this process's threads when the engine began, in nanoseconds.
    before: HashMap<OsString, u64>,
    _directory: TempDir,
}

impl Bench {
    fn start(headers: usize, body: usize) -> Self {
        let base = std::env::var_os("UPESI_BENCH_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let directory = tempfile::tempdir_in(base).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let before = threads().into_iter().map(|thread| (thread.id, thread.cpu_ns)).collect();
        let options = EngineOptions::new(directory.path());
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        runtime.block_on(scheme::onboard(&handle, &DFSPS));
        let payload = Payload { headers: vec![b'h'; headers].into(), body: vec![b'b'; body].into() };
        Self { runtime, engine, handle, payload, prepares: 0, before, _directory: directory }
    }

    fn run(&mut self, count: u64) -> Duration {
        let from = self.prepares;
        self.prepares += count;
        let started = Instant::now();
        self.runtime.block_on(async {
            let mut senders = JoinSet::new();
            let share = count.div_ceil(IN_FLIGHT);
            for sender in 0..IN_FLIGHT.min(count) {
                let first = from + sender * share;
                let last = (first + share).min(from + count);
                senders.spawn(send(self.handle.clone(), self.payload.clone(), first..last.max(first)));
            }
            while senders.join_next().await.is_some() {}
        });
        started.elapsed()
    }

    fn finish(self) {
        let reserved = self.runtime.block_on(self.handle.read(|ledger| ledger.reserved_len())).unwrap();
        assert_eq!(
            reserved as u64, self.prepares,
            "a prepare was refused: it would be measured without its body"
        );
        self.wait_for_archivist();
        self.print_cpu_per_prepare();
        self.engine.shutdown();
    }

    /// The archivist works after the engine. Its work for these prepares is counted, too.
    fn wait_for_archivist(&self) {
        let fold_every_records = EngineOptions::new("").fold_every_records;
        while self.handle.status().archived_seq + fold_every_records < self.handle.status().durable_seq {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Prints what each thread of this process has used since the engine began, divided by the prepares.
    fn print_cpu_per_prepare(&self) {
        let mut total = 0;
        for thread in threads() {
            let ns = thread.cpu_ns - self.before.get(&thread.id).unwrap_or(&0);
            total += ns;
            if ns > self.prepares * 10 {
                eprintln!("{:>16} {:>6} ns of CPU per prepare", thread.name, ns / self.prepares);
            }
        }
        let prepares = self.prepares;
        eprintln!("{:>16} {:>6} ns of CPU per prepare, of {prepares} prepares", "all", total / prepares);
    }
}

struct Thread {
    id: OsString,
    name: String,
    cpu_ns: u64,
}

/// The threads of this process.
fn threads() -> Vec<Thread> {
    let thread = |task: DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // Nanoseconds on a core come first.
        let cpu_ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        Thread { id: task.file_name(), name: read("comm").trim().to_owned(), cpu_ns }
    };
    std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(thread).collect()
}

fn durable_prepares(criterion: &mut Criterion) {
    for (name, headers, body) in PAYLOADS {
        let mut bench = None;
        let mut group = criterion.benchmark_group("engine");
        let count = 200_000;
        group
            .throughput(Throughput::Elements(count))
            .sample_size(10)
            .nresamples(1_000)
            .measurement_time(Duration::from_secs(8));
        group.sampling_mode(SamplingMode::Flat);
        group.bench_function(name, |bencher| {
            let bench = bench.get_or_insert_with(|| Bench::start(headers, body));
            bencher.iter_custom(|iterations| (0..iterations).map(|_| bench.run(count)).sum());
        });
        group.finish();
        // None if the command line names the other one.
        if let Some(bench) = bench {
            bench.finish();
        }
    }
}

criterion_group!(benches, durable_prepares);
criterion_main!(benches);

//! Prepares per second through the whole engine: queue, decide, journal with sync, evolve, answer; 1 KB payloads.
//!
//! `UPESI_BENCH_DIR` names a directory on the disk to measure (default: below the target directory). At the end it
//! prints the CPU time of each thread per prepare, which tells more than the rate where the machine is shared.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use upesi_engine::{
    Clock, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload, SystemClock,
};
use upesi_ledger::Reply;

/// The hub's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Callers that wait at the same time.
const IN_FLIGHT: u64 = 8_192;
/// Longer than the bench runs, and no longer than a scheme allows by default.
const VALIDITY_MS: i64 = 3_600_000;
const DFSPS: [&str; 8] = ["dfsp1", "dfsp2", "dfsp3", "dfsp4", "dfsp5", "dfsp6", "dfsp7", "dfsp8"];

fn payload() -> Payload {
    Payload { headers: vec![b'h'; 400].into(), body: vec![b'b'; 624].into() }
}

async fn send(engine: EngineHandle, payload: Payload, numbers: std::ops::Range<u64>) {
    let expires_at = SystemClock.now().plus_ms(VALIDITY_MS);
    for number in numbers {
        let (payer, payee) = (DFSPS[number as usize % 8], DFSPS[(number as usize + 1) % 8]);
        let command = common::prepare(common::id(number), payer, payee, "1", expires_at);
        assert_eq!(engine.submit(command, payload.clone()).await, Ok(Reply::Accepted));
    }
}

fn run(runtime: &Runtime, engine: &EngineHandle, from: u64, count: u64) -> Duration {
    let started = Instant::now();
    runtime.block_on(async {
        let mut senders = JoinSet::new();
        let share = count.div_ceil(IN_FLIGHT);
        for sender in 0..IN_FLIGHT.min(count) {
            let first = from + sender * share;
            let last = (first + share).min(from + count);
            senders.spawn(send(engine.clone(), payload(), first..last.max(first)));
        }
        while senders.join_next().await.is_some() {}
    });
    started.elapsed()
}

fn durable_prepares(criterion: &mut Criterion) {
    let base = std::env::var_os("UPESI_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let directory = tempfile::tempdir_in(base).unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let options = EngineOptions::new(directory.path());
    let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
    runtime.block_on(common::onboard(&handle, &DFSPS));
    let mut next = 0;
    let mut group = criterion.benchmark_group("engine");
    let count = 200_000;
    group.throughput(Throughput::Elements(count)).sample_size(10).measurement_time(Duration::from_secs(8));
    group.sampling_mode(SamplingMode::Flat);
    group.bench_function("durable_prepares_1kb", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                total += run(&runtime, &handle, next, count);
                next += count;
            }
            total
        });
    });
    group.finish();
    let reserved = runtime.block_on(handle.read(|ledger| ledger.reserved_len())).unwrap();
    assert_eq!(reserved as u64, next, "a prepare was refused: it would be measured without its body");
    wait_for_archivist(&handle);
    print_cpu_per(next);
    engine.shutdown();
}

/// The archivist works behind the engine: what it does for these prepares counts, too.
fn wait_for_archivist(engine: &EngineHandle) {
    let fold_every_records = EngineOptions::new("").fold_every_records;
    while engine.status().archived_seq + fold_every_records < engine.status().durable_seq {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Prints what each thread of this process has used so far, divided by `prepares`.
fn print_cpu_per(prepares: u64) {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // Nanoseconds on a core come first.
        let ns: u64 = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        total += ns;
        if ns > prepares * 10 {
            eprintln!("{:>16} {:>6} ns of CPU per prepare", read("comm").trim(), ns / prepares);
        }
    }
    eprintln!("{:>16} {:>6} ns of CPU per prepare, of {prepares} prepares", "all", total / prepares);
}

criterion_group!(benches, durable_prepares);
criterion_main!(benches);

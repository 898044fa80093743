//! Fills an archive the way the archivist does and prints a table of what that costs.
//!
//! `cargo bench -p upesi-tables --bench archive_fill`, settings by environment:
//! `COUNT` transfers (2,000,000), `BATCH` transfers per apply (32,768), `VALUE_BYTES` (200), `LOOKUPS` (200,000),
//! `DIR` (a fresh temporary directory, removed at the end), `READ_WHILE_WRITING` (1 starts a thread that looks up
//! absent ids during the fill). Linux only: CPU time and memory come from `/proc`.
#![allow(clippy::print_stdout, clippy::float_arithmetic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{cpu, cpu_thread, directory_bytes, memory, mix, per, row, setting, settle};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_types::TransferId;

fn main() {
    // `cargo test --benches` runs this too, with a flag; it only has to start there.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let count: u64 = setting("COUNT", 2_000_000);
    let batch: u64 = setting("BATCH", 32_768);
    let value_bytes: usize = setting("VALUE_BYTES", 200);
    let lookups: u64 = setting("LOOKUPS", 200_000);
    let temporary = tempfile::tempdir().expect("temporary directory");
    let directory = std::env::var("DIR").map_or_else(|_| temporary.path().join("archive"), Into::into);
    let options = options();
    println!("{options:?} COUNT={count} BATCH={batch} VALUE_BYTES={value_bytes}");

    let archive = Arc::new(FjallArchive::open(&directory, &options).expect("open"));
    let filling = fill(&archive, count, batch, value_bytes);
    look_up("after fill", &*archive, count, lookups);
    let idle = settle();
    row("merging after the fill, s", format!("{:.1}", idle.as_secs_f64()));
    row("CPU per transfer with all merging, µs", per(cpu() - filling, count));
    look_up("settled", &*archive, count, lookups);
    let stats = archive.stats();
    row("disk per transfer, bytes (files)", format!("{}", directory_bytes(&directory) / count));
    row(
        "disk written / user bytes",
        format!("{:.1}", written_bytes() as f64 / (count as f64 * (value_bytes + 17) as f64)),
    );
    row("stats", format!("{stats:?}"));
    row("RSS, MB", format!("{} (peak {})", memory("VmRSS"), memory("VmHWM")));

    drop(archive);
    row("RSS closed, MB", memory("VmRSS").to_string());
    let start = Instant::now();
    let archive = FjallArchive::open(&directory, &options).expect("reopen");
    row("reopen, ms", start.elapsed().as_millis().to_string());
    assert_eq!(archive.watermark(), count);
    row("disk per transfer reopened, bytes (files)", (directory_bytes(&directory) / count).to_string());
    look_up("reopened", &archive, count, lookups);
    let start = Instant::now();
    while !archive.stats().filter_ready && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    row("filter ready after, ms", start.elapsed().as_millis().to_string());
    look_up("filter ready", &archive, count, lookups);
    row("RSS reopened, MB", memory("VmRSS").to_string());
    let start = Instant::now();
    let mut rows = 0_u64;
    archive
        .for_each(&mut |_, _| {
            rows += 1;
            std::ops::ControlFlow::Continue(())
        })
        .expect("scan");
    row("scan, µs per transfer", per(start.elapsed(), rows));
    assert_eq!(rows, count);
}

/// Applies everything and prints rate and stalls; returns the CPU time spent before.
fn fill(archive: &Arc<FjallArchive>, count: u64, batch: u64, value_bytes: usize) -> Duration {
    let stop = Arc::new(AtomicBool::new(false));
    let reader = (setting("READ_WHILE_WRITING", 0_u8) == 1).then(|| {
        let (archive, stop) = (Arc::clone(archive), Arc::clone(&stop));
        std::thread::spawn(move || read_until(&*archive, &stop))
    });
    let mut times = Vec::new();
    let (mut generating, mut at) = (Duration::ZERO, 0);
    let (start, cpu_before) = (Instant::now(), cpu());
    while at < count {
        let generate = cpu_thread();
        let end = (at + batch).min(count);
        let entries: Vec<_> = (at..end).map(|index| (id(index), value(index, value_bytes))).collect();
        generating += cpu_thread() - generate;
        let apply = Instant::now();
        archive.apply(&entries, end).expect("apply");
        times.push(apply.elapsed());
        at = end;
    }
    archive.sync().expect("sync");
    let (wall, used) = (start.elapsed(), cpu() - cpu_before - generating);
    row("fill, transfers/s", format!("{:.0}", count as f64 / wall.as_secs_f64()));
    row("CPU per transfer in the fill, µs", per(used, count));
    times.sort();
    let millis = |share: usize| times[(times.len() - 1) * share / 100].as_millis();
    row("apply p50/p99/max, ms", format!("{}/{}/{}", millis(50), millis(99), millis(100)));
    stop.store(true, Ordering::Relaxed);
    if let Some(reader) = reader {
        let names = ["misses while writing, by the filter", "misses while writing, by the store"];
        for (name, waits) in names.iter().zip(reader.join().expect("reader")) {
            let mean = waits.total / waits.checks.max(1);
            row(name, format!("{}: mean {mean:?}, worst {:?}", waits.checks, waits.worst));
        }
    }
    cpu_before + generating
}

/// Checks absent ids until `stop` is set. Counts checks that the filter answers and checks that read the store
/// separately.
fn read_until(archive: &dyn Archive, stop: &AtomicBool) -> [Waits; 2] {
    let mut waits = [Waits::default(), Waits::default()];
    let mut index = 1 << 40;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..10 {
            index += 1;
            let start = Instant::now();
            let asked = archive.may_contain(&id(index));
            assert!(!asked || !found(archive, index));
            let elapsed = start.elapsed();
            let waits = &mut waits[usize::from(asked)];
            waits.checks += 1;
            waits.total += elapsed;
            waits.worst = waits.worst.max(elapsed);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    waits
}

#[derive(Debug, Default)]
struct Waits {
    checks: u32,
    total: Duration,
    worst: Duration,
}

fn look_up(when: &str, archive: &dyn Archive, count: u64, lookups: u64) {
    let start = Instant::now();
    let misses = (0..lookups).filter(|index| !found(archive, (1 << 40) + index)).count() as u64;
    let miss = start.elapsed();
    assert_eq!(misses, lookups);
    let start = Instant::now();
    let passed = (0..lookups).filter(|index| archive.may_contain(&id((1 << 41) + index))).count();
    let filter = start.elapsed();
    let hits = lookups / 10;
    let start = Instant::now();
    for index in 0..hits {
        assert!(found(archive, mix(index) % count), "transfer is missing");
    }
    let hit = start.elapsed();
    row(
        &format!("{when}: miss/filter/hit, µs"),
        format!(
            "{} / {} (passes {:.2} %) / {}",
            per(miss, lookups),
            per(filter, lookups),
            passed as f64 * 100.0 / lookups as f64,
            per(hit, hits)
        ),
    );
}

/// The duplicate check as a worker does it.
fn found(archive: &dyn Archive, index: u64) -> bool {
    let id = id(index);
    archive.may_contain(&id) && archive.get(&id).expect("get").is_some()
}

fn options() -> ArchiveOptions {
    let default = ArchiveOptions::default();
    ArchiveOptions {
        cache_bytes: setting("CACHE_MB", default.cache_bytes >> 20) << 20,
        pending_transfers: setting("PENDING", default.pending_transfers),
        pending_bytes: setting("PENDING_MB", default.pending_bytes >> 20) << 20,
        division_transfers: setting("DIVISION", default.division_transfers),
        table_bytes: setting("TABLE_MB", default.table_bytes >> 20) << 20,
        unmerged_tables: setting("UNMERGED", default.unmerged_tables),
        block_bytes: setting("BLOCK", default.block_bytes),
        merge_threads: setting("THREADS", default.merge_threads),
        compress: setting("COMPRESS", u8::from(default.compress)) == 1,
    }
}

fn id(index: u64) -> TransferId {
    let (high, low) = (mix(index), mix(!index));
    TransferId::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
}

/// Half of a value varies (hashes, ids, times), half repeats (participants, currency, codes).
fn value(index: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0_u8; bytes];
    for (at, chunk) in value.chunks_mut(8).enumerate() {
        let word = if at % 2 == 0 { mix(index ^ ((at as u64) << 50)) } else { at as u64 };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    value
}

/// Bytes handed to the operating system by write calls.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("io");
    let line = io.lines().find(|line| line.starts_with("wchar")).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
}

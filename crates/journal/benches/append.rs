//! Durable appends on a real directory: `UPESI_BENCH_DIR=/var/lib/x cargo bench -p upesi-journal --bench append`, else
//! below `target`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use upesi_journal::{Batch, DataDirectory, Maintenance, Options, Writer, delete_segments_below, open};

const RECORD_BYTES: usize = 1024;

/// Appends `count` batches; the time that the journal took, without that for encoding the records.
fn append(
    directory: &DataDirectory,
    writer: &mut Writer,
    batch: &mut Batch,
    records: usize,
    count: u64,
) -> Duration {
    let record = [b'r'; RECORD_BYTES];
    let mut taken = Duration::ZERO;
    for _ in 0..count {
        batch.reset(writer.next_seq());
        for _ in 0..records {
            let time_ns = batch.next_seq() as i64;
            batch.push(time_ns, |buffer| buffer.extend_from_slice(&record));
        }
        let started = Instant::now();
        let appended = writer.append(batch).expect("appends");
        while writer.maintain().expect("maintains") == Maintenance::Advanced {}
        taken += started.elapsed();
        if appended.rolled {
            delete_segments_below(&*directory.disk(), appended.first_seq).expect("deletes");
        }
    }
    taken
}

fn main() {
    let target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let base = std::env::var_os("UPESI_BENCH_DIR").map_or_else(target, PathBuf::from);
    std::fs::create_dir_all(&base).expect("the base directory");
    let mut criterion = Criterion::default().measurement_time(Duration::from_secs(5)).configure_from_args();
    for zero_ahead in [true, false] {
        let name = if zero_ahead { "durable append, zeros ahead" } else { "durable append, extents only" };
        let mut group = criterion.benchmark_group(name);
        for records in [1_usize, 16, 256, 1024, 4096] {
            let root = tempfile::tempdir_in(&base).expect("a temporary directory");
            let directory = DataDirectory::open(root.path()).expect("opens");
            let options = Options { zero_ahead, ..Options::default() };
            let mut writer = open(directory.disk(), options).expect("opens").writer;
            while writer.maintain().expect("maintains") == Maintenance::Advanced {}
            let mut batch = Batch::new(1);
            group.throughput(Throughput::Elements(records as u64));
            group.bench_function(BenchmarkId::from_parameter(records), |bencher| {
                bencher.iter_custom(|count| append(&directory, &mut writer, &mut batch, records, count));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

//! Fills a store with entries like a party directory's, and prints time, CPU, memory and disk usage.
//!
//! `cargo bench -p upesi-tables --bench store_fill`, settings by environment: `COUNT` entries (10,000,000), `CHUNK`
//! entries per update (10,000), `IN_MEMORY_MB` (0) to keep the table in memory, `ORDER` (`random` or `sorted`),
//! `CHECK` (1 reads each key before it is written, as an import does), `LOOKUPS` (100,000), `DIR` (a fresh
//! temporary directory), and those of [`options`]. Linux only: memory and CPU time come from `/proc`.
#![allow(clippy::print_stdout, clippy::float_arithmetic)]

mod common;

use std::time::{Duration, Instant};

use common::{cpu, cpu_thread, directory_bytes, memory, mix, per, row, setting, settle};
use upesi_tables::store::{Store, StoreOptions, Table};

fn main() {
    // `cargo test --benches` runs this too, with a flag; it only has to start there.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let count: u64 = setting("COUNT", 10_000_000);
    let lookups: u64 = setting("LOOKUPS", 100_000);
    let temporary = tempfile::tempdir().expect("temporary directory");
    let directory = std::env::var("DIR").map_or_else(|_| temporary.path().join("store"), Into::into);
    let options = options();
    println!("{options:?} COUNT={count}");

    let store = Store::open(&directory, &options).expect("open");
    let table = store.table("parties").expect("table");
    let in_memory = setting::<u64>("IN_MEMORY_MB", 0) << 20;
    if in_memory > 0 {
        store.keep_in_memory(&table, in_memory);
    }
    fill(&store, &table, 1_000, 1_000);
    look_up("1,000 entries", &table, 1_000, lookups);
    let rss_before = memory("VmRSS");
    row("RSS with 1,000 entries, MB", rss_before.to_string());

    let (start, cpu_before) = (Instant::now(), cpu());
    fill(&store, &table, count, setting("CHUNK", 10_000));
    let wall = start.elapsed();
    row("fill, entries/s", format!("{:.0}", count as f64 / wall.as_secs_f64()));
    row("fill, s", format!("{:.1}", wall.as_secs_f64()));
    look_up("after the fill", &table, count, lookups);
    settle();
    row("CPU per entry with all merging, µs", per(cpu() - cpu_before, count));
    look_up("settled", &table, count, lookups);
    row("RSS, MB", format!("{} (peak {})", memory("VmRSS"), memory("VmHWM")));
    row("disk per entry, bytes", (directory_bytes(&directory) / count).to_string());
    row("stats", format!("{:?}", store.stats()));
    drop((table, store));

    let start = Instant::now();
    let store = Store::open(&directory, &options).expect("reopen");
    let table = store.table("parties").expect("table");
    row("reopen, ms", start.elapsed().as_millis().to_string());
    if in_memory > 0 {
        let cpu_before = cpu();
        store.keep_in_memory(&table, in_memory);
        while start.elapsed() < Duration::from_secs(120) && store.stats().resident_tables == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        row(
            "into memory, s (of CPU)",
            format!("{:.1} ({:.1})", start.elapsed().as_secs_f64(), (cpu() - cpu_before).as_secs_f64()),
        );
    }
    look_up("reopened", &table, count, lookups);
    let rss = memory("VmRSS");
    row("RSS reopened, MB", format!("{rss} (growth {})", rss as i64 - rss_before as i64));
}

fn options() -> StoreOptions {
    let default = StoreOptions::default();
    StoreOptions {
        pending_bytes: setting("PENDING_MB", default.pending_bytes >> 20) << 20,
        cache_bytes: setting("CACHE_MB", default.cache_bytes >> 20) << 20,
        table_bytes: setting("TABLE_MB", default.table_bytes >> 20) << 20,
        unmerged_tables: setting("UNMERGED", default.unmerged_tables),
        block_bytes: setting("BLOCK", default.block_bytes),
        compress: setting("COMPRESS", u8::from(default.compress)) == 1,
        ..default
    }
}

fn fill(store: &Store, table: &Table, count: u64, chunk: u64) {
    let check = setting("CHECK", 1) == 1;
    for from in (0..count).step_by(chunk as usize) {
        let table = table.clone();
        let write = store.update_blocking(move |transaction| {
            for index in from..(from + chunk).min(count) {
                let key = key(index, count);
                if !check || transaction.get(&table, &key)?.is_none() {
                    transaction.put(&table, &key, &value(index))?;
                }
            }
            Ok(())
        });
        write.expect("update");
    }
}

/// A telephone number behind a byte for its type.
fn key(index: u64, count: u64) -> Vec<u8> {
    let sorted = std::env::var("ORDER").is_ok_and(|order| order == "sorted");
    let number = if sorted { index } else { scattered(index, count) };
    format!("\u{1}26097{number:08}").into_bytes()
}

/// A permutation of the numbers below `count`: the same numbers in another order.
fn scattered(index: u64, count: u64) -> u64 {
    if count <= 1_000 { index } else { (u128::from(index) * 6_700_417 % u128::from(count)) as u64 }
}

/// Flags, a DFSP's name.
fn value(index: u64) -> Vec<u8> {
    let mut value = vec![0, 11, 0];
    value.extend_from_slice(format!("greenbank{:02}", index % 40).as_bytes());
    value
}

fn look_up(when: &str, table: &Table, count: u64, lookups: u64) {
    let time = |found: bool, lookups: u64| {
        let start = (Instant::now(), cpu_thread());
        for index in 0..lookups {
            let number = mix(index) % count;
            let number = if found { number } else { number + 50_000_000 };
            let key = format!("\u{1}26097{number:08}").into_bytes();
            assert_eq!(table.get(&key).expect("get").is_some(), found, "{number}");
        }
        format!("{} ({})", per(cpu_thread() - start.1, lookups), per(start.0.elapsed(), lookups))
    };
    row(
        &format!("{when}: hit / miss, µs of CPU (of time)"),
        format!("{} / {}", time(true, lookups), time(false, lookups)),
    );
}

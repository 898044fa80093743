//! Settings from the environment, rows of a table, and what `/proc` says of this process.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Waits until the process has used no CPU for a second, which is when closed divisions are rewritten. The growing
/// one keeps its tables beside each other.
pub fn settle() -> Duration {
    let start = Instant::now();
    let (mut before, mut idle) = (cpu(), 0);
    while idle < 4 && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(250));
        let now = cpu();
        idle = if now - before < Duration::from_millis(20) { idle + 1 } else { 0 };
        before = now;
    }
    start.elapsed()
}

/// SplitMix64: the same ids in every run.
pub fn mix(index: u64) -> u64 {
    let mut z = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub fn row(name: &str, value: String) {
    println!("{name:<52} {value}");
}

pub fn per(time: Duration, count: u64) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e6 / count.max(1) as f64)
}

pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// CPU time of the process, of all its threads, in ticks of 10 ms.
pub fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

pub fn cpu_thread() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    Duration::from_nanos(schedstat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

pub fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) / 1024
}

pub fn directory_bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => directory_bytes(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

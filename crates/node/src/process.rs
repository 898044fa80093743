//! Metrics of the process and its machine: CPU time by thread, memory, files, disk, limits, state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use upesi_engine::{Availability, ClockState, EngineMetrics, EngineStatus};
use upesi_offline::reserve;
use upesi_process::exposition::{gauge, head};
use upesi_process::version::commit;
use upesi_settings::Settings;

use super::descriptors;
use super::descriptors::Descriptors;

/// Reads `/proc` and the file system at each scrape. Stores only counters that must not decrease.
pub(super) struct ProcessMetrics {
    data: PathBuf,
    /// Settings that limit the values of other metrics.
    bounds: Vec<(&'static str, u64)>,
    /// CPU time in nanoseconds by kind of thread. Threads of the blocking pool end, and a counter must not decrease.
    threads: Mutex<BTreeMap<String, u64>>,
}

impl ProcessMetrics {
    pub(super) fn new(settings: &Settings, descriptors: &Descriptors) -> Self {
        let Settings { engine, admin, callbacks, relay, lookup, data, .. } = settings;
        let bounds = vec![
            ("engine.queue_commands_max", engine.queue_commands_max as u64),
            ("engine.finished_transfers_max", engine.finished_transfers_max as u64),
            // The value in effect, which may be lower than the setting.
            ("fspiop.connections_max", descriptors.inbound),
            ("admin.connections_max", admin.connections_max as u64),
            ("outbound", descriptors.outbound),
            ("callbacks.queue_max", callbacks.queue_max as u64),
            ("callbacks.queue_bytes_max", callbacks.queue_bytes_max as u64),
            ("relay.in_flight_max", relay.in_flight_max as u64),
            ("lookup.pending_max", lookup.pending_max as u64),
        ];
        Self { data: data.dir.clone(), bounds, threads: Mutex::default() }
    }

    /// Writes the metrics of a hub that processes requests. Its engine counts the state of the clock.
    pub(super) fn write_leader(&self, text: &mut String, status: &EngineStatus) {
        write_state(text, status);
        self.write(text);
    }

    /// Writes the metrics of a follower.
    pub(super) fn write_follower(&self, text: &mut String, clock: ClockState) {
        write_clock(clock, text);
        self.write(text);
    }

    fn write(&self, text: &mut String) {
        write_build(text);
        self.write_bounds(text);
        write_disk(&self.data, text);
        self.write_threads(text);
        write_usage(text);
    }

    fn write_bounds(&self, text: &mut String) {
        head(text, "upesi_limit", "gauge", "Limits in effect, by setting");
        for (name, bound) in &self.bounds {
            let _ = writeln!(text, "upesi_limit{{setting=\"{name}\"}} {bound}");
        }
    }

    fn write_threads(&self, text: &mut String) {
        let mut known = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, nanos) in thread_times() {
            let kept = known.entry(name).or_default();
            *kept = nanos.max(*kept);
        }
        head(text, "upesi_thread_cpu_seconds", "counter", "CPU time by kind of thread");
        for (name, nanos) in known.iter() {
            let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1000);
            let _ = writeln!(text, "upesi_thread_cpu_seconds_total{{thread=\"{name}\"}} {whole}.{rest:06}");
        }
    }
}

fn write_disk(data: &Path, text: &mut String) {
    let Ok(disk) = rustix::fs::statvfs(data) else { return };
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    gauge(
        text,
        "upesi_disk_free_bytes",
        "Free space for the hub on the disk of its data directory",
        bytes(disk.f_bavail),
    );
    gauge(text, "upesi_disk_size_bytes", "Size of the disk of the data directory", bytes(disk.f_blocks));
    let reserve_bytes = reserve::bytes(data);
    gauge(text, "upesi_disk_reserve_bytes", "Space held by the reserve of the data directory", reserve_bytes);
}

/// Writes the clock metrics of a follower, in the same form as the engine of a leader.
fn write_clock(clock: ClockState, text: &mut String) {
    for (name, help, seconds) in [
        ("upesi_clock_jump_seconds", EngineMetrics::CLOCK_JUMP, clock.jump_seconds()),
        ("upesi_clock_ahead_seconds", EngineMetrics::CLOCK_AHEAD, clock.ahead_seconds()),
    ] {
        head(text, name, "gauge", help);
        let _ = writeln!(text, "{name} {seconds}");
    }
}

fn write_build(text: &mut String) {
    head(text, "upesi_build", "info", "Version and commit of the hub");
    let (version, commit) = (env!("CARGO_PKG_VERSION"), commit().unwrap_or_default());
    let _ = writeln!(text, "upesi_build_info{{version=\"{version}\",commit=\"{commit}\"}} 1");
}

fn write_state(text: &mut String, status: &EngineStatus) {
    let (read_only, stopped) = match status.serving {
        Availability::Yes | Availability::HeldUp | Availability::Following => (0, 0),
        Availability::ReadOnly => (1, 0),
        Availability::Stopped(_) => (0, 1),
    };
    gauge(text, "upesi_read_only", "1 while the disk is full and only reads are served", read_only);
    gauge(text, "upesi_stopped", "1 once the hub no longer accepts commands", stopped);
    gauge(text, "upesi_durable", "1 if responses wait for fsync", u64::from(status.is_durable));
}

/// CPU time in nanoseconds by thread name, without the number at its end.
fn thread_times() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let name = read("comm");
        let name = name.trim().trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
        let nanos = read("schedstat").split_ascii_whitespace().next().and_then(|text| text.parse().ok());
        if let (Some(nanos), false) = (nanos, name.is_empty() || name.contains(['"', '\\'])) {
            let sum: &mut u64 = times.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }
    times
}

/// The usual process metrics, under the names of Prometheus' own client libraries.
fn write_usage(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some(usage) = Usage::read(&stat, rustix::param::clock_ticks_per_second()) else { return };
    let page_bytes = rustix::param::page_size() as u64;
    head(text, "process_cpu_seconds", "counter", "CPU time of the process");
    let _ =
        writeln!(text, "process_cpu_seconds_total {}.{:02}", usage.cpu_ms / 1000, usage.cpu_ms % 1000 / 10);
    gauge(
        text,
        "process_resident_memory_bytes",
        "Memory in use",
        usage.resident_pages.saturating_mul(page_bytes),
    );
    gauge(text, "process_threads", "Threads", usage.threads);
    let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    gauge(text, "process_open_fds", "Open files and connections", files as u64);
    let bound = descriptors::limit();
    if bound < u64::MAX {
        gauge(text, "process_max_fds", "Limit of open files and connections", bound);
    }
    let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = machine.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    if let Some(booted) = booted {
        let help = "Start time of the process, in seconds since 1970";
        gauge(text, "process_start_time_seconds", help, booted + usage.started_ms / 1000);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Usage {
    cpu_ms: u64,
    threads: u64,
    /// Start time of the process in milliseconds since the machine started.
    started_ms: u64,
    resident_pages: u64,
}

impl Usage {
    /// Parses `/proc/PID/stat`, see proc(5). The program's name may contain anything, including parentheses and spaces.
    fn read(stat: &str, ticks_per_s: u64) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field behind the name is number 3.
        let number = |field: usize| -> Option<u64> { fields.get(field - 3)?.parse().ok() };
        let ms = |ticks: u64| ticks.saturating_mul(1000) / ticks_per_s.max(1);
        Some(Self {
            cpu_ms: ms(number(14)? + number(15)?),
            threads: number(20)?,
            started_ms: ms(number(22)?),
            resident_pages: number(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_usage_is_parsed_after_any_process_name() {
        let stat = "7 (a) b( c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 6 7 20 0 9 0 12345 888 321 18446744073709551615 1";
        let expected = Usage { cpu_ms: 2000, threads: 9, started_ms: 123_450, resident_pages: 321 };
        assert_eq!(Usage::read(stat, 100), Some(expected));
        assert_eq!(Usage::read("7 (a) S 1", 100), None);
    }

    #[test]
    fn threads_have_names_without_numbers() {
        let thread = std::thread::Builder::new().name("measured-12".to_owned());
        let times = thread.spawn(thread_times).unwrap().join().unwrap();
        assert!(times.contains_key("measured"), "{times:?}");
    }
}

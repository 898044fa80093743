//! The measurement of a stage, and its result.
#![expect(clippy::float_arithmetic, reason = "rates and means of measurements; no money")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use upesi_types::Timestamp;

use super::Context;
use super::stream::Stream;
use crate::observe::machine::{CoreTime, taken};
use crate::observe::process::Usage;
use crate::plan::parameter::Parameter;
use crate::result::environment::{Environment, durability};
use crate::result::latency::LatencyMs;
use crate::result::schema::{HistogramResult, ProcessRow, StageResult, Validity, WindowResult};
use crate::result::{LabResult, SliceResult};
use crate::statistics::{
    cores_used, latency_histogram, mebibytes, median, per_second, rounded, us_per_event,
};

/// Maximum distinguishable latency, in nanoseconds: ten minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;
const NS_PER_US: u64 = 1_000;

/// A histogram of nanoseconds with three significant digits, because an append without a sync takes a few microseconds.
pub(super) fn nanosecond_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"))
}

/// Adds a time to a histogram of nanoseconds.
pub(super) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LATENCY_NS_MAX).max(1));
}

/// Times that threads record, each in its own histogram, so that the threads share no locks.
pub(super) struct Times(Vec<Mutex<Histogram<u64>>>);

impl Times {
    pub fn of(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::new(nanosecond_histogram())).collect())
    }

    pub fn note(&self, thread: usize, time: Duration) {
        record(&mut self.0[thread].lock().unwrap_or_else(PoisonError::into_inner), time);
    }

    /// The times noted since the last call.
    pub fn take(&self) -> Histogram<u64> {
        let mut sum = nanosecond_histogram();
        for times in &self.0 {
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            // Cannot fail: all histograms have the same bounds.
            let _ = sum.add(&*times);
            times.reset();
        }
        sum
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    pub took: Duration,
    pub completed: u64,
}

#[derive(Debug)]
pub(super) struct Measurement {
    pub unit: &'static str,
    pub repetitions: Vec<Repetition>,
    /// Number of operations that failed.
    pub failed: u64,
    /// Latency of the operations of all repetitions, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    pub stages: Vec<StageResult>,
    pub processes: Vec<ProcessRow>,
    pub parameters: BTreeMap<&'static str, Parameter>,
    /// Reasons why the figures are not valid.
    pub findings: Vec<String>,
    pub durable: Option<bool>,
    pub target: &'static str,
    /// CPU that the threads of this process used in the repetitions.
    pub cpu: UsedCpu,
    cores_before: Option<CoreTime>,
}

impl Measurement {
    pub fn new(unit: &'static str, target: &'static str) -> Self {
        Self {
            unit,
            repetitions: Vec::new(),
            failed: 0,
            latency_ns: nanosecond_histogram(),
            stages: Vec::new(),
            processes: Vec::new(),
            parameters: BTreeMap::new(),
            cpu: UsedCpu::default(),
            findings: Vec::new(),
            durable: None,
            target,
            cores_before: CoreTime::now(),
        }
    }

    pub fn completed(&self) -> u64 {
        self.repetitions.iter().map(|repetition| repetition.completed).sum()
    }

    pub fn took(&self) -> Duration {
        self.repetitions.iter().map(|repetition| repetition.took).sum()
    }

    /// Adds a repetition.
    pub fn repeat(&mut self, took: Duration, completed: u64, latency_ns: &Histogram<u64>, used: &UsedCpu) {
        self.repetitions.push(Repetition { took, completed });
        // Cannot fail: all histograms have the same bounds.
        let _ = self.latency_ns.add(latency_ns);
        self.cpu.add(used);
    }

    /// Records the number of DFSPs in a stream.
    pub fn fed_with(&mut self, stream: &Stream) {
        self.parameters.insert("dfsps", number(stream.header.dfsps.len()));
    }

    /// Records parts of this process by prefixes of their threads' names. Memory belongs to the process: it is in the
    /// first row only. Writes and context switches of parts are not known.
    pub fn parts(&mut self, parts: &[(&str, &[&str])]) {
        let (usage, wall, completed) = (Usage::own().ok(), self.took(), self.completed());
        let memory = |place: usize, bytes: fn(&Usage) -> u64| {
            usage.as_ref().filter(|_| place == 0).map(|usage| rounded(mebibytes(bytes(usage)), 1))
        };
        let row = |(place, (name, threads)): (usize, &(&str, &[&str]))| {
            let cpu = threads.iter().map(|prefix| self.cpu.of(prefix)).sum();
            ProcessRow {
                name: (*name).to_owned(),
                cpu_us_per_operation: us_per_event(cpu, completed).map(|us| rounded(us, 3)),
                cores: cores_used(cpu, wall).map(|cores| rounded(cores, 3)),
                rss_mb: memory(place, |usage| usage.resident_bytes),
                rss_peak_mb: memory(place, |usage| usage.resident_peak_bytes),
                ..ProcessRow::default()
            }
        };
        self.processes = parts.iter().enumerate().map(row).collect();
    }

    /// The result of all repetitions.
    pub fn result(mut self, kind: &str, context: &Context, started_at: Timestamp) -> LabResult {
        if self.processes.is_empty() {
            self.parts(&[("hub", &[""])]);
        }
        let (completed, took, surroundings) = (self.completed(), self.took(), &context.surroundings);
        let mut cores = CoreTime::default();
        cores.add_growth(self.cores_before, CoreTime::now());
        let rates: Vec<f64> = self
            .repetitions
            .iter()
            .map(|repetition| rounded(per_second(repetition.completed, repetition.took), 1))
            .collect();
        let mut findings = self.findings;
        if self.failed > 0 {
            findings.push(format!("{} of {} operations failed", self.failed, completed + self.failed));
        }
        let slices = self.repetitions.iter().zip(&rates).map(|(repetition, rate)| SliceResult {
            seconds: rounded(repetition.took.as_secs_f64(), 6),
            completed: repetition.completed,
            throughput_per_s: *rate,
        });
        let mut environment =
            Environment::detect(surroundings.commit.clone(), started_at.to_string(), &context.scratch);
        environment.durability = self.durable.map(|durable| durability(durable).to_owned());
        let name = if surroundings.name.is_empty() { kind } else { &surroundings.name };
        LabResult {
            name: name.to_owned(),
            title: surroundings.title.clone(),
            description: surroundings.description.clone(),
            kind: "isolated".into(),
            unit: self.unit.into(),
            parameters: self.parameters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            scenario: kind.to_owned().into(),
            environment,
            seed: context.seed,
            target: self.target.to_owned(),
            completed,
            failed: self.failed,
            throughput_per_s: rounded(median(rates.iter().copied()).unwrap_or_default(), 1),
            latency_ms: latency_of(&self.latency_ns),
            durable: self.durable,
            slices: slices.collect(),
            histogram: Some(HistogramResult::of(&in_microseconds(&self.latency_ns))),
            stages: self.stages,
            processes: self.processes,
            validity: Validity::of(findings),
            window: WindowResult {
                seconds: rounded(took.as_secs_f64(), 6),
                stolen_share: cores.stolen_share(),
                idle_share: cores.idle_share(),
                ..WindowResult::default()
            },
            repetitions: rates,
            ..LabResult::new()
        }
    }
}

/// Percentiles in milliseconds, to the nanosecond.
fn latency_of(histogram: &Histogram<u64>) -> LatencyMs {
    let milliseconds = |ns: u64| rounded(ns as f64 / 1e6, 6);
    let at = |quantile| milliseconds(histogram.value_at_quantile(quantile));
    LatencyMs {
        min: milliseconds(histogram.min()),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: milliseconds(histogram.max()),
        mean: rounded(histogram.mean() / 1e6, 6),
        share_over_1s: rounded(crate::statistics::share_above(histogram, 1_000_000_000), 6),
    }
}

/// The same distribution in microseconds, rounded up.
fn in_microseconds(histogram: &Histogram<u64>) -> Histogram<u64> {
    let mut microseconds = latency_histogram();
    for step in histogram.iter_recorded() {
        microseconds.saturating_record_n(step.value_iterated_to().div_ceil(NS_PER_US), step.count_at_value());
    }
    microseconds
}

/// A stage whose operations were timed one by one, in nanoseconds.
pub(super) fn timed_stage(stage: &str, times: &Histogram<u64>, wall: Duration) -> StageResult {
    StageResult {
        stage: stage.to_owned(),
        operations: times.len(),
        per_s: rounded(per_second(times.len(), wall), 1),
        mean_us: rounded(times.mean() / 1e3, 3),
        p50_us: Some(rounded(times.value_at_quantile(0.5) as f64 / 1e3, 3)),
        p99_us: Some(rounded(times.value_at_quantile(0.99) as f64 / 1e3, 3)),
        ..StageResult::default()
    }
}

fn number(value: usize) -> Parameter {
    Parameter::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// CPU that the threads of this process had used at one moment, by thread id.
#[derive(Clone, Debug)]
pub(super) struct ThreadTimes(BTreeMap<u32, (String, u64)>);

impl ThreadTimes {
    /// Reads `/proc`; empty if it does not have Linux's format.
    pub fn now() -> Self {
        let mut threads = BTreeMap::new();
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let Some(id) = task.file_name().to_str().and_then(|text| text.parse().ok()) else { continue };
            // Nanoseconds on a core come first.
            let ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            threads.insert(id, (read("comm").trim().to_owned(), ns));
        }
        Self(threads)
    }

    /// CPU used since then, by thread. Threads that have ended since are not counted.
    pub fn since(&self) -> UsedCpu {
        let used = Self::now().0.into_iter().map(|(id, (name, ns))| {
            let before = self.0.get(&id).map_or(0, |(_, before)| *before);
            (name, ns.saturating_sub(before))
        });
        UsedCpu(used.collect())
    }
}

/// CPU used during a time.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedCpu(Vec<(String, u64)>);

impl UsedCpu {
    /// CPU of the threads whose name has this prefix; an empty prefix stands for all threads. The kernel keeps 15 bytes
    /// of a name.
    pub fn of(&self, prefix: &str) -> Duration {
        let named = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        Duration::from_nanos(named.map(|(_, ns)| ns).sum())
    }

    pub fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

const NAME_WIDTH: usize = 22;

/// The figures as lines of text, ending with their validity.
pub(crate) fn table(result: &LabResult) -> String {
    let mut text = format!("{} alone, in {}\n", result.scenario, result.target);
    let mut row = |name: &str, value: &str| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {name:<NAME_WIDTH$}{value}");
    };
    let parameters: Vec<_> = result.parameters.iter().map(|(key, value)| format!("{key} {value}")).collect();
    row("with", &if parameters.is_empty() { "defaults".to_owned() } else { parameters.join(", ") });
    row(&result.unit, &format!("{} completed, {} failed", result.completed, result.failed));
    row(
        "throughput",
        &format!("{:.0}/s, the median of {} repetitions", result.throughput_per_s, result.repetitions.len()),
    );
    let latency = &result.latency_ms;
    row(
        "latency",
        &format!(
            "p50 {:.4} ms, p99 {:.4} ms, p99.9 {:.4} ms, max {:.4} ms",
            latency.p50, latency.p99, latency.p999, latency.max
        ),
    );
    for stage in &result.stages {
        row(&stage.stage, &stage_text(stage));
    }
    for process in &result.processes {
        row(&process.name, &process_text(process, &result.unit));
    }
    if let Some(share) = result.window.stolen_share {
        row("other machines", &taken(share));
    }
    if let Some(durable) = result.durable {
        row("durable", if durable { "yes" } else { "no" });
    }
    row("valid", if result.validity.valid { "yes" } else { "NO, the figures are not valid" });
    for finding in &result.validity.findings {
        row("", finding);
    }
    text
}

fn stage_text(stage: &StageResult) -> String {
    let mut text = format!("{:.0}/s, mean {:.2} µs", stage.per_s, stage.mean_us);
    if let Some(p99) = stage.p99_us {
        let _ = write!(text, ", p99 {p99:.2} µs");
    }
    if let Some(batch) = stage.batch_mean {
        let _ = write!(text, ", {batch:.1} at once");
    }
    if let Some(share) = stage.cpu_share {
        let _ = write!(text, ", CPU share {share:.2}");
    }
    text
}

fn process_text(process: &ProcessRow, unit: &str) -> String {
    let cpu = process.cpu_us_per_operation.map_or_else(|| "?".to_owned(), |cpu| format!("{cpu:.2}"));
    let memory = process.rss_mb.map_or_else(String::new, |rss_mb| format!(", {rss_mb:.0} MiB resident"));
    format!("{cpu} µs CPU per {unit}{memory}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_of_threads_is_separated_by_name() {
        let before = ThreadTimes::now();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (spun, ready) = std::sync::mpsc::channel();
        let busy = std::thread::Builder::new().name("meter-busy".to_owned()).spawn(move || {
            let started = std::time::Instant::now();
            while started.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
            spun.send(()).unwrap();
            let _ = stopped.recv();
        });
        ready.recv().unwrap();
        let used = before.since();
        drop(stop);
        busy.unwrap().join().unwrap();
        assert!(used.of("meter-busy") > Duration::ZERO);
        assert!(used.of("") >= used.of("meter-busy"));
        assert_eq!(used.of("no such thread"), Duration::ZERO);
    }
}

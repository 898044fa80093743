//! The second-by-second record of a run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_types::Timestamp;

use super::process::directory_bytes;
use crate::observe::process::Usage;
use crate::result::latency::{SECOND_US, written};
use crate::result::schema::{Queues, TimelineResult, TimelineRow};
use crate::statistics::{LATENCY_US_MAX, cores_used, mebibytes, milliseconds, ratio, rounded};

pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Length of a step, if the load varies.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Maximum number of steps that are kept: an hour.
const STEPS_MAX: usize = 36_000;
/// The data directory is measured once in this many intervals, because it may have many files.
const DISK_INTERVALS: u64 = 10;

/// Adds a row to the timeline at the end of each interval.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub rows: Vec<TimelineRow>,
    histograms: Vec<String>,
    pub steps: Vec<TimelineRow>,
    /// The hub's processes, as far as they are on this machine.
    pids: Vec<u32>,
    /// The hub's data directory, if the lab knows it.
    data: Option<PathBuf>,
    /// Start of the load of the first slice.
    pub began_at: Option<Timestamp>,
    load_before: Duration,
    usage: Option<Usage>,
    ticks: u64,
}

impl Timeline {
    pub fn new(pids: Vec<u32>, data: Option<PathBuf>) -> Self {
        Self { pids, data, ..Self::default() }
    }

    pub fn begin(&mut self) {
        self.usage = self.read_usage();
    }

    pub fn end(&mut self, load: Duration) {
        self.load_before += load;
    }

    /// Notes the end of an interval, `since_begin` after the slice began and `taken` after the previous interval.
    pub fn tick(&mut self, interval: &Interval, since_begin: Duration, taken: Duration, queues: Queues) {
        let mut row = interval.row(rounded((self.load_before + since_begin).as_secs_f64(), 2));
        row.queues = queues;
        let usage = self.read_usage();
        if let Some((before, after)) = self.usage.zip(usage) {
            let cpu = after.cpu.saturating_sub(before.cpu);
            row.hub_cpu_cores = cores_used(cpu, taken).map(|cores| rounded(cores, 2));
            row.hub_rss_mb = Some(rounded(mebibytes(after.resident_bytes), 1));
        }
        self.usage = usage;
        if self.ticks.is_multiple_of(DISK_INTERVALS) {
            let bytes = self.data.as_deref().map(directory_bytes);
            row.hub_disk_mb = bytes.map(|bytes| rounded(mebibytes(bytes), 2));
        }
        self.ticks += 1;
        self.rows.push(row);
        self.histograms.push(interval.histogram());
    }

    /// Notes the end of a step, at this time after the slice began.
    pub fn step(&mut self, interval: &Interval, since_begin: Duration) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(interval.row(rounded((self.load_before + since_begin).as_secs_f64(), 3)));
        }
    }

    fn read_usage(&self) -> Option<Usage> {
        Usage::of_all(&self.pids)
    }

    /// Mean depths of the hub's queues, from the readings.
    pub fn queues(&self) -> Queues {
        let mean = |depth: fn(&Queues) -> Option<f64>| {
            let depths: Vec<f64> = self.rows.iter().filter_map(|row| depth(&row.queues)).collect();
            ratio(depths.iter().sum(), depths.len() as f64)
        };
        Queues {
            ingress: mean(|queues| queues.ingress),
            engine: mean(|queues| queues.engine),
            callbacks: mean(|queues| queues.callbacks),
            relay: mean(|queues| queues.relay),
        }
    }

    /// The rows and steps, and the means of the queues.
    pub fn result(&self) -> TimelineResult {
        TimelineResult {
            interval_s: u32::try_from(INTERVAL.as_secs()).unwrap_or(1),
            rows: self.rows.clone(),
            histograms: self.histograms.clone(),
            steps: self.steps.clone(),
        }
    }
}

/// The ends of the intervals of a slice.
#[derive(Debug)]
pub(crate) struct Ticks {
    pub begin: Instant,
    pub next: Instant,
    pub last: Instant,
    /// The end of the current step; `None` for a load without steps.
    pub next_step: Option<Instant>,
    /// Counts of the finished steps of the current interval.
    pub counted: Interval,
}

impl Ticks {
    /// The ends of the intervals of a slice that starts at this time.
    pub fn starting_at(start: Instant, has_steps: bool) -> Self {
        let next_step = has_steps.then_some(start + STEP);
        Self { begin: start, next: start + INTERVAL, last: start, next_step, counted: Interval::default() }
    }

    /// Time of the next reading.
    pub fn due(&self) -> Instant {
        self.next_step.map_or(self.next, |step| step.min(self.next))
    }
}

/// The counts of one worker, or of all, since the last reading.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Latency of completed operations, in microseconds, to two digits: coarse, but small enough to be copied each
    /// second.
    latency: Histogram<u64>,
    completed: u64,
    over_1s: u64,
    failed: u64,
    offered: u64,
}

impl Default for Interval {
    fn default() -> Self {
        Self { latency: interval_histogram(), completed: 0, over_1s: 0, failed: 0, offered: 0 }
    }
}

/// A histogram of microseconds with two significant digits.
pub(crate) fn interval_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 2)
        .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"))
}

/// The percentiles of an interval, for operations that completed in it.
pub(crate) fn percentiles(latency: &Histogram<u64>) -> TimelineRow {
    let known = |us: u64| (!latency.is_empty()).then(|| rounded(milliseconds(us), 2));
    let at = |quantile| known(latency.value_at_quantile(quantile));
    TimelineRow {
        p50_ms: at(0.5),
        p90_ms: at(0.9),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        p9999_ms: at(0.9999),
        max_ms: known(latency.max()),
        ..TimelineRow::default()
    }
}

impl Interval {
    /// Notes an operation that began, or was due.
    pub const fn offer(&mut self) {
        self.offered += 1;
    }

    /// Notes the end of an operation, with its latency in microseconds if it completed.
    pub fn end(&mut self, latency_us: Option<u64>) {
        match latency_us {
            Some(latency_us) => {
                self.latency.saturating_record(latency_us);
                self.completed += 1;
                self.over_1s += u64::from(latency_us > SECOND_US);
            }
            None => self.failed += 1,
        }
    }

    /// Moves all counts to another interval.
    pub fn drain_into(&mut self, sum: &mut Self) {
        // Cannot fail: both have the same bounds.
        let _ = sum.latency.add(&self.latency);
        self.latency.reset();
        sum.completed += std::mem::take(&mut self.completed);
        sum.over_1s += std::mem::take(&mut self.over_1s);
        sum.failed += std::mem::take(&mut self.failed);
        sum.offered += std::mem::take(&mut self.offered);
    }

    /// The interval as a row that ends at `t`.
    pub fn row(&self, t: f64) -> TimelineRow {
        TimelineRow {
            t,
            completed: self.completed,
            failed: self.failed,
            offered: self.offered,
            share_over_1s: ratio(self.over_1s as f64, self.completed as f64).map(|share| rounded(share, 6)),
            ..percentiles(&self.latency)
        }
    }

    /// The histogram of latencies, for merging.
    pub fn histogram(&self) -> String {
        written(&self.latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_load_over_all_slices() {
        let directory = tempfile::tempdir().unwrap();
        let mut timeline = Timeline::new(vec![std::process::id()], Some(directory.path().to_owned()));
        let interval = Interval::default();
        for slice in 0..2_u32 {
            timeline.begin();
            for second in 1..=2 {
                let queues = Queues { engine: Some(f64::from(slice)), ..Queues::default() };
                timeline.tick(&interval, INTERVAL * second, INTERVAL, queues);
            }
            timeline.end(INTERVAL * 5 / 2);
        }
        let times: Vec<f64> = timeline.rows.iter().map(|row| row.t).collect();
        assert_eq!(times, [1.0, 2.0, 3.5, 4.5]);
        assert!(timeline.rows.iter().all(|row| row.hub_rss_mb.is_some() && row.hub_cpu_cores.is_some()));
        let disks = timeline.rows.iter().filter(|row| row.hub_disk_mb.is_some()).count();
        assert_eq!(disks, 1);
        assert_eq!(timeline.queues(), Queues { engine: Some(0.5), ..Queues::default() });
        assert_eq!(Timeline::new(Vec::new(), None).queues(), Queues::default());
        let result = timeline.result();
        assert_eq!((result.rows[3].queues.engine, result.histograms.len()), (Some(1.0), 4));
    }

    #[test]
    fn steps_have_no_figures_of_the_hub() {
        let mut timeline = Timeline::new(vec![std::process::id()], None);
        timeline.end(INTERVAL);
        for number in 1..=3 {
            timeline.step(&Interval::default(), STEP * number);
        }
        let times: Vec<f64> = timeline.steps.iter().map(|step| step.t).collect();
        assert_eq!(times, [1.1, 1.2, 1.3]);
        assert!(timeline.rows.is_empty() && timeline.steps.iter().all(|step| step.hub_rss_mb.is_none()));
        let start = Instant::now();
        let (with, without) = (Ticks::starting_at(start, true), Ticks::starting_at(start, false));
        assert_eq!((with.due(), without.due()), (start + STEP, start + INTERVAL));
    }

    #[test]
    fn each_second_is_counted_once() {
        let (mut worker, mut sum) = (Interval::default(), Interval::default());
        worker.offer();
        worker.offer();
        worker.end(Some(10_000));
        worker.end(None);
        worker.drain_into(&mut sum);
        worker.drain_into(&mut sum);
        let row = sum.row(1.0);
        assert_eq!((row.completed, row.failed, row.offered), (1, 1, 2));
        assert!(row.p99_ms.is_some_and(|p99| (9.9..10.2).contains(&p99)));
        assert_eq!(worker.row(2.0), TimelineRow { t: 2.0, ..TimelineRow::default() });
    }

    #[test]
    fn row_and_histogram_have_the_same_distribution() {
        let mut interval = Interval::default();
        for ms in 1..=20_000_u64 {
            // One of twenty thousand is a minute, fifty are two seconds, the rest below a tenth of one.
            let ms = if ms == 1 {
                60_000
            } else if ms <= 51 {
                2_000
            } else {
                ms % 100 + 1
            };
            interval.end(Some(ms * 1_000));
        }
        let row = interval.row(1.0);
        let near = |value: Option<f64>, wanted: f64| value.is_some_and(|ms| (ms / wanted - 1.0).abs() < 0.03);
        for (value, wanted) in [
            (row.p50_ms, 50.0),
            (row.p90_ms, 90.0),
            (row.p95_ms, 95.0),
            (row.p99_ms, 99.0),
            (row.p999_ms, 2_000.0),
            (row.p9999_ms, 2_000.0),
            (row.max_ms, 60_000.0),
        ] {
            assert!(near(value, wanted), "{wanted}: {row:?}");
        }
        // Counted, not read from the coarse histogram: exactly a second is not longer.
        assert_eq!(row.share_over_1s, Some(0.002_55));
        interval.end(Some(SECOND_US));
        assert_eq!(interval.over_1s, 51);
        let text = interval.histogram();
        assert!(text.len() < 600, "{} characters are more than an hour of them should need", text.len());
        let again = percentiles(&crate::result::latency::read_histogram(&text).unwrap());
        assert_eq!((again.p99_ms, again.max_ms), (row.p99_ms, row.max_ms));
    }
}

//! The second-by-second record of a run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use upesi_types::Timestamp;

use crate::observe::detail::directory_bytes;
use crate::observe::interval::Interval;
use crate::observe::process::Usage;
use crate::result::schema::{Queues, TimelineResult, TimelineRow};
use crate::result::statistics::{cores_used, mebibytes, ratio, rounded};

/// Length of an interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Length of a step, where the load moves.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Steps kept: an hour of them.
const STEPS_MAX: usize = 36_000;
/// The data directory is measured in every so many intervals: it may have many files.
const DISK_INTERVALS: u64 = 10;

/// Takes a row of the timeline at the end of each interval.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub rows: Vec<TimelineRow>,
    histograms: Vec<String>,
    pub steps: Vec<TimelineRow>,
    /// The hub's processes, as far as they are on this machine.
    pids: Vec<u32>,
    /// The hub's data directory, if the lab knows it.
    data: Option<PathBuf>,
    /// When the load of the first slice began.
    pub began_at: Option<Timestamp>,
    load_before: Duration,
    usage: Option<Usage>,
    ticks: u64,
}

impl Timeline {
    pub const fn new(pids: Vec<u32>, data: Option<PathBuf>) -> Self {
        Self {
            rows: Vec::new(),
            histograms: Vec::new(),
            steps: Vec::new(),
            pids,
            data,
            began_at: None,
            load_before: Duration::ZERO,
            usage: None,
            ticks: 0,
        }
    }

    /// A slice begins.
    pub fn begin(&mut self) {
        self.usage = self.read_usage();
    }

    /// A slice of this much load ended.
    pub fn end(&mut self, load: Duration) {
        self.load_before += load;
    }

    /// An interval ended, `since_begin` after the slice began and `taken` after the interval before it.
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

    /// A step ended, so long after the slice began.
    pub fn step(&mut self, interval: &Interval, since_begin: Duration) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(interval.row(rounded((self.load_before + since_begin).as_secs_f64(), 3)));
        }
    }

    fn read_usage(&self) -> Option<Usage> {
        Usage::of_all(&self.pids)
    }

    /// Mean depths of the hub's queues, of what was read.
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
    /// The end of the present step; `None` where there are none.
    pub next_step: Option<Instant>,
    /// Of the present interval, what its steps have counted.
    pub counted: Interval,
}

impl Ticks {
    pub fn starting_at(start: Instant, has_steps: bool) -> Self {
        let next_step = has_steps.then_some(start + STEP);
        Self { begin: start, next: start + INTERVAL, last: start, next_step, counted: Interval::default() }
    }

    /// When something is to be looked at next.
    pub fn due(&self) -> Instant {
        self.next_step.map_or(self.next, |step| step.min(self.next))
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
    fn steps_are_of_the_load_alone() {
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
}

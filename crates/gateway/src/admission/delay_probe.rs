//! Measures queueing: for each worker, how long a ready task waits; for the engine, the number of waiting commands and
//! their expected waiting time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use upesi_admission::{Class, INTERVAL_MS};
use upesi_http::current_worker;

use super::AdmissionSettings;

/// Number of workers with a probe of their own. If there are more, some share one.
const PROBE_SLOTS: usize = 64;
/// Interval between probes of a worker that has requests.
const PROBE_INTERVAL_NS: u64 = 1_000_000;
/// Minimum number of probes in an interval for its shortest delay to be meaningful.
const PROBES_MIN: u32 = 4;
/// Rejections of a worker in an interval that are sent without delay.
const PROMPT_REFUSALS: u32 = 50;

/// Probe of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct DelayProbe {
    next_probe_ns: AtomicU64,
    probes: AtomicU32,
    /// Shortest delay of the interval, in microseconds, inverted so that zero means none.
    shortest_inverted: AtomicU32,
    taken: [AtomicU64; 2],
    refused: AtomicU32,
}

impl DelayProbe {
    /// If a probe is due, appends a task to the worker's queue and measures how long it waits.
    pub(super) fn probe(self: &Arc<Self>, now_ns: u64) {
        if now_ns < self.next_probe_ns.load(Ordering::Relaxed) {
            return;
        }
        self.next_probe_ns.store(now_ns + PROBE_INTERVAL_NS, Ordering::Relaxed);
        let (probe, sent) = (Arc::clone(self), Instant::now());
        tokio::spawn(async move { probe.note(sent.elapsed()) });
    }

    pub(super) fn note(&self, wait: Duration) {
        let us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
        self.shortest_inverted.fetch_max(!us, Ordering::Relaxed);
        self.probes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn take(&self, class: Class) {
        self.taken[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rejection. Returns whether it exceeds the number that are sent without delay.
    pub(super) fn refuse(&self) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed) >= PROMPT_REFUSALS
    }
}

/// Measurements of all workers in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenByAll {
    /// Mean of the workers' shortest delays.
    pub(super) delay_us: Option<u32>,
    /// By [`Class`].
    pub(super) taken: [u64; 2],
}

/// The probes of all workers.
#[derive(Debug)]
pub(super) struct DelayProbes(Box<[Arc<DelayProbe>]>);

impl Default for DelayProbes {
    fn default() -> Self {
        Self((0..PROBE_SLOTS).map(|_| Arc::default()).collect())
    }
}

impl DelayProbes {
    pub(super) fn of_this_worker(&self) -> &Arc<DelayProbe> {
        &self.0[current_worker().unwrap_or(0) % PROBE_SLOTS]
    }

    /// Ends an interval.
    pub(super) fn end_interval(&self) -> SeenByAll {
        let mut seen = SeenByAll::default();
        let (mut sum_us, mut workers) = (0_u64, 0_u64);
        for probe in &*self.0 {
            for class in Class::ALL {
                seen.taken[class as usize] += probe.taken[class as usize].swap(0, Ordering::Relaxed);
            }
            probe.refused.store(0, Ordering::Relaxed);
            let probes = probe.probes.swap(0, Ordering::Relaxed);
            let shortest_us = !probe.shortest_inverted.swap(0, Ordering::Relaxed);
            if probes >= PROBES_MIN {
                sum_us += u64::from(shortest_us);
                workers += 1;
            }
        }
        seen.delay_us = sum_us.checked_div(workers).and_then(|mean_us| u32::try_from(mean_us).ok());
        seen
    }
}

// Number of commands that wait for the engine, and their expected waiting time.

/// Counts the gateway's commands that wait for the engine.
#[derive(Debug)]
pub(super) struct EngineBacklog {
    wait_max_ns: u64,
    /// Maximum waiting time, in intervals.
    wait_max_intervals: u64,
    batch_commands: usize,
    hard_max: usize,
    waiting: AtomicUsize,
    /// Number of commands that may wait now: as many as the engine recently processed within the maximum waiting time.
    waiting_max: AtomicUsize,
    answered: AtomicU64,
    /// Answers per interval, smoothed, in quarters.
    rate: AtomicU64,
    /// Time of the engine's last answer, or of the start of waiting for one.
    progress_ns: AtomicU64,
}

impl EngineBacklog {
    pub(super) fn new(settings: &AdmissionSettings) -> Self {
        let hard_max = settings.engine_waiting_max.max(1);
        Self {
            wait_max_ns: ns(settings.engine_wait_max),
            wait_max_intervals: (ns(settings.engine_wait_max) / (INTERVAL_MS * 1_000_000)).max(1),
            batch_commands: settings.engine_batch_commands,
            hard_max,
            waiting: AtomicUsize::new(0),
            waiting_max: AtomicUsize::new(settings.engine_batch_commands.min(hard_max)),
            answered: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            progress_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a new command would wait too long, because too many commands wait or the engine does not answer.
    pub(super) fn is_behind(&self, now_ns: u64) -> bool {
        let waiting = self.waiting();
        let silence_ns = now_ns.saturating_sub(self.progress_ns.load(Ordering::Relaxed));
        waiting > 0 && (waiting >= self.waiting_max.load(Ordering::Relaxed) || silence_ns > self.wait_max_ns)
    }

    pub(super) fn enter(&self, started: Instant) -> InFlight<'_> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.progress_ns.store(ns(started.elapsed()), Ordering::Relaxed);
        }
        InFlight { watch: self, started }
    }

    /// Updates the engine's rate and the limit from the answers of the last intervals.
    pub(super) fn end_interval(&self, intervals: u64) {
        let answered = self.answered.swap(0, Ordering::Relaxed) / intervals.max(1);
        let rate = self.rate.load(Ordering::Relaxed);
        let rate = rate - rate / 4 + answered;
        self.rate.store(rate, Ordering::Relaxed);
        let in_time = usize::try_from(rate / 4 * self.wait_max_intervals).unwrap_or(usize::MAX);
        self.waiting_max.store(in_time.max(self.batch_commands).min(self.hard_max), Ordering::Relaxed);
    }
}

/// A command that waits for the engine. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    watch: &'a EngineBacklog,
    started: Instant,
}

impl InFlight<'_> {
    /// Records that the engine has answered.
    pub(crate) fn answered(self) {
        self.watch.answered.fetch_add(1, Ordering::Relaxed);
        self.watch.progress_ns.store(ns(self.started.elapsed()), Ordering::Relaxed);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.watch.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

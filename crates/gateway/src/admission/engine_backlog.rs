//! Number of commands that wait for the engine, and their expected waiting time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use upesi_admission::INTERVAL_MS;

use super::AdmissionSettings;

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

//! Measures for each worker how long a ready task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use upesi_admission::Class;
use upesi_http::current_worker;

/// Number of workers with their own probe. If there are more, some share one.
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

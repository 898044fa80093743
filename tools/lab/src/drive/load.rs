//! The load generator: closed and open loop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use upesi_http::Workers;

use crate::drive::operation::Generator;
use crate::drive::pacer::pace;
use crate::drive::schedule::{Profile, arrivals};
use crate::observe::interval::Interval;
use crate::observe::tally::{Step, Tally, microseconds_between};
use crate::plan::load_profile::Load;

/// Wait of a virtual user after a request that was not accepted, so that a dead hub is not hammered.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);
/// How often a virtual user that is not needed yet, or no more, looks again.
const IDLE_NAP: Duration = Duration::from_millis(20);

/// The times of one slice: load runs from `from` to `until`, and counts from `measure_from` to `measure_until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub from: Instant,
    pub measure_from: Instant,
    pub measure_until: Instant,
    pub until: Instant,
}

impl Window {
    /// Whether what happens then counts.
    pub fn counts(&self, at: Instant) -> bool {
        (self.measure_from..self.measure_until).contains(&at)
    }
}

/// What one worker counts: over the slice, and since it was last looked at.
#[derive(Debug, Default)]
struct Counts {
    tally: Tally,
    interval: Interval,
}

/// One running slice.
struct Slice {
    generator: Arc<Generator>,
    window: Window,
    /// One per worker, so that counting does not share locks.
    counts: Vec<Mutex<Counts>>,
    outstanding: AtomicUsize,
}

/// A slice in progress.
pub(crate) struct Running {
    slice: Arc<Slice>,
    users: Vec<JoinHandle<()>>,
    pacer: Option<std::thread::JoinHandle<()>>,
}

/// Starts the load of one slice on the workers.
pub(crate) fn start(
    workers: &Arc<Workers>,
    generator: &Arc<Generator>,
    load: &Load,
    seed: u64,
    window: Window,
) -> Running {
    let slice = Arc::new(Slice {
        generator: generator.clone(),
        window,
        counts: workers.iter().map(|_| Mutex::default()).collect(),
        outstanding: AtomicUsize::new(0),
    });
    let (mut users, mut pacer) = (Vec::new(), None);
    let profile = match load {
        Load::RampingUsers { start, stages } => Some(Arc::new(Profile::new(*start, stages))),
        _ => None,
    };
    if let Some(arrivals) = arrivals(load, seed) {
        let (slice, workers, outstanding_max) = (slice.clone(), workers.clone(), load.outstanding_max());
        pacer = Some(std::thread::spawn(move || slice.keep(&workers, arrivals, outstanding_max)));
    } else {
        let user = |index| {
            let profile = profile.clone().map(|profile| (profile, index));
            workers.get(index).spawn(slice.clone().user(index % workers.count(), profile))
        };
        users.extend((0..load.outstanding_max()).map(user));
    }
    Running { slice, users, pacer }
}

impl Running {
    /// Operations that completed inside the window so far.
    pub fn completed(&self) -> u64 {
        self.slice.counts.iter().map(|counts| lock(counts).tally.completed).sum()
    }

    /// What happened since this was last asked.
    pub fn interval(&self) -> Interval {
        let mut sum = Interval::default();
        self.slice.counts.iter().for_each(|counts| lock(counts).interval.drain_into(&mut sum));
        sum
    }

    /// Waits until everything that was sent has ended or timed out.
    pub async fn finish(self) -> Tally {
        for user in self.users {
            // A user that panicked shows as missing operations in the audit.
            if let Err(error) = user.await {
                tracing::error!(%error, "a virtual user ended early");
            }
        }
        let pacer = self.pacer;
        // The pacer ends by itself; joining it must not hold up this runtime.
        if let Some(pacer) = pacer {
            while !pacer.is_finished() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        while self.slice.outstanding.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut sum = Tally::default();
        self.slice.counts.iter().for_each(|counts| sum.add(&lock(counts).tally));
        sum
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slice {
    /// A virtual user; where their number moves, the one of this index.
    async fn user(self: Arc<Self>, worker: usize, profile: Option<(Arc<Profile>, usize)>) {
        loop {
            let began = Instant::now();
            if began >= self.window.until {
                return;
            }
            if let Some((profile, index)) = &profile
                && profile.level_at(began - self.window.from) < (index + 1) as f64
            {
                tokio::time::sleep(IDLE_NAP).await;
                continue;
            }
            lock(&self.counts[worker]).interval.offer();
            if !self.operate(worker, self.generator.next_number(), began).await {
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }

    /// Sends arrivals when they are due, from a thread of its own.
    fn keep(
        self: Arc<Self>,
        workers: &Workers,
        arrivals: impl Iterator<Item = Duration>,
        outstanding_max: usize,
    ) {
        pace(arrivals, self.window.from, self.window.until, |intended| {
            let handle = workers.round_robin();
            let worker = handle.index();
            lock(&self.counts[worker]).interval.offer();
            if self.outstanding.fetch_add(1, Ordering::AcqRel) >= outstanding_max {
                self.outstanding.fetch_sub(1, Ordering::AcqRel);
                if self.window.counts(intended) {
                    lock(&self.counts[worker]).tally.skipped += 1;
                }
                return;
            }
            let number = self.generator.next_number();
            let slice = self.clone();
            drop(handle.spawn(async move {
                slice.lagged(worker, intended);
                slice.operate(worker, number, intended).await;
                slice.outstanding.fetch_sub(1, Ordering::AcqRel);
            }));
        });
    }

    /// Notes how late an arrival is sent.
    fn lagged(&self, worker: usize, intended: Instant) {
        if self.window.counts(intended) {
            let lag_us = microseconds_between(intended, Instant::now());
            lock(&self.counts[worker]).tally.lag.saturating_record(lag_us);
        }
    }

    /// Does one operation; false when one of its requests was not accepted.
    async fn operate(&self, worker: usize, number: u64, began: Instant) -> bool {
        let (steps, waits) = self.generator.perform(number).await;
        let phases = self.generator.scenario.phases();
        {
            let mut counts = lock(&self.counts[worker]);
            let latency_us = counts.tally.count(phases, &steps, began, &self.window);
            if self.window.counts(began) {
                counts.tally.count_waits(&steps, &waits);
            }
            counts.interval.end(latency_us);
        }
        !steps.iter().any(|step| matches!(step, Step::Repeated | Step::Refused | Step::Unanswered))
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;

//! The load generator: closed and open loop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use upesi_http::Workers;

use crate::operation::Generator;
use crate::options::Load;
use crate::schedule::due;
use crate::tally::{Step, Tally, microseconds_between};

/// Wait of a virtual user after a request that was not accepted, so that a dead hub is not hammered.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);
/// The longest that the pacer of an open loop sleeps before it looks whether it should end.
const PACER_NAP_MAX: Duration = Duration::from_millis(50);

/// The times of one slice: load runs from `from` to `until`, and counts from `measure_from`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub from: Instant,
    pub measure_from: Instant,
    pub until: Instant,
}

impl Window {
    /// Whether what happens then counts.
    pub fn counts(&self, at: Instant) -> bool {
        (self.measure_from..self.until).contains(&at)
    }
}

/// One running slice.
struct Slice {
    generator: Arc<Generator>,
    window: Window,
    /// One per worker, so that counting does not share locks.
    tallies: Vec<Mutex<Tally>>,
    outstanding: AtomicUsize,
    ended: AtomicBool,
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
    load: Load,
    window: Window,
) -> Running {
    let slice = Arc::new(Slice {
        generator: generator.clone(),
        window,
        tallies: workers.iter().map(|_| Mutex::default()).collect(),
        outstanding: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
    });
    let (mut users, mut pacer) = (Vec::new(), None);
    match load {
        Load::Closed { users: count } => {
            let user = |index| workers.get(index).spawn(slice.clone().user(index % workers.count()));
            users.extend((0..count).map(user));
        }
        Load::Open { rate_per_s, outstanding_max } => {
            let (slice, workers) = (slice.clone(), workers.clone());
            // A thread of its own: the runtime's timers tell milliseconds apart, the system's sleep tens of microseconds.
            pacer = Some(std::thread::spawn(move || slice.pace(&workers, rate_per_s, outstanding_max)));
        }
    }
    Running { slice, users, pacer }
}

impl Running {
    /// Operations that completed inside the window so far.
    pub fn completed(&self) -> u64 {
        self.slice.tallies.iter().map(|tally| lock(tally).completed).sum()
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
        self.slice.ended.store(true, Ordering::Release);
        let mut sum = Tally::default();
        self.slice.tallies.iter().for_each(|tally| sum.add(&lock(tally)));
        sum
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slice {
    /// A virtual user.
    async fn user(self: Arc<Self>, worker: usize) {
        loop {
            let began = Instant::now();
            if began >= self.window.until {
                return;
            }
            if !self.operate(worker, self.generator.next_number(), began).await {
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }

    /// Sends arrivals when they are due, from a thread of its own.
    fn pace(self: Arc<Self>, workers: &Workers, rate_per_s: u32, outstanding_max: usize) {
        for arrival in 0.. {
            let intended = self.window.from + due(arrival, rate_per_s);
            if intended >= self.window.until {
                return;
            }
            loop {
                let now = Instant::now();
                if now >= intended || self.ended.load(Ordering::Acquire) {
                    break;
                }
                std::thread::sleep((intended - now).min(PACER_NAP_MAX));
            }
            let handle = workers.round_robin();
            let worker = handle.index();
            if self.outstanding.fetch_add(1, Ordering::AcqRel) >= outstanding_max {
                self.outstanding.fetch_sub(1, Ordering::AcqRel);
                if self.window.counts(intended) {
                    lock(&self.tallies[worker]).skipped += 1;
                }
                continue;
            }
            let number = self.generator.next_number();
            let slice = self.clone();
            drop(handle.spawn(async move {
                slice.lagged(worker, intended);
                slice.operate(worker, number, intended).await;
                slice.outstanding.fetch_sub(1, Ordering::AcqRel);
            }));
        }
    }

    /// Notes how late an arrival is sent.
    fn lagged(&self, worker: usize, intended: Instant) {
        if self.window.counts(intended) {
            let lag_us = microseconds_between(intended, Instant::now());
            lock(&self.tallies[worker]).lag.saturating_record(lag_us);
        }
    }

    /// Does one operation; false when one of its requests was not accepted.
    async fn operate(&self, worker: usize, number: u64, began: Instant) -> bool {
        let steps = self.generator.perform(number).await;
        let phases = self.generator.scenario.phases();
        lock(&self.tallies[worker]).count(phases, &steps, began, &self.window);
        !steps.iter().any(|step| matches!(step, Step::Repeated | Step::Refused | Step::Unanswered))
    }
}

//! The load generator: closed and open loop.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinHandle;
use upesi_http::Workers;
use upesi_sim::{OriginateError, Originator, Outcome};

use crate::audit::Originated;
use crate::options::Load;
use crate::schedule::{Pairs, due};
use crate::statistics::{LATENCY_US_MAX, latency_histogram};

/// Wait of a virtual user after a POST that was not accepted, so that a dead hub is not hammered.
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

/// What came of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Latency of transfers that began inside the window and committed, in microseconds.
    pub latency: Histogram<u64>,
    /// How late open-loop arrivals inside the window were sent, in microseconds.
    pub lag: Histogram<u64>,
    /// Transfers that committed inside the window, whenever they began.
    pub completed: u64,
    /// Transfers that began inside the window and ended by an abort, a refusal or not at all.
    pub failed: u64,
    /// Arrivals inside the window that were not sent because too many were outstanding.
    pub skipped: u64,
    /// Transfers without callback within the time a user waits; they may still come.
    pub late: u64,
    /// Everything sent, inside the window or not.
    pub originated: Originated,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            latency: latency_histogram(),
            lag: latency_histogram(),
            completed: 0,
            failed: 0,
            skipped: 0,
            late: 0,
            originated: Originated::default(),
        }
    }
}

impl Tally {
    /// Adds the figures of another slice or worker.
    pub fn add(&mut self, other: &Self) {
        // Cannot fail: all histograms have the same bounds.
        let _ = self.latency.add(&other.latency);
        let _ = self.lag.add(&other.lag);
        self.completed += other.completed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.late += other.late;
        self.originated.sent += other.originated.sent;
        self.originated.accepted += other.originated.accepted;
        self.originated.refused += other.originated.refused;
        self.originated.unanswered += other.originated.unanswered;
    }
}

/// What all users of one target share.
pub(crate) struct Generator {
    pub originator: Originator,
    pub pairs: Pairs,
    pub callback_timeout: Duration,
    /// Numbers transfers across slices.
    pub numbers: AtomicU64,
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
    /// Transfers that committed inside the window so far.
    pub fn completed(&self) -> u64 {
        self.slice.tallies.iter().map(|tally| lock(tally).completed).sum()
    }

    /// Waits until everything that was sent has ended or timed out.
    pub async fn finish(self) -> Tally {
        for user in self.users {
            // A user that panicked shows as missing transfers in the audit.
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
            let number = self.generator.numbers.fetch_add(1, Ordering::Relaxed);
            if !self.transfer(worker, number, began).await {
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
                if self.counts(intended) {
                    lock(&self.tallies[worker]).skipped += 1;
                }
                continue;
            }
            let number = self.generator.numbers.fetch_add(1, Ordering::Relaxed);
            let slice = self.clone();
            drop(handle.spawn(async move {
                slice.lagged(worker, intended);
                slice.transfer(worker, number, intended).await;
                slice.outstanding.fetch_sub(1, Ordering::AcqRel);
            }));
        }
    }

    /// Notes how late an arrival is sent.
    fn lagged(&self, worker: usize, intended: Instant) {
        if self.counts(intended) {
            let lag = Instant::now().saturating_duration_since(intended);
            lock(&self.tallies[worker]).lag.saturating_record(microseconds(lag));
        }
    }

    fn counts(&self, at: Instant) -> bool {
        (self.window.measure_from..self.window.until).contains(&at)
    }

    /// Sends one transfer and waits for its outcome; false when it was not accepted.
    async fn transfer(&self, worker: usize, number: u64, began: Instant) -> bool {
        let (payer, payee) = self.generator.pairs.of(number);
        let counts = self.counts(began);
        let pending = match self.generator.originator.send(number, payer, payee).await {
            Ok(pending) => pending,
            Err(error) => {
                tracing::debug!(%error, number, "a transfer was not accepted");
                let mut tally = lock(&self.tallies[worker]);
                tally.originated.sent += 1;
                match error {
                    OriginateError::Refused(_) => tally.originated.refused += 1,
                    OriginateError::Unanswered(_) => tally.originated.unanswered += 1,
                    OriginateError::Repeated(_) => tally.originated.sent -= 1,
                }
                tally.failed += u64::from(counts);
                return false;
            }
        };
        let finished = tokio::time::timeout(self.generator.callback_timeout, pending.finished).await;
        let mut tally = lock(&self.tallies[worker]);
        tally.originated.sent += 1;
        tally.originated.accepted += 1;
        match finished {
            Ok(Ok(finished)) if finished.outcome == Outcome::Committed => {
                tally.completed += u64::from(self.counts(finished.at));
                if counts {
                    let latency = microseconds(finished.at.saturating_duration_since(began));
                    tally.latency.saturating_record(latency);
                }
            }
            Ok(_) => tally.failed += u64::from(counts),
            Err(_) => {
                tally.late += 1;
                tally.failed += u64::from(counts);
            }
        }
        true
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LATENCY_US_MAX).clamp(1, LATENCY_US_MAX)
}

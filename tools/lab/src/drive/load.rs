//! The load generator: closed and open loop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use upesi_http::Workers;

use crate::drive::operation::Generator;
use crate::drive::pacer::pace;
use crate::drive::schedule::{Profile, arrivals};
use crate::observe::tally::{Step, Tally, microseconds_between};
use crate::observe::timeline::Interval;
use crate::observe::window::Window;
use crate::plan::load_profile::Load;

/// Pause of a virtual user after a request that was not accepted, to spare a hub that is down.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);
/// Interval at which an idle virtual user checks whether it is needed.
const IDLE_NAP: Duration = Duration::from_millis(20);

/// The counts of one worker: over the slice, and since the last interval.
#[derive(Debug, Default)]
struct Counts {
    tally: Tally,
    interval: Interval,
}

struct Slice {
    generator: Arc<Generator>,
    window: Window,
    /// One per worker, so that counting does not share locks.
    counts: Vec<Mutex<Counts>>,
    outstanding: AtomicUsize,
}

pub(crate) struct Running {
    slice: Arc<Slice>,
    users: Vec<JoinHandle<()>>,
    pacer: Option<std::thread::JoinHandle<()>>,
}

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
    /// Number of operations that have completed inside the window so far.
    pub fn completed(&self) -> u64 {
        self.slice.counts.iter().map(|counts| lock(counts).tally.completed).sum()
    }

    /// The counts since the last call.
    pub fn interval(&self) -> Interval {
        let mut sum = Interval::default();
        self.slice.counts.iter().for_each(|counts| lock(counts).interval.drain_into(&mut sum));
        sum
    }

    /// Waits until every sent operation has ended or timed out.
    pub async fn finish(self) -> Tally {
        for user in self.users {
            // The operations of a user that panicked are missing in the audit.
            if let Err(error) = user.await {
                tracing::error!(%error, "a virtual user ended early");
            }
        }
        let pacer = self.pacer;
        // The pacer ends on its own. Joining it must not block this runtime.
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
    /// Runs a virtual user. If the number of users varies, it is the user with this index.
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

    /// Sends arrivals when they are due, from a separate thread.
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

    /// Records the delay of an arrival.
    fn lagged(&self, worker: usize, intended: Instant) {
        if self.window.counts(intended) {
            let lag_us = microseconds_between(intended, Instant::now());
            lock(&self.counts[worker]).tally.lag.saturating_record(lag_us);
        }
    }

    /// Performs one operation. Returns false if one of its requests was not accepted.
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
mod tests {
    use std::sync::mpsc;

    use upesi_sim::DfspSettings;

    use super::*;
    use crate::drive::operation::tests::World;
    use crate::plan::scenario::Scenario;

    const STALL: Duration = Duration::from_millis(400);

    /// The only sending thread is delayed, as on a machine that stalls. Operations that were due in that time are sent
    /// late, and their latency counts from their due time. A generator that counts from the time of sending would show
    /// a fast hub and hide the waiting time of users.
    #[tokio::test]
    async fn latency_of_a_late_operation_counts_from_its_due_time() {
        let world = World::new(DfspSettings::default());
        let generator = Arc::new(world.generator(Scenario::Transfers));
        let (release, released) = mpsc::channel::<()>();
        let held = world.workers.get(0).spawn(async move {
            // Also ends with the test.
            let _ = released.recv();
        });
        let from = Instant::now();
        let until = from + STALL;
        let window = Window { from, measure_from: from, measure_until: until, until };
        let load = Load::Open { rate_per_s: 100, outstanding_max: 1_000 };
        let running = start(&world.workers, &generator, &load, 1, window);
        tokio::time::sleep_until(until.into()).await;
        drop(release);
        held.await.unwrap();
        let tally = running.finish().await;
        assert_eq!((tally.latency.len(), tally.lag.len(), tally.skipped, tally.failed), (40, 40, 0, 0));
        // Nothing was sent before the end of the stall. Half of all operations were due before the middle of the stall,
        // and waited for its second half.
        let half_us = u64::try_from((STALL / 2).as_micros()).unwrap();
        for histogram in [&tally.latency, &tally.lag] {
            let late = histogram.iter_recorded().filter(|step| step.value_iterated_to() >= half_us);
            let late: u64 = late.map(|step| step.count_at_value()).sum();
            assert!(late >= 20, "{late} of 40 took as long as they waited");
        }
        assert_eq!(tally.completed, 0, "all ended after the window");
        world.end().await;
    }
}

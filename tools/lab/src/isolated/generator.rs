//! The load generator alone: the delay between the due time and the start of operations that send nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use upesi_http::Workers;

use super::measurement::{
    Measurement, ThreadTimes, Times, UsedCpu, nanosecond_histogram, record, timed_stage,
};
use super::{Context, IsolatedError};
use crate::drive::pacer::pace;
use crate::drive::schedule::arrivals;
use crate::plan::load_profile::Load;
use crate::plan::stage::generator::Settings;

const SINK: &str = "lab-sink";
/// Name of the thread that keeps the schedule.
const PACER: &str = "lab-pacer";
/// Duration of the schedule before the first repetition that counts, to wake all threads.
const WARM_UP: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(1);
/// Maximum time until the last arrival of a repetition starts.
const STUCK: Duration = Duration::from_secs(30);

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let workers = Arc::new(Workers::start(self.threads, SINK)?);
        let measured = self.measure(&workers, context.seed);
        workers.shutdown();
        measured
    }

    fn measure(&self, workers: &Arc<Workers>, seed: u64) -> Result<Measurement, IsolatedError> {
        let mut measurement = Measurement::new("arrival", "this process, into nothing");
        let mut woke_ns = nanosecond_histogram();
        self.keep_schedule(workers, seed, WARM_UP)?;
        for repetition in 0..self.repetitions as u64 {
            let kept = self.keep_schedule(workers, seed.wrapping_add(repetition), self.seconds)?;
            // Cannot fail: all histograms have the same bounds.
            let _ = woke_ns.add(&kept.woke_ns);
            measurement.repeat(self.seconds, kept.late_ns.len(), &kept.late_ns, &kept.cpu);
        }
        let late_max_ns = u64::try_from(self.late_max.as_nanos()).unwrap_or(u64::MAX);
        let p99_ns = measurement.latency_ns.value_at_quantile(0.99);
        if p99_ns > late_max_ns {
            measurement.findings.push(format!(
                "1 of 100 arrivals began {} µs or more after it was due; {} µs are allowed. The sleeping thread alone was {} µs late: no \
                 more than that is the machine's, whose cores are not idle or not its own",
                p99_ns / 1_000,
                self.late_max.as_micros(),
                woke_ns.value_at_quantile(0.99) / 1_000
            ));
        }
        measurement.stages = vec![timed_stage("waking", &woke_ns, measurement.took())];
        measurement.parts(&[("lab", &[SINK, PACER])]);
        Ok(measurement)
    }

    /// Generates arrivals for this time, each on a thread of the sink.
    fn keep_schedule(
        &self,
        workers: &Arc<Workers>,
        seed: u64,
        length: Duration,
    ) -> Result<ScheduleResult, IsolatedError> {
        let load = Load::Arrivals {
            start_per_s: self.rate_per_s,
            stages: Vec::new(),
            poisson: self.random,
            outstanding_max: 1,
        };
        let sink = Arc::new(Sink { late: Times::of(self.threads), count: AtomicU64::new(0) });
        let (for_pacer, pool) = (Arc::clone(&sink), Arc::clone(workers));
        let (sent, was_sent) = std::sync::mpsc::channel();
        let pacer = std::thread::Builder::new().name(PACER.to_owned());
        let before = ThreadTimes::now();
        let work = move || {
            let from = Instant::now();
            let (mut count, mut woke_ns) = (0_u64, nanosecond_histogram());
            let arrivals = arrivals(&load, seed).into_iter().flatten();
            pace(arrivals, from, from + length, |intended| {
                record(&mut woke_ns, Instant::now() - intended);
                let (handle, sink) = (pool.round_robin(), Arc::clone(&for_pacer));
                let worker = handle.index();
                drop(handle.spawn(async move { sink.began(worker, intended) }));
                count += 1;
            });
            let _ = sent.send(count);
            woke_ns
        };
        let pacer = pacer.spawn(work).map_err(IsolatedError::thread)?;
        let stuck = || IsolatedError::Stuck { what: "the schedule", seconds: STUCK.as_secs() };
        let count = was_sent.recv_timeout(length + STUCK).map_err(|_| stuck())?;
        let deadline = Instant::now() + STUCK;
        while sink.count.load(Ordering::Acquire) < count {
            if Instant::now() > deadline {
                return Err(stuck());
            }
            std::thread::sleep(POLL);
        }
        let cpu = before.since();
        let woke_ns = pacer.join().map_err(|_| IsolatedError::panicked())?;
        Ok(ScheduleResult { late_ns: sink.late.take(), woke_ns, cpu })
    }
}

/// The result of keeping a schedule for a while.
struct ScheduleResult {
    /// Time between an arrival's due time and the start of its operation, in nanoseconds.
    late_ns: Histogram<u64>,
    /// Time between an arrival's due time and the wake-up of the sleeping thread, in nanoseconds.
    woke_ns: Histogram<u64>,
    cpu: UsedCpu,
}

/// Starts operations and ends them at once.
struct Sink {
    late: Times,
    count: AtomicU64,
}

impl Sink {
    fn began(&self, worker: usize, intended: Instant) {
        self.late.note(worker, Instant::now() - intended);
        self.count.fetch_add(1, Ordering::AcqRel);
    }
}

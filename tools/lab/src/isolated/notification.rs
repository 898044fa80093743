//! Callbacks alone: the prepares of a stream through the courier to receivers, which are sinks or simulated DFSPs. The
//! gateway, the engine and the journal are left out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use upesi_delivery::lanes::{
    Backlog, BacklogFuture, CallbackKey, Courier, CourierConfig, LaneCapacity, LaneDispatcher, OwedCallback,
    Page, ParticipantId, Position,
};
use upesi_delivery::owed::CallbackRenderer;
use upesi_engine::{DurableRecord, Participants, Payload, SharedParticipants, SystemClock};
use upesi_fspiop::Version;
use upesi_http::Workers;

use super::ledger::FoldedLedger;
use super::measurement::{Measurement, ThreadTimes};
use super::receiver::{
    CallbackReceiver, DFSPS, NUMBER_HEADER, RECEIVER, Receivers, SimulatedDfsps, Stopwatch,
};
use super::scheme::Scheme;
use super::stream::Stream;
use super::{Context, IsolatedError};
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::notification::Settings;
use crate::result::schema::StageResult;
use crate::statistics::{per_second, ratio, rounded};

const COURIER: &str = "lab-courier";
/// Number of callbacks that are handed over together, like a batch of the journal.
const HANDED_OVER: usize = 64;
/// Time without any delivery after which a run has failed.
const STUCK: Duration = Duration::from_secs(30);
const LANES_POLL: Duration = Duration::from_millis(1);
/// Memory for the callbacks of a lane; it never limits the measurement.
const QUEUE_BYTES_MAX: usize = 1 << 30;

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let stream = self.source.load_many(context, MessageKind::Prepare, self.transfers())?;
        let watch = Arc::new(Stopwatch::new(self.transfers()));
        let receivers = self.receivers(&stream, &watch, context.seed)?;
        let workers = Workers::start(self.threads, COURIER)?;
        let measured = self.deliver(&stream, &*receivers, &watch, &workers);
        workers.shutdown();
        receivers.stop();
        measured
    }

    /// Number of callbacks that open the connections. They are sent before the measurement.
    const fn first(&self) -> usize {
        self.source.messages.div_ceil(20)
    }

    /// Number of transfers of the callbacks. Sinks accept the same ones in every repetition; a DFSP answers a transfer
    /// only once.
    const fn transfers(&self) -> usize {
        if self.to_dfsps {
            self.first() + self.source.messages * self.repetitions
        } else {
            self.source.messages
        }
    }

    fn receivers(
        &self,
        stream: &Stream,
        watch: &Arc<Stopwatch>,
        seed: u64,
    ) -> Result<Box<dyn CallbackReceiver>, IsolatedError> {
        let (threads, delay) = (self.receiver_threads, self.receiver_delay);
        Ok(if self.to_dfsps {
            Box::new(SimulatedDfsps::start(&stream.header.dfsps, threads, delay, seed)?)
        } else {
            Box::new(Receivers::start(threads, delay, Arc::clone(watch))?)
        })
    }

    fn deliver(
        &self,
        stream: &Stream,
        receivers: &dyn CallbackReceiver,
        watch: &Arc<Stopwatch>,
        workers: &Workers,
    ) -> Result<Measurement, IsolatedError> {
        let (records, participants) = self.records(stream, receivers)?;
        // A sink stops the watch itself. For a DFSP, the courier's report stops it.
        let on_report = self.to_dfsps.then(|| Arc::clone(watch));
        let progress = Arc::new(Progress { watch: on_report, ..Progress::default() });
        let clock = Arc::new(SystemClock);
        let renderer = CallbackRenderer { participants, clock, version: Version::V1_1 };
        let courier = self.courier(workers, Arc::clone(&progress), renderer)?;
        open_lanes(&courier, &records)?;
        let mut feed = CallbackFeed {
            outlet: courier.outlet(),
            progress,
            watch: Arc::clone(watch),
            handed_over: 0,
            queued: self.queued,
        };
        let first = self.first();
        feed.all(&records[..first])?;
        receivers.settle(STUCK)?;
        drop(watch.take());
        let mut measurement = Measurement::new("callback", "a courier in this process");
        measurement.fed_with(stream);
        for repetition in 0..self.repetitions {
            let from = if self.to_dfsps { first + repetition * self.source.messages } else { 0 };
            let offset = if self.to_dfsps { 0 } else { (repetition as u64 + 1) * NUMBERS };
            let records = numbered_from(&records[from..from + self.source.messages], offset);
            let (before, arrived) = (ThreadTimes::now(), receivers.arrived());
            let took = feed.all(&records)?;
            receivers.settle(STUCK)?;
            let used = before.since();
            measurement.repeat(took, receivers.arrived() - arrived, &watch.take(), &used);
        }
        measurement.failed = feed.progress.parked.load(Ordering::Acquire);
        measurement.findings.extend(receivers.finding());
        let (mut attempts, mut attempts_us, mut refused) = (0, 0, 0);
        for lane in courier.lanes() {
            let Some(metrics) = courier.metrics(lane.target) else { continue };
            attempts += metrics.attempt_duration.counts().iter().sum::<u64>();
            attempts_us += metrics.attempt_duration.sum_us();
            refused += metrics.refused.load(Ordering::Relaxed) + metrics.unreachable.load(Ordering::Relaxed);
        }
        if refused > 0 {
            measurement.findings.push(format!("{refused} attempts were not answered with success"));
        }
        let completed = measurement.completed();
        measurement.stages = vec![StageResult {
            stage: "callback".to_owned(),
            operations: completed,
            per_s: rounded(per_second(completed, measurement.took()), 1),
            mean_us: rounded(ratio(attempts_us as f64, attempts as f64).unwrap_or_default(), 1),
            ..StageResult::default()
        }];
        measurement.parts(&[("hub", &[COURIER]), ("lab", &[RECEIVER, DFSPS])]);
        Ok(measurement)
    }

    fn courier(
        &self,
        workers: &Workers,
        progress: Arc<Progress>,
        renderer: CallbackRenderer,
    ) -> Result<Courier, IsolatedError> {
        let config = CourierConfig {
            concurrency_max: self.connections,
            // Lanes never overflow, because `queued` bounds the callbacks that are handed over.
            queue_max: self.queued + HANDED_OVER + self.connections,
            queue_bytes_max: QUEUE_BYTES_MAX,
            retrying_max: self.connections,
            keep_alive: self.keep_alive,
            ..CourierConfig::default()
        };
        let refused = |mistakes: Vec<upesi_delivery::lanes::ConfigError>| {
            IsolatedError::Settings(mistakes.iter().map(ToString::to_string).collect())
        };
        Courier::start(workers, config, progress, Arc::new(renderer)).map_err(refused)
    }

    /// The records of the stream's prepares as a journal would hold them, and the participants.
    fn records(
        &self,
        stream: &Stream,
        receivers: &dyn CallbackReceiver,
    ) -> Result<(Vec<Arc<DurableRecord>>, SharedParticipants), IsolatedError> {
        let mut folded = FoldedLedger::onboarded(&Scheme::of(stream, Some(receivers.url()))?)?;
        let participants = SharedParticipants::default();
        participants.set(Arc::new(Participants::of(&folded.ledger)));
        let mut records = Vec::with_capacity(self.transfers());
        for (index, ready) in stream.decode(MessageKind::Prepare, self.transfers())?.iter().enumerate() {
            folded.decide(&ready.command);
            // The hub forwards unknown headers. With this number, a receiver finds the time of the handover.
            let number = format!("{NUMBER_HEADER}: {index}\r\n");
            let headers = [&ready.payload.headers[..], number.as_bytes()].concat().into();
            records.push(Arc::new(DurableRecord {
                // Numbers start from 1, because 0 stands for no callback.
                seq: index as u64 + 1,
                time: folded.ledger.last_time(),
                callbacks: folded.take_callbacks(),
                payload: Payload { headers, body: ready.payload.body.clone() },
                prepared_before: None,
                asker: None,
            }));
        }
        Ok((records, participants))
    }
}

/// The same records later in the journal, because a lane never accepts a callback twice.
fn numbered_from(records: &[Arc<DurableRecord>], offset: u64) -> Vec<Arc<DurableRecord>> {
    let later =
        |record: &Arc<DurableRecord>| DurableRecord { seq: record.seq + offset, ..(**record).clone() };
    records.iter().map(|record| Arc::new(later(record))).collect()
}

/// Opens the lanes of all receivers and waits until they accept callbacks directly, instead of reading the backlog.
fn open_lanes(courier: &Courier, records: &[Arc<DurableRecord>]) -> Result<(), IsolatedError> {
    let targets: BTreeSet<_> =
        records.iter().flat_map(|record| record.keys()).map(|key| key.target).collect();
    targets.iter().for_each(|target| courier.open(*target));
    let started = Instant::now();
    while courier.lanes().iter().any(|lane| lane.catching_up) {
        if started.elapsed() > STUCK {
            return Err(IsolatedError::Stuck { what: "opening lanes", seconds: STUCK.as_secs() });
        }
        std::thread::sleep(LANES_POLL);
    }
    Ok(())
}

/// The courier's reports so far. It also serves as an empty backlog.
#[derive(Default)]
struct Progress {
    delivered: Mutex<u64>,
    changed: Condvar,
    parked: AtomicU64,
    watch: Option<Arc<Stopwatch>>,
}

impl Progress {
    fn add(&self, count: u64) {
        *self.delivered.lock().unwrap_or_else(PoisonError::into_inner) += count;
        self.changed.notify_all();
    }

    /// Waits until more than `known` callbacks have been reported, and returns their number; `None` if no report comes.
    fn after(&self, known: u64) -> Option<u64> {
        let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(delivered, STUCK, |delivered| *delivered <= known);
        let delivered = *waited.unwrap_or_else(PoisonError::into_inner).0;
        (delivered > known).then_some(delivered)
    }

    fn now(&self) -> u64 {
        *self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog for Progress {
    fn pending(
        &self,
        _target: ParticipantId,
        _after: Option<Position>,
        _room: LaneCapacity,
    ) -> BacklogFuture<'_, Page> {
        // Callbacks that are handed over always fit into the lane, so the backlog is empty.
        Box::pin(async { Ok(Page { items: Vec::new(), more_after: None }) })
    }

    fn keys(
        &self,
        _target: ParticipantId,
        _after: Option<Position>,
        _limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn load(&self, _keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<OwedCallback>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn delivered(&self, keys: Vec<CallbackKey>) {
        if let Some(watch) = &self.watch {
            keys.iter().for_each(|key| watch.end(number_of(key.seq)));
        }
        self.add(keys.len() as u64);
    }

    fn parked(&self, _key: CallbackKey, reason: String, _attempts: u32) {
        tracing::warn!(%reason, "a callback of a measurement was parked");
        self.parked.fetch_add(1, Ordering::AcqRel);
        self.add(1);
    }
}

/// Sequence numbers of repetitions are further apart than any number of messages.
const NUMBERS: u64 = 1 << 32;

/// The number of the callback that a record owes, from 0.
const fn number_of(seq: u64) -> usize {
    ((seq - 1) % NUMBERS) as usize
}

/// Hands callbacks over, a bounded number at a time.
struct CallbackFeed {
    outlet: LaneDispatcher,
    progress: Arc<Progress>,
    watch: Arc<Stopwatch>,
    handed_over: u64,
    queued: usize,
}

impl CallbackFeed {
    /// Hands all records over and waits until all are reported.
    fn all(&mut self, records: &[Arc<DurableRecord>]) -> Result<Duration, IsolatedError> {
        let stuck = || IsolatedError::Stuck { what: "delivery of callbacks", seconds: STUCK.as_secs() };
        let started = Instant::now();
        let mut delivered = self.progress.now();
        for (index, record) in records.iter().enumerate() {
            while self.handed_over - delivered >= self.queued as u64 {
                self.outlet.flush();
                delivered = self.progress.after(delivered).ok_or_else(stuck)?;
            }
            for key in record.keys() {
                self.watch.begin(number_of(record.seq));
                self.outlet.offer(OwedCallback::new(key, record));
                self.handed_over += 1;
            }
            if index % HANDED_OVER == HANDED_OVER - 1 {
                self.outlet.flush();
            }
        }
        self.outlet.flush();
        while delivered < self.handed_over {
            delivered = self.progress.after(delivered).ok_or_else(stuck)?;
        }
        Ok(started.elapsed())
    }
}

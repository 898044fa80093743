//! A running engine with its threads.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Builder, JoinHandle};
use std::time::Instant;

use tokio::sync::watch;
use upesi_journal::{DataDirectory, Durability};
use upesi_ledger::{Ledger, ParticipantId};
use upesi_tables::archive::Archive;

use crate::archivist::Archivist;
use crate::backlog::RecordReader;
use crate::clock::GuardedClock;
use crate::commit_thread::{CommitChannels, CommitThread, run_commit_thread};
use crate::committer::Committer;
use crate::decider::{Decider, Ticks};
use crate::durable_seq::DurableSeq;
use crate::error::{StartError, StopReason};
use crate::handle::{EngineHandle, Inner};
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::participants::Participants;
use crate::progress::ArchiveProgress;
use crate::queue::Queue;
use crate::record::Effects;
use crate::recovery::{RecoveredEngine, StandbyEngine, recover};
use crate::shared::{Availability, SharedState, has_no_dfsp};

/// The `nice` value of the archivist's thread.
const ARCHIVIST_NICENESS: i32 = 10;

/// Owns the engine's threads and the lock of the data directory.
pub struct Engine {
    shared: Arc<SharedState>,
    decider: Option<JoinHandle<()>>,
    journal: Option<JoinHandle<()>>,
    archivist: Option<JoinHandle<()>>,
    _archive: Arc<dyn Archive>,
    _directory: Option<DataDirectory>,
}

impl Engine {
    /// Recovers the state of the data directory and starts the engine.
    pub fn start(
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let recovered = recover(&options)?;
        Self::start_recovered(recovered, options, metrics, effects)
    }

    /// Starts the engine from the state of a standby. The log in the options is the log of the cluster, with
    /// this node as leader.
    ///
    /// # Errors
    /// Returns an error if another node took over the log, or if the copy cannot be read.
    pub fn take_over(
        standby: StandbyEngine,
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let recovered = standby.take_over(&options)?;
        Self::start_recovered(recovered, options, metrics, effects)
    }

    fn start_recovered(
        recovered: RecoveredEngine,
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        expect_own_name(&recovered.ledger)?;
        let (jobs, jobs_to_run) = mpsc::channel();
        let (jobs_done, done) = mpsc::channel();
        let channels = CommitChannels { jobs, done };
        let ticks = Ticks::At(Instant::now() + options.tick_interval);
        let AssembledEngine { shared, handle, decider, archivist, archive, directory } =
            assemble(recovered, options, metrics, effects, channels, ticks);
        let decider = spawn("upesi-engine", &shared, move |_| decider.run())?;
        let journal = spawn("upesi-journal", &shared, move |shared| {
            run_commit_thread(&jobs_to_run, &jobs_done, shared);
        })?;
        let archivist = spawn("upesi-archivist", &shared, |shared| run_archivist(archivist, shared))?;
        Ok((
            Self {
                shared,
                decider: Some(decider),
                journal: Some(journal),
                archivist: Some(archivist),
                _archive: archive,
                _directory: directory,
            },
            handle,
        ))
    }

    /// Decides everything in the queue, stops the threads and writes a snapshot.
    pub fn shutdown(mut self) {
        self.stop();
    }

    /// Stops the threads. A thread's panic is resumed on the calling thread, because a panic that does not end the
    /// process must not go unnoticed.
    fn stop(&mut self) {
        self.shared.queue.close();
        let ended = [join(self.decider.take()), join(self.journal.take())];
        self.shared.archive.close(self.shared.durable.get());
        let panicked = ended.into_iter().chain([join(self.archivist.take())]).find_map(Result::err);
        if let (Some(panic), false) = (panicked, thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Checks that the hub's name differs from every DFSP's name, ignoring case.
fn expect_own_name(ledger: &Ledger) -> Result<(), StartError> {
    let hub = ledger.config().hub_name;
    let mut others = ledger.participants().iter().filter(|other| other.id != ParticipantId::HUB);
    match others.find(|other| other.name.eq_ignore_case(&hub)) {
        Some(dfsp) => Err(StartError::HubName(dfsp.name)),
        None => Ok(()),
    }
}

/// A recovered engine that is not running yet.
pub(crate) struct AssembledEngine<H> {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) handle: EngineHandle,
    pub(crate) decider: Decider<H>,
    pub(crate) archivist: Archivist,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) directory: Option<DataDirectory>,
}

/// Assembles the parts of the engine.
pub(crate) fn assemble<H: CommitThread>(
    recovered: RecoveredEngine,
    options: EngineOptions,
    metrics: EngineMetrics,
    mut effects: Box<dyn Effects>,
    commit_thread: H,
    ticks: Ticks,
) -> AssembledEngine<H> {
    let RecoveredEngine { directory, log, ledger, appender, archive, mut archivist } = recovered;
    archivist.metrics = metrics.clone();
    metrics.snapshot_seq.set(archivist.snapshot_seq as i64);
    let clock = GuardedClock::new(Arc::clone(&options.clock), options.clock_jump_max);
    let shared = Arc::new(SharedState {
        queue: Queue::new(options.queue_commands_max),
        durable: Arc::new(DurableSeq::new(ledger.last_seq())),
        archive: ArchiveProgress::new(options.fold_every_records, archivist.fold.ledger.last_seq()),
        serving: Mutex::new(Availability::Yes),
        stopped: watch::Sender::new(None),
        is_durable: options.durability == Durability::Synced,
        clock: Arc::new(clock),
        is_new: AtomicBool::new(has_no_dfsp(&ledger)),
        successor: OnceLock::new(),
    });
    shared.archive.journal_reached(ledger.last_seq());
    let handle = EngineHandle {
        inner: Arc::new(Inner {
            shared: Arc::clone(&shared),
            archive: Arc::downgrade(&archive),
            records: Arc::new(RecordReader::new(Arc::clone(&log))),
            log,
            metrics: metrics.clone(),
        }),
    };
    effects.participants(Arc::new(Participants::of(&ledger)));
    let committer = Committer::new(Arc::clone(&shared), metrics.clone(), appender, effects);
    let decider =
        Decider::new(Arc::clone(&shared), options, metrics, ledger, committer, commit_thread, ticks);
    AssembledEngine { shared, handle, decider, archivist, archive, directory }
}

pub(crate) fn spawn(
    name: &'static str,
    shared: &Arc<SharedState>,
    work: impl FnOnce(&SharedState) + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let shared = Arc::clone(shared);
    let work = move || {
        let guard = PanicGuard { name, shared: &shared };
        work(&shared);
        drop(guard);
    };
    Builder::new().name(name.into()).spawn(work).map_err(StartError::Thread)
}

pub(crate) fn join(thread: Option<JoinHandle<()>>) -> thread::Result<()> {
    thread.map_or(Ok(()), JoinHandle::join)
}

/// Stops the engine if one of its threads panics, so that no other part waits for that thread.
struct PanicGuard<'a> {
    name: &'static str,
    shared: &'a SharedState,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.stop(StopReason::Panicked(self.name));
            // The decider may be the thread that panicked. Submissions from before the queue was closed are dropped,
            // and their senders notice.
            let mut submissions = VecDeque::new();
            while self.shared.queue.take_now(&mut submissions) {
                submissions.clear();
            }
        }
    }
}

/// Lowers the archivist's priority, because the archivist can wait and requests cannot. If the system does not permit
/// this, the archivist keeps its priority.
fn yield_to_the_others() {
    let lowered = rustix::process::setpriority_process(Some(rustix::thread::gettid()), ARCHIVIST_NICENESS);
    if let Err(error) = lowered {
        tracing::debug!(%error, "cannot lower the priority of the archivist");
    }
}

/// Runs the archivist. Its failure stops the engine, because finished transfers would accumulate in memory without the
/// archive.
fn run_archivist(archivist: Archivist, shared: &SharedState) {
    yield_to_the_others();
    if let Err(error) = archivist.run(&shared.archive) {
        tracing::error!(%error, "the archivist failed");
        shared.stop(StopReason::Archive(error.to_string()));
    }
}

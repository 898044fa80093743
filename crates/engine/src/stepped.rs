//! An engine without threads, which does the same work step by step on request.

use std::collections::VecDeque;
use std::sync::Arc;

use upesi_journal::DataDirectory;
use upesi_ledger::{Decision, Ledger};
use upesi_tables::archive::Archive;

use crate::archivist::Archivist;
use crate::commit_thread::{CommitJob, CommitThread};
use crate::decider::{Decider, Ticks};
use crate::engine::{AssembledEngine, assemble};
use crate::error::{StartError, StopReason};
use crate::handle::EngineHandle;
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::queue::Submission;
use crate::record::Effects;
use crate::recovery::{RecoveredEngine, StandbyEngine, recover};
use crate::shared::SharedState;

/// A mistake that is injected into decisions before they are recorded.
pub type DecisionFault = Box<dyn FnMut(&mut Decision) + Send>;

/// An engine that works only on request, on the calling thread. It is for simulations that depend on a seed alone. It
/// takes, decides, commits and releases with the code of [`Engine`](crate::Engine)'s threads.
///
/// Its handle works without a runtime: polling a returned future drives it. Dropping the engine is a crash; nothing is
/// written.
pub struct SteppedEngine {
    shared: Arc<SharedState>,
    decider: Decider<SteppedCommitThread>,
    archivist: Option<Archivist>,
    submissions: VecDeque<Submission>,
    is_running: bool,
    _archive: Arc<dyn Archive>,
    _directory: Option<DataDirectory>,
}

impl SteppedEngine {
    /// Recovers the state of the data directory. `tick_interval` has no effect.
    pub fn start(
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let recovered = recover(&options)?;
        Ok(Self::start_recovered(recovered, options, metrics, effects))
    }

    /// Like [`Engine::take_over`](crate::Engine::take_over).
    ///
    /// # Errors
    /// Returns an error if another node took over the log, or if the copy cannot be read.
    pub fn take_over(
        standby: StandbyEngine,
        options: EngineOptions,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let recovered = standby.take_over(&options)?;
        Ok(Self::start_recovered(recovered, options, EngineMetrics::default(), effects))
    }

    fn start_recovered(
        recovered: RecoveredEngine,
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> (Self, EngineHandle) {
        let AssembledEngine { shared, handle, decider, archivist, archive, directory } = assemble(
            recovered,
            options,
            metrics,
            effects,
            SteppedCommitThread::default(),
            Ticks::Asked(false),
        );
        let engine = Self {
            shared,
            decider,
            archivist: Some(archivist),
            submissions: VecDeque::new(),
            is_running: true,
            _archive: archive,
            _directory: directory,
        };
        (engine, handle)
    }

    /// Injects a mistake into every later decision, to prove that an auditor finds it.
    pub fn plant(&mut self, mistake: DecisionFault) {
        self.decider.commit_thread().mistake = Some(mistake);
    }

    /// One turn of the engine's thread: everything in the queue and, with `ticks`, the deadlines. Returns false after
    /// the engine has stopped; the handle reports the reason.
    pub fn turn(&mut self, ticks: bool) -> bool {
        if !self.is_running {
            return false;
        }
        if ticks {
            self.decider.ask_for_tick();
        }
        let is_open = self.shared.queue.take_now(&mut self.submissions);
        let ended = if is_open {
            self.decider.turn(&mut self.submissions).err().map(StopReason::of_journal)
        } else {
            Some(self.decider.finish())
        };
        if let Some(reason) = ended {
            self.is_running = false;
            self.decider.stop(std::mem::take(&mut self.submissions), reason);
        }
        self.is_running
    }

    /// One turn of the journal's thread: commits the submitted large batch. Returns false if there is none.
    pub fn turn_journal(&mut self) -> bool {
        self.decider.commit_thread().run()
    }

    /// One turn of the archivist's thread. Returns false after it has failed, which stops the engine.
    pub fn turn_archivist(&mut self) -> bool {
        let Some(archivist) = &mut self.archivist else { return false };
        if let Err(error) = archivist.step(&self.shared.archive) {
            tracing::error!(%error, "the archivist failed");
            self.archivist = None;
            self.shared.stop(StopReason::Archive(error.to_string()));
        }
        self.archivist.is_some()
    }

    /// The state, including decisions that are not durable yet.
    pub const fn ledger(&self) -> &Ledger {
        self.decider.ledger()
    }

    /// Decides everything in the queue and writes a snapshot.
    pub fn shutdown(mut self) {
        self.shared.queue.close();
        while self.turn(false) {}
        self.shared.archive.close(self.shared.durable.get());
        self.turn_archivist();
    }
}

impl std::fmt::Debug for SteppedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedEngine").field("is_running", &self.is_running).finish_non_exhaustive()
    }
}

/// A commit thread that works on request, or when the engine waits for it.
#[derive(Default)]
struct SteppedCommitThread {
    waiting: Option<Box<CommitJob>>,
    done: Option<Box<CommitJob>>,
    mistake: Option<DecisionFault>,
}

impl SteppedCommitThread {
    fn run(&mut self) -> bool {
        let Some(mut job) = self.waiting.take() else { return false };
        job.run();
        self.done = Some(job);
        true
    }
}

impl CommitThread for SteppedCommitThread {
    fn submit(&mut self, job: Box<CommitJob>) -> Result<(), Box<CommitJob>> {
        self.waiting = Some(job);
        Ok(())
    }

    fn try_recv(&mut self) -> Option<Box<CommitJob>> {
        self.done.take()
    }

    fn recv(&mut self) -> Option<Box<CommitJob>> {
        self.run();
        self.done.take()
    }

    fn decided(&mut self, decision: &mut Decision) {
        if let Some(mistake) = &mut self.mistake {
            mistake(decision);
        }
    }
}

//! An engine without threads: the same work, done when its owner says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use upesi_archive::Archive;
use upesi_journal::DataDirectory;
use upesi_ledger::Ledger;

use crate::archivist::Archivist;
use crate::committer::{Errand, Hands};
use crate::engine::{Assembled, assemble};
use crate::error::{StartError, StopReason};
use crate::handle::EngineHandle;
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::queue::Submission;
use crate::record::Effects;
use crate::worker::{Shared, Ticks, Worker};

/// An engine that works only when it is told to, on the thread that tells it: for simulations, where one seed decides
/// everything. The step that takes, decides, commits and lets go is the one that [`Engine`](crate::Engine)'s threads run.
///
/// Its handle works without a runtime: whoever polls what it returns drives it. Dropping it is a crash, nothing is
/// written.
pub struct SteppedEngine {
    shared: Arc<Shared>,
    worker: Worker<Later>,
    archivist: Option<Archivist>,
    submissions: VecDeque<Submission>,
    is_running: bool,
    _archive: Arc<dyn Archive>,
    _directory: Option<DataDirectory>,
}

impl SteppedEngine {
    /// Recovers the state of the data directory. `tick_interval` counts for nothing here.
    pub fn start(
        options: EngineOptions,
        metrics: EngineMetrics,
        effects: Box<dyn Effects>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let Assembled { shared, handle, worker, archivist, archive, directory } =
            assemble(options, metrics, effects, Later::default(), Ticks::Asked(false))?;
        let engine = Self {
            shared,
            worker,
            archivist: Some(archivist),
            submissions: VecDeque::new(),
            is_running: true,
            _archive: archive,
            _directory: directory,
        };
        Ok((engine, handle))
    }

    /// One turn of the engine's thread: everything that has queued up, and with `ticks` the deadlines. False once it has
    /// stopped; the handle tells why.
    pub fn turn(&mut self, ticks: bool) -> bool {
        if !self.is_running {
            return false;
        }
        if ticks {
            self.worker.ask_for_tick();
        }
        let is_open = self.shared.queue.take_now(&mut self.submissions);
        let ended = if is_open {
            self.worker.turn(&mut self.submissions).err().map(StopReason::of_journal)
        } else {
            Some(self.worker.finish())
        };
        if let Some(reason) = ended {
            self.is_running = false;
            self.worker.stop(std::mem::take(&mut self.submissions), reason);
        }
        self.is_running
    }

    /// One turn of the journal's thread: commits the large batch that was given to it. False where there is none.
    pub fn turn_journal(&mut self) -> bool {
        self.worker.hands().run()
    }

    /// One turn of the archivist's thread. False once it has failed, which stops the engine.
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
        self.worker.ledger()
    }

    /// Decides what has queued up and leaves a snapshot behind.
    pub fn shutdown(mut self) {
        self.shared.queue.close();
        while self.turn(false) {}
        self.shared.archive.close(self.shared.durable_seq.load(Ordering::Acquire));
        self.turn_archivist();
    }
}

impl std::fmt::Debug for SteppedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedEngine").field("is_running", &self.is_running).finish_non_exhaustive()
    }
}

/// A journal's thread that works when it is told to, or when it is waited for.
#[derive(Default)]
struct Later {
    waiting: Option<Box<Errand>>,
    done: Option<Box<Errand>>,
}

impl Later {
    fn run(&mut self) -> bool {
        let Some(mut errand) = self.waiting.take() else { return false };
        errand.run();
        self.done = Some(errand);
        true
    }
}

impl Hands for Later {
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>> {
        self.waiting = Some(errand);
        Ok(())
    }

    fn take_back(&mut self) -> Option<Box<Errand>> {
        self.done.take()
    }

    fn wait(&mut self) -> Option<Box<Errand>> {
        self.run();
        self.done.take()
    }
}

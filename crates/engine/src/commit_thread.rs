//! The thread that commits large batches while the engine's thread decides the next batch.

use std::sync::mpsc::{Receiver, Sender};

use upesi_journal::JournalError;
use upesi_ledger::Decision;

use crate::committer::Committer;
use crate::pending_batch::PendingBatch;
use crate::shared::SharedState;

/// A batch on its way to the commit thread and back, together with its committer.
pub(crate) struct CommitJob {
    pub(crate) committer: Committer,
    pub(crate) pending: PendingBatch,
    pub(crate) result: Result<(), JournalError>,
}

impl CommitJob {
    /// Commits the batch.
    pub(crate) fn run(&mut self) {
        self.result = self.committer.commit(&mut self.pending);
    }
}

/// Commits large batches while the next batch is decided.
pub(crate) trait CommitThread {
    /// Submits a batch. Returns it if the thread has ended.
    fn submit(&mut self, job: Box<CommitJob>) -> Result<(), Box<CommitJob>>;

    /// Returns a committed batch, if there is one.
    fn try_recv(&mut self) -> Option<Box<CommitJob>>;

    /// Waits for the submitted batch. Returns `None` if the thread has ended.
    fn recv(&mut self) -> Option<Box<CommitJob>>;

    /// Called with each decision before it is recorded. Only simulations use it, to inject mistakes.
    fn decided(&mut self, _decision: &mut Decision) {}
}

/// The channels to and from the commit thread.
pub(crate) struct CommitChannels {
    pub(crate) jobs: Sender<Box<CommitJob>>,
    pub(crate) done: Receiver<Box<CommitJob>>,
}

impl CommitThread for CommitChannels {
    fn submit(&mut self, job: Box<CommitJob>) -> Result<(), Box<CommitJob>> {
        self.jobs.send(job).map_err(|unsent| unsent.0)
    }

    fn try_recv(&mut self) -> Option<Box<CommitJob>> {
        self.done.try_recv().ok()
    }

    fn recv(&mut self) -> Option<Box<CommitJob>> {
        self.done.recv().ok()
    }
}

/// The main loop of the commit thread.
pub(crate) fn run_commit_thread(
    jobs: &Receiver<Box<CommitJob>>,
    done: &Sender<Box<CommitJob>>,
    shared: &SharedState,
) {
    for mut job in jobs {
        job.run();
        if done.send(job).is_err() {
            return;
        }
        shared.queue.nudge();
    }
}

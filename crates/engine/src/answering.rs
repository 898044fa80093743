//! The engine of a standby that answers queries from the records that it has followed.

use std::collections::VecDeque;
use std::mem;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;
use upesi_journal::{Durability, Log};
use upesi_ledger::Ledger;

use crate::backlog::RecordReader;
use crate::clock::{ClockState, GuardedClock};
use crate::durable_seq::DurableSeq;
use crate::engine::{join, spawn};
use crate::error::{StartError, StopReason, SubmitError};
use crate::handle::{EngineHandle, Inner};
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::progress::ArchiveProgress;
use crate::queue::{Queue, Submission};
use crate::recovery::StandbyEngine;
use crate::shared::{Availability, SharedState, has_no_dfsp};

/// Interval between comparisons of the clocks while no queries arrive.
const PATIENCE: Duration = Duration::from_secs(1);

/// A [`StandbyEngine`] whose handle answers queries and rejects commands, because another node is the leader.
pub struct AnsweringStandby {
    shared: Arc<SharedState>,
    standby: Arc<Mutex<StandbyEngine>>,
    answers: Option<JoinHandle<()>>,
}

impl AnsweringStandby {
    /// Starts to answer queries. `log` reads the local copy.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(
        standby: StandbyEngine,
        options: &EngineOptions,
        log: &Arc<dyn Log>,
    ) -> Result<(Self, EngineHandle), StartError> {
        let (ledger, archive) = (standby.ledger(), standby.archive());
        let clock = GuardedClock::new(Arc::clone(&options.clock), options.clock_jump_max);
        let shared = Arc::new(SharedState {
            queue: Queue::new(options.queue_commands_max),
            durable: Arc::new(DurableSeq::new(ledger.last_seq())),
            archive: ArchiveProgress::new(options.fold_every_records, standby.archived_to()),
            serving: Mutex::new(Availability::Following),
            stopped: watch::Sender::new(None),
            is_durable: options.durability == Durability::Synced,
            clock: Arc::new(clock),
            is_new: AtomicBool::new(has_no_dfsp(ledger)),
            successor: OnceLock::new(),
        });
        let handle = EngineHandle {
            inner: Arc::new(Inner {
                shared: Arc::clone(&shared),
                archive: Arc::downgrade(archive),
                records: Arc::new(RecordReader::new(Arc::clone(log))),
                log: Arc::clone(log),
                metrics: EngineMetrics::default(),
            }),
        };
        let standby = Arc::new(Mutex::new(standby));
        let asked = Arc::clone(&standby);
        let answers = spawn("upesi-standby", &shared, move |shared| answer_all(shared, &asked))?;
        Ok((Self { shared, standby, answers: Some(answers) }, handle))
    }

    /// Like [`StandbyEngine::follow_to`].
    ///
    /// # Errors
    /// Like [`StandbyEngine::follow_to`].
    pub fn follow_to(&self, seq: u64) -> Result<(), StartError> {
        let mut standby = lock(&self.standby);
        let followed = standby.follow_to(seq);
        self.shared.archive.publish(standby.archived_to());
        self.shared.durable.publish(standby.ledger().last_seq());
        self.shared.is_new.store(has_no_dfsp(standby.ledger()), Ordering::Relaxed);
        followed
    }

    /// Stops answering queries and waits for the current one.
    ///
    /// # Panics
    /// Panics if the answering thread panicked.
    pub fn end(mut self) -> StandbyEngine {
        self.stop();
        let standby = Arc::clone(&self.standby);
        drop(self);
        let Some(standby) = Arc::into_inner(standby) else {
            unreachable!("the thread that had it has ended")
        };
        standby.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&mut self) {
        self.shared.stop(StopReason::Shutdown);
        if let (Err(panic), false) = (join(self.answers.take()), thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

impl Drop for AnsweringStandby {
    fn drop(&mut self) {
        self.stop();
    }
}

fn answer_all(shared: &SharedState, standby: &Mutex<StandbyEngine>) {
    let (mut submissions, mut clock) = (VecDeque::new(), ClockState::default());
    while shared.queue.take_all(&mut submissions, PATIENCE) {
        let standby = lock(standby);
        let before = mem::replace(&mut clock, shared.clock.compare(standby.ledger().last_time()));
        clock.report_change_from(before);
        submissions.drain(..).for_each(|submission| answer(submission, standby.ledger()));
    }
}

/// Answers a submission. All followed records are already on this node's disk and on the brokers' disks.
fn answer(submission: Submission, ledger: &Ledger) {
    match submission {
        Submission::Question(question) => question(ledger)(Ok(())),
        Submission::Command { answer, .. } => {
            // The sender may no longer be waiting.
            let _ = answer.send(Err(SubmitError::Stopped));
        }
        Submission::Quiet(_) => {}
    }
}

/// Ignores poisoning: the followed state is consistent between two records, and does not change after an error.
fn lock(standby: &Mutex<StandbyEngine>) -> MutexGuard<'_, StandbyEngine> {
    standby.lock().unwrap_or_else(PoisonError::into_inner)
}

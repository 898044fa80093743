//! The state that the engine's threads and its handles share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;
use upesi_ledger::Ledger;

use crate::clock::{ClockState, GuardedClock};
use crate::durable_seq::DurableSeq;
use crate::error::StopReason;
use crate::progress::ArchiveProgress;
use crate::queue::Queue;

/// Whether the engine accepts commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The engine accepts commands.
    Yes,
    /// The engine only answers queries, because the disk is full.
    ReadOnly,
    /// The engine accepts and answers nothing, because the brokers of the cluster's log do not acknowledge earlier
    /// commands.
    HeldUp,
    /// The engine only answers queries, because another node is the leader.
    Following,
    /// The engine has stopped.
    Stopped(StopReason),
}

/// The state of a running engine.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// Whether the engine accepts commands.
    pub serving: Availability,
    /// Commands in the queue.
    pub queue_depth: usize,
    /// Last durable journal sequence number.
    pub durable_seq: u64,
    /// The archive contains all transfers that finished up to this journal sequence number.
    pub archived_seq: u64,
    /// Whether acknowledged commands are on disk (false only in measurements).
    pub is_durable: bool,
    /// The hub's time compared with the clocks.
    pub clock: ClockState,
    /// Whether the hub is the only participant.
    pub is_new: bool,
}

/// Whether the hub is the only participant.
pub(crate) fn has_no_dfsp(ledger: &Ledger) -> bool {
    ledger.participants().len() <= 1
}

/// The state that the engine's threads and handles share.
pub(crate) struct SharedState {
    pub(crate) queue: Queue,
    pub(crate) durable: Arc<DurableSeq>,
    pub(crate) archive: ArchiveProgress,
    pub(crate) serving: Mutex<Availability>,
    pub(crate) stopped: watch::Sender<Option<StopReason>>,
    pub(crate) is_durable: bool,
    pub(crate) clock: Arc<GuardedClock>,
    /// Whether the hub is the only participant.
    pub(crate) is_new: AtomicBool,
    /// The node that will lead next, or any node; set when a hand-over was requested.
    pub(crate) successor: OnceLock<Option<u32>>,
}

impl SharedState {
    pub(crate) fn serving(&self) -> MutexGuard<'_, Availability> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        let mut serving = self.serving();
        if !matches!(*serving, Availability::Stopped(_)) {
            *serving = Availability::Stopped(reason.clone());
            self.stopped.send_replace(Some(reason));
        }
        drop(serving);
        self.durable.close();
        // The queue is closed last, because the decider treats a closed queue without a reason as a normal shutdown.
        self.queue.close();
    }

    pub(crate) fn status(&self) -> EngineStatus {
        EngineStatus {
            serving: self.serving().clone(),
            queue_depth: self.queue.len(),
            durable_seq: self.durable.get(),
            archived_seq: self.archive.watermark(),
            is_durable: self.is_durable,
            clock: self.clock.state(),
            is_new: self.is_new.load(Ordering::Relaxed),
        }
    }
}

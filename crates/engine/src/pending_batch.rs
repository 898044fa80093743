//! The batch that is being filled or written, with everything that leaves the engine when it is durable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_journal::Batch;
use upesi_ledger::command::{BulkCommand, FxTransferCommand};
use upesi_ledger::{CallbackKey, Command, Reply};

use crate::error::SubmitError;
use crate::participants::Participants;
use crate::queue::{Answer, Completion};
use crate::record::DurableRecord;
use crate::reply_batcher::ReplyBatcher;

/// A sender that waits for a batch to become durable.
pub(crate) enum Waiter {
    Caller {
        answer: oneshot::Sender<Answer>,
        batcher: Option<Arc<ReplyBatcher>>,
        reply: Reply,
        kind: CommandKind,
        arrived: Instant,
        /// The record whose callbacks to the sender wait for the reply, if it has such callbacks.
        held: Option<Arc<DurableRecord>>,
    },
    Question(Completion),
}

/// Commands whose durations are measured separately.
#[derive(Clone, Copy)]
pub(crate) enum CommandKind {
    Prepare,
    Fulfil,
    Get,
    Other,
}

impl CommandKind {
    pub(crate) const fn of(command: &Command) -> Self {
        match command {
            Command::Prepare(_)
            | Command::FxTransfer(FxTransferCommand::Prepare(_))
            | Command::Bulk(BulkCommand::Prepare(_)) => Self::Prepare,
            Command::Fulfil(_)
            | Command::Abort(_)
            | Command::FxTransfer(FxTransferCommand::Fulfil(_) | FxTransferCommand::Abort(_))
            | Command::Bulk(BulkCommand::Fulfil(_) | BulkCommand::Abort(_)) => Self::Fulfil,
            Command::Get(_)
            | Command::FxTransfer(FxTransferCommand::Get(_))
            | Command::Bulk(BulkCommand::Get(_)) => Self::Get,
            _ => Self::Other,
        }
    }
}

/// A batch with the replies, callbacks and changes that leave the engine when it is durable. It is recycled.
pub(crate) struct PendingBatch {
    pub(crate) batch: Batch,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) records: Vec<Arc<DurableRecord>>,
    pub(crate) redelivered: Vec<CallbackKey>,
    /// The participants after the batch, if they changed.
    pub(crate) participants: Option<Arc<Participants>>,
    /// Number of position changes in the batch.
    pub(crate) positions: u64,
    /// Time since which the engine has been deciding commands into the batch; `None` while the batch is paused.
    deciding_since: Option<Instant>,
    /// Time spent deciding before that.
    pub(crate) decided: Duration,
}

impl PendingBatch {
    pub(crate) fn new(first_seq: u64) -> Self {
        Self {
            batch: Batch::new(first_seq),
            waiters: Vec::new(),
            records: Vec::new(),
            redelivered: Vec::new(),
            participants: None,
            positions: 0,
            deciding_since: Some(Instant::now()),
            decided: Duration::ZERO,
        }
    }

    /// Whether a client or a callback waits for the batch. A batch that contains only the courier's reports can itself
    /// wait.
    pub(crate) fn is_awaited(&self) -> bool {
        !(self.waiters.is_empty() && self.records.is_empty() && self.redelivered.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty() && !self.is_awaited()
    }

    /// Prepares the batch for reuse.
    pub(crate) fn reset(&mut self, first_seq: u64) {
        debug_assert!(!self.is_awaited(), "a caller still waits for this batch");
        self.batch.reset(first_seq);
        self.positions = 0;
        self.resume();
    }

    /// Starts counting time as deciding.
    pub(crate) fn resume(&mut self) {
        if self.is_empty() {
            self.decided = Duration::ZERO;
        }
        self.deciding_since = Some(Instant::now());
    }

    /// Stops counting time as deciding.
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.deciding_since.take() {
            self.decided += since.elapsed();
        }
    }

    /// Reports to all waiting senders that the batch did not become durable.
    pub(crate) fn abandon(&mut self, error: &SubmitError) {
        for waiter in self.waiters.drain(..) {
            match waiter {
                Waiter::Question(completion) => completion(Err(error.clone())),
                Waiter::Caller { answer, .. } => {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_a_batch_is_not_counted() {
        let counted = |pending: &mut PendingBatch| {
            pending.decided = Duration::from_secs(9);
            pending.resume();
            pending.decided.as_secs()
        };
        let mut pending = PendingBatch::new(1);
        assert_eq!(counted(&mut pending), 0);
        pending.batch.push(1, |_| ());
        assert_eq!(counted(&mut pending), 9, "it holds a record");
        pending.reset(2);
        assert_eq!(counted(&mut pending), 0);
        pending.waiters.push(Waiter::Question(Box::new(|_| ())));
        assert_eq!(counted(&mut pending), 9, "a client waits for it");
    }
}

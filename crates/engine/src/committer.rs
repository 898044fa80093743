//! Makes batches durable, then releases their replies and callbacks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use upesi_journal::{AppendedBatch, Appender, JournalError};

use crate::held::HeldRecord;
use crate::metrics::EngineMetrics;
use crate::pending_batch::{CommandKind, PendingBatch, Waiter};
use crate::queue::CommandOutcome;
use crate::record::{AnswerListener, Effects};
use crate::reply_batcher::ReplyBatcher;
use crate::shared::SharedState;

/// Owns the right to append to the journal, and the effects. It is on the thread that writes a batch: the engine's
/// thread, or the commit thread for a large batch.
pub(crate) struct Committer {
    shared: Arc<SharedState>,
    metrics: EngineMetrics,
    log: Box<dyn Appender>,
    effects: Box<dyn Effects>,
    /// Releases callbacks that wait for replies, if the effects use this.
    answers: Option<Arc<dyn AnswerListener>>,
    /// The batchers that received a reply in this batch.
    batchers: Vec<Arc<ReplyBatcher>>,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<SharedState>,
        metrics: EngineMetrics,
        log: Box<dyn Appender>,
        effects: Box<dyn Effects>,
    ) -> Self {
        let answers = effects.answers();
        Self { shared, metrics, log, effects, answers, batchers: Vec::new() }
    }

    /// Whether callbacks wait for the replies to their requests.
    pub(crate) const fn holds_callbacks(&self) -> bool {
        self.answers.is_some()
    }

    /// Reserves disk space for `bytes` of records. Returns false if the disk is full.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<bool, JournalError> {
        match self.log.reserve(bytes as u64) {
            Ok(()) => Ok(true),
            Err(JournalError::DiskFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether space for `bytes` of records is already reserved.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.log.has_room_for(bytes as u64)
    }

    /// Makes the batch durable, then releases its replies and callbacks. After an error they are still in the batch.
    pub(crate) fn commit(&mut self, pending: &mut PendingBatch) -> Result<(), JournalError> {
        if !pending.batch.is_empty() {
            let appended = self.log.append(&mut pending.batch)?;
            self.shared.durable.publish(appended.last_seq);
            self.observe_batch(pending, &appended);
        } else if pending.is_awaited() {
            // A reply that records nothing is valid only if this node still has the right to append.
            self.log.confirm()?;
        }
        self.release(pending);
        self.log.maintain()?;
        self.shared.archive.journal_reached(self.shared.durable.get());
        Ok(())
    }

    /// Hands over the right to append to another node of the cluster; see [`Appender::hand_over`].
    pub(crate) fn hand_over(&mut self, successor: Option<u32>) -> Result<(), JournalError> {
        self.log.hand_over(successor)
    }

    fn release(&mut self, pending: &mut PendingBatch) {
        if let Some(participants) = pending.participants.take() {
            self.effects.participants(participants);
        }
        for record in pending.records.drain(..) {
            self.effects.publish(&record);
        }
        if !pending.redelivered.is_empty() {
            self.effects.redeliver(&pending.redelivered);
            pending.redelivered.clear();
        }
        self.effects.flush();
        let now = Instant::now();
        for waiter in pending.waiters.drain(..) {
            match waiter {
                Waiter::Question(completion) => completion(Ok(())),
                Waiter::Caller { answer, batcher, reply, kind, arrived, held } => {
                    self.observe(kind, now.saturating_duration_since(arrived).as_secs_f64());
                    let answered = Ok(CommandOutcome::Decided(reply));
                    let held = held
                        .and_then(|record| Some(HeldRecord::new(record, Arc::clone(self.answers.as_ref()?))));
                    let Some(batcher) = batcher else {
                        // A client that disconnected learns the outcome by callback.
                        let _ = answer.send(answered);
                        continue;
                    };
                    if batcher.push((answer, answered, held)) {
                        self.batchers.push(batcher);
                    }
                }
            }
        }
        for batcher in self.batchers.drain(..) {
            batcher.notify();
        }
    }

    fn observe_batch(&self, pending: &PendingBatch, appended: &AppendedBatch) {
        let metrics = &self.metrics;
        metrics.journal_bytes.inc_by(appended.bytes);
        if metrics.records_metrics {
            let commands = pending.batch.len();
            metrics.decide_seconds.observe(pending.decided.as_secs_f64());
            metrics.batch_commands.observe(commands as f64);
            // Each command took about as long as the others. One tick may expire many transfers.
            let shares = pending.positions.max(commands as u64).max(1);
            let share = pending.decided / u32::try_from(shares).unwrap_or(u32::MAX);
            metrics.mojaloop_position.observe_many(share, pending.positions);
            if appended.accepted_ns > 0 {
                metrics.log_accept_seconds.observe(Duration::from_nanos(appended.accepted_ns).as_secs_f64());
            }
            metrics.journal_write_seconds.observe(Duration::from_nanos(appended.write_ns).as_secs_f64());
            metrics.journal_sync_seconds.observe(Duration::from_nanos(appended.sync_ns).as_secs_f64());
        }
    }

    fn observe(&self, kind: CommandKind, seconds: f64) {
        if !self.metrics.records_metrics {
            return;
        }
        match kind {
            CommandKind::Prepare => self.metrics.mojaloop_prepare.observe(seconds),
            CommandKind::Fulfil => self.metrics.mojaloop_fulfil.observe(seconds),
            CommandKind::Get => self.metrics.mojaloop_get.observe(seconds),
            CommandKind::Other => {}
        }
    }
}

//! Makes batches durable, then lets go what waited for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_journal::{Appended, Batch, JournalError, Writer};
use upesi_ledger::{Command, NoticeKey, Reply};

use crate::desk::Desk;
use crate::error::SubmitError;
use crate::held::Held;
use crate::metrics::EngineMetrics;
use crate::participants::Participants;
use crate::queue::{Answer, Completion, Verdict};
use crate::record::{Answered, DurableRecord, Effects};
use crate::worker::Shared;

/// Who waits for a batch to become durable.
pub(crate) enum Waiter {
    Caller {
        answer: oneshot::Sender<Answer>,
        desk: Option<Arc<Desk>>,
        reply: Reply,
        kind: Kind,
        arrived: Instant,
        /// The record whose callbacks to the caller wait for the answer, if there are such.
        held: Option<Arc<DurableRecord>>,
    },
    Asker(Completion),
}

/// What is measured apart.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Prepare,
    Fulfil,
    Get,
    Other,
}

impl Kind {
    pub(crate) const fn of(command: &Command) -> Self {
        match command {
            Command::Prepare(_) => Self::Prepare,
            Command::Fulfil(_) | Command::Abort(_) => Self::Fulfil,
            Command::Get(_) => Self::Get,
            _ => Self::Other,
        }
    }
}

/// A batch, and everything that leaves the engine when it is durable. Recycled.
pub(crate) struct Outgoing {
    pub(crate) batch: Batch,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) records: Vec<Arc<DurableRecord>>,
    pub(crate) redelivered: Vec<NoticeKey>,
    /// Those after the batch, if they changed.
    pub(crate) participants: Option<Arc<Participants>>,
    /// Changes of positions that it holds.
    pub(crate) positions: u64,
    /// Since when the engine decides what goes into it; absent while it waits.
    deciding_since: Option<Instant>,
    /// How long it took to decide, up to then.
    decided: Duration,
}

impl Outgoing {
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

    /// Whether somebody waits for it; a batch of nothing but the courier's reports can wait itself.
    pub(crate) fn is_awaited(&self) -> bool {
        !(self.waiters.is_empty() && self.records.is_empty() && self.redelivered.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty() && !self.is_awaited()
    }

    /// Makes it ready for the next batch.
    pub(crate) fn reset(&mut self, first_seq: u64) {
        debug_assert!(!self.is_awaited(), "somebody still waits for this batch");
        self.batch.reset(first_seq);
        self.positions = 0;
        self.resume();
    }

    /// From now on the engine decides what goes into it.
    pub(crate) fn resume(&mut self) {
        if self.is_empty() {
            self.decided = Duration::ZERO;
        }
        self.deciding_since = Some(Instant::now());
    }

    /// For now nothing more goes into it: what it waits is no time of deciding.
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.deciding_since.take() {
            self.decided += since.elapsed();
        }
    }

    /// Tells all who wait that the batch did not become durable.
    pub(crate) fn abandon(&mut self, error: &SubmitError) {
        for waiter in self.waiters.drain(..) {
            match waiter {
                Waiter::Asker(completion) => completion(Err(error.clone())),
                Waiter::Caller { answer, .. } => {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Owns the journal's writer and the effects. It is where a batch is being written: on the engine's thread, or for a while
/// on the journal's.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    metrics: EngineMetrics,
    writer: Writer,
    effects: Box<dyn Effects>,
    /// Who lets callbacks wait for answers.
    answers: Option<Arc<dyn Answered>>,
    /// Those that got an answer in this batch.
    desks: Vec<Arc<Desk>>,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        metrics: EngineMetrics,
        writer: Writer,
        effects: Box<dyn Effects>,
    ) -> Self {
        let answers = effects.answers();
        Self { shared, metrics, writer, effects, answers, desks: Vec::new() }
    }

    /// Whether callbacks wait for answers.
    pub(crate) const fn holds_callbacks(&self) -> bool {
        self.answers.is_some()
    }

    /// Makes sure that `bytes` of records will find their place on the disk; false when there is no room.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<bool, JournalError> {
        match self.writer.reserve(bytes as u64) {
            Ok(()) => Ok(true),
            Err(JournalError::DiskFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether there is room for `bytes` of records already.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.writer.has_room_for(bytes as u64)
    }

    /// Makes the batch durable, then lets answers and callbacks go. After an error they are still there.
    pub(crate) fn commit(&mut self, outgoing: &mut Outgoing) -> Result<(), JournalError> {
        if !outgoing.batch.is_empty() {
            let appended = self.writer.append(&mut outgoing.batch)?;
            self.shared.durable_seq.store(appended.last_seq, Ordering::Release);
            self.observe_batch(outgoing, &appended);
        }
        self.release(outgoing);
        self.writer.maintain()?;
        self.shared.archive.journal_reached(self.shared.durable_seq.load(Ordering::Acquire));
        Ok(())
    }

    fn release(&mut self, outgoing: &mut Outgoing) {
        if let Some(participants) = outgoing.participants.take() {
            self.effects.participants(participants);
        }
        for record in outgoing.records.drain(..) {
            self.effects.publish(&record);
        }
        if !outgoing.redelivered.is_empty() {
            self.effects.redeliver(&outgoing.redelivered);
            outgoing.redelivered.clear();
        }
        self.effects.flush();
        let now = Instant::now();
        for waiter in outgoing.waiters.drain(..) {
            match waiter {
                Waiter::Asker(completion) => completion(Ok(())),
                Waiter::Caller { answer, desk, reply, kind, arrived, held } => {
                    self.observe(kind, now.saturating_duration_since(arrived).as_secs_f64());
                    let answered = Ok(Verdict::Decided(reply));
                    let held =
                        held.and_then(|record| Some(Held::new(record, Arc::clone(self.answers.as_ref()?))));
                    let Some(desk) = desk else {
                        // A caller that hung up learns the outcome by callback.
                        let _ = answer.send(answered);
                        continue;
                    };
                    if desk.lay((answer, answered, held)) {
                        self.desks.push(desk);
                    }
                }
            }
        }
        for desk in self.desks.drain(..) {
            desk.ring();
        }
    }

    fn observe_batch(&self, outgoing: &Outgoing, appended: &Appended) {
        let metrics = &self.metrics;
        metrics.journal_bytes.inc_by(appended.bytes);
        if metrics.observes {
            let commands = outgoing.batch.len();
            metrics.decide_seconds.observe(outgoing.decided.as_secs_f64());
            metrics.batch_commands.observe(commands as f64);
            // Each command took about as long as the others; those that a tick expires are many to one command.
            let shares = outgoing.positions.max(commands as u64).max(1);
            let share = outgoing.decided / u32::try_from(shares).unwrap_or(u32::MAX);
            metrics.community_position.observe_many(share, outgoing.positions);
            metrics.journal_write_seconds.observe(Duration::from_nanos(appended.write_ns).as_secs_f64());
            metrics.journal_sync_seconds.observe(Duration::from_nanos(appended.sync_ns).as_secs_f64());
        }
    }

    fn observe(&self, kind: Kind, seconds: f64) {
        if !self.metrics.observes {
            return;
        }
        match kind {
            Kind::Prepare => self.metrics.community_prepare.observe(seconds),
            Kind::Fulfil => self.metrics.community_fulfil.observe(seconds),
            Kind::Get => self.metrics.community_get.observe(seconds),
            Kind::Other => {}
        }
    }
}

/// A batch on its way to the journal's thread and back, with what it takes to commit it.
pub(crate) struct Errand {
    pub(crate) committer: Committer,
    pub(crate) outgoing: Outgoing,
    pub(crate) result: Result<(), JournalError>,
}

impl Errand {
    /// Commits the batch.
    pub(crate) fn run(&mut self) {
        self.result = self.committer.commit(&mut self.outgoing);
    }
}

/// Those that commit large batches while the next is decided.
pub(crate) trait Hands {
    /// Gives them a batch; back it comes where nobody is left to take it.
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>>;

    /// A batch that they are done with, if there is one.
    fn take_back(&mut self) -> Option<Box<Errand>>;

    /// The batch that they have, once they are done with it; `None` where it will not come back.
    fn wait(&mut self) -> Option<Box<Errand>>;
}

/// The journal's thread.
pub(crate) struct Channels {
    pub(crate) errands: Sender<Box<Errand>>,
    pub(crate) done: Receiver<Box<Errand>>,
}

impl Hands for Channels {
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>> {
        self.errands.send(errand).map_err(|unsent| unsent.0)
    }

    fn take_back(&mut self) -> Option<Box<Errand>> {
        self.done.try_recv().ok()
    }

    fn wait(&mut self) -> Option<Box<Errand>> {
        self.done.recv().ok()
    }
}

/// The journal's thread: commits large batches while the engine's decides the next.
pub(crate) fn run_journal(errands: &Receiver<Box<Errand>>, done: &Sender<Box<Errand>>, shared: &Shared) {
    for mut errand in errands {
        errand.run();
        if done.send(errand).is_err() {
            return;
        }
        shared.queue.nudge();
    }
}

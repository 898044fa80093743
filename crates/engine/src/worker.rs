//! The engine's thread: decides, journals, lets go.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use upesi_journal::{Batch, JournalError, Writer};
use upesi_ledger::command::Archived;
use upesi_ledger::{Command, Decision, Event, Ledger, NoticeKey, Reply};
use upesi_types::Timestamp;

use crate::archivist::ArchiveProgress;
use crate::desk::Desk;
use crate::error::{StopReason, SubmitError};
use crate::handle::look_up_of;
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::participants::Participants;
use crate::queue::{Answer, Completion, Queue, Submission, Verdict};
use crate::record::{DurableRecord, Effects, Payload};

/// What the last command of a batch and a tick add to it beyond the command's own bytes: events and notices. A tick
/// expires at most 64 transfers.
const DECISION_BYTES_MAX: usize = 128 * 1024;

/// Whether the engine takes commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It does.
    Yes,
    /// It answers questions only: the disk is full.
    ReadOnly,
    /// It has stopped.
    Stopped(StopReason),
}

/// How the engine is doing.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// Whether it takes commands.
    pub serving: Serving,
    /// Commands waiting.
    pub queue_depth: usize,
    /// Last durable journal sequence.
    pub durable_seq: u64,
    /// Last journal sequence that the archive holds the finished transfers of.
    pub archived_seq: u64,
    /// Whether what is acknowledged is on disk (false only in measurements).
    pub is_durable: bool,
}

/// What the engine's thread shares with handles and the archivist.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) durable_seq: AtomicU64,
    pub(crate) archive: ArchiveProgress,
    pub(crate) serving: Mutex<Serving>,
    pub(crate) stopped: watch::Sender<Option<StopReason>>,
    pub(crate) is_durable: bool,
}

impl Shared {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        self.queue.close();
        let mut serving = self.serving();
        if !matches!(*serving, Serving::Stopped(_)) {
            *serving = Serving::Stopped(reason.clone());
            self.stopped.send_replace(Some(reason));
        }
    }

    pub(crate) fn status(&self) -> EngineStatus {
        EngineStatus {
            serving: self.serving().clone(),
            queue_depth: self.queue.len(),
            durable_seq: self.durable_seq.load(Ordering::Acquire),
            archived_seq: self.archive.watermark(),
            is_durable: self.is_durable,
        }
    }
}

/// Who waits for a batch to become durable.
enum Waiter {
    Caller { answer: oneshot::Sender<Answer>, desk: Option<Arc<Desk>>, reply: Reply, kind: Kind },
    Asker(Completion),
}

/// What is measured apart.
#[derive(Clone, Copy)]
enum Kind {
    Prepare,
    Fulfil,
    Get,
    Other,
}

impl Kind {
    const fn of(command: &Command) -> Self {
        match command {
            Command::Prepare(_) => Self::Prepare,
            Command::Fulfil(_) | Command::Abort(_) => Self::Fulfil,
            Command::Get(_) => Self::Get,
            _ => Self::Other,
        }
    }
}

/// The engine's thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    options: EngineOptions,
    metrics: EngineMetrics,
    ledger: Ledger,
    writer: Writer,
    effects: Box<dyn Effects>,
    batch: Batch,
    decision: Decision,
    waiters: Vec<Waiter>,
    /// Those that got an answer in this batch.
    desks: Vec<Arc<Desk>>,
    records: Vec<Arc<DurableRecord>>,
    redelivered: Vec<NoticeKey>,
    participants_changed: bool,
    /// Reports that came while the disk was full.
    held_back: VecDeque<Command>,
    evicted_epoch: u64,
    evictable_seq: u64,
    next_tick: Instant,
    batch_started: Instant,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: EngineOptions,
        metrics: EngineMetrics,
        ledger: Ledger,
        writer: Writer,
        mut effects: Box<dyn Effects>,
    ) -> Self {
        effects.participants(Arc::new(Participants::of(&ledger)));
        Self {
            shared,
            metrics,
            batch: Batch::new(ledger.last_seq() + 1),
            ledger,
            writer,
            effects,
            decision: Decision::default(),
            waiters: Vec::new(),
            desks: Vec::new(),
            records: Vec::new(),
            redelivered: Vec::new(),
            participants_changed: false,
            held_back: VecDeque::new(),
            evicted_epoch: 0,
            evictable_seq: 0,
            next_tick: Instant::now() + options.tick_interval,
            batch_started: Instant::now(),
            options,
        }
    }

    /// Runs until the queue is closed or the journal fails.
    pub(crate) fn run(mut self) {
        let mut submissions = VecDeque::new();
        let reason = loop {
            let patience = self.next_tick.saturating_duration_since(Instant::now());
            if !self.shared.queue.take_all(&mut submissions, patience) {
                break self.commit().map_or_else(StopReason::of_journal, |()| StopReason::Shutdown);
            }
            if let Err(error) = self.turn(&mut submissions) {
                break StopReason::of_journal(error);
            }
        };
        self.abandon(SubmitError::Stopped);
        for submission in submissions.drain(..) {
            refuse(submission, &SubmitError::Stopped);
        }
        self.shared.stop(reason);
        // What slipped in before the queue was closed.
        while self.shared.queue.take_all(&mut submissions, Duration::ZERO) {
            submissions.drain(..).for_each(|submission| refuse(submission, &SubmitError::Stopped));
        }
    }

    /// One turn: everything that has queued up, in batches, and the deadlines.
    fn turn(&mut self, submissions: &mut VecDeque<Submission>) -> Result<(), JournalError> {
        self.batch_started = Instant::now();
        self.evict();
        let mut has_room = self.has_room(0)?;
        if has_room {
            self.held_back
                .drain(..)
                .rev()
                .for_each(|command| submissions.push_front(Submission::Quiet(command)));
        }
        while let Some(submission) = submissions.pop_front() {
            let bytes = submission.bytes();
            let is_full = self.batch.len() >= self.options.batch_commands_max
                || self.batch.bytes() + bytes > self.options.batch_bytes_max;
            if is_full {
                self.commit()?;
                self.batch_started = Instant::now();
                has_room = self.has_room(bytes)?;
            }
            if has_room {
                self.take(submission);
            } else {
                self.take_without_room(submission);
            }
        }
        let ticks = Instant::now() >= self.next_tick;
        if ticks {
            self.tick(has_room);
        }
        // The courier's reports need no sync of their own: losing one only repeats a callback.
        if ticks || self.somebody_waits() { self.commit() } else { Ok(()) }
    }

    fn somebody_waits(&self) -> bool {
        !(self.waiters.is_empty() && self.records.is_empty() && self.redelivered.is_empty())
            || self.participants_changed
    }

    fn take(&mut self, submission: Submission) {
        match submission {
            Submission::Command { mut command, payload, archive_epoch, answer, desk } => {
                let kind = Kind::of(&command);
                if let (Kind::Prepare, true) = (kind, self.is_archive_behind()) {
                    self.metrics.refused_busy.inc();
                    let _ = answer.send(Err(SubmitError::Busy));
                    return;
                }
                if let (true, Some((_, archived))) =
                    (archive_epoch < self.evicted_epoch, look_up_of(&mut command))
                {
                    // The look-up is older than what memory has forgotten since: it must be made again.
                    *archived = Archived::Unknown;
                }
                self.decide(&command, &payload);
                let reply = std::mem::take(&mut self.decision.reply);
                if reply == Reply::NeedsArchive {
                    let _ = answer.send(Ok(Verdict::LookUp(Box::new(command), payload)));
                } else {
                    self.waiters.push(Waiter::Caller { answer, desk, reply, kind });
                }
            }
            Submission::Quiet(command) => self.decide(&command, &Payload::default()),
            Submission::Question(question) => self.waiters.push(Waiter::Asker(question(&self.ledger))),
        }
    }

    fn take_without_room(&mut self, submission: Submission) {
        match submission {
            Submission::Quiet(command) if self.held_back.len() < self.options.queue_commands_max => {
                self.held_back.push_back(command);
            }
            Submission::Question(_) => self.take(submission),
            refused => {
                self.metrics.refused_full.inc();
                refuse(refused, &SubmitError::Full);
            }
        }
    }

    /// Decides a command, records the decision in the batch and folds it into the state.
    fn decide(&mut self, command: &Command, payload: &Payload) {
        let now = self.stamp();
        self.decision.clear();
        self.ledger.decide(command, now, &mut self.decision);
        self.metrics.commands.inc();
        if self.decision.is_empty() {
            return;
        }
        let Decision { events, notices, .. } = &mut self.decision;
        let seq = self.batch.push(now, |buffer| {
            let payload = upesi_ledger::Payload { headers: &payload.headers, body: &payload.body };
            upesi_ledger::Record::encode(events, notices, payload, buffer);
        });
        for event in events.iter() {
            self.participants_changed |= Participants::is_changed_by(event);
            if let Event::NoticesRedelivered(keys) = event {
                self.redelivered.extend_from_slice(keys);
            }
        }
        self.ledger.evolve(seq, now, events.drain(..), notices);
        if !notices.is_empty() {
            let notices = std::mem::take(notices);
            self.records.push(Arc::new(DurableRecord { seq, time: now, notices, payload: payload.clone() }));
        }
    }

    /// The present instant, made later than the last record's.
    fn stamp(&self) -> Timestamp {
        let last = Timestamp::from_ns(self.ledger.last_time().as_ns() + 1);
        self.options.clock.now().max(last)
    }

    /// Expires what is due, a bounded number per turn; when more is due the next turn follows at once.
    fn tick(&mut self, has_room: bool) {
        let now = self.stamp();
        self.next_tick = Instant::now() + self.options.tick_interval;
        if !has_room {
            return self.observe();
        }
        let is_due = |ledger: &Ledger| ledger.next_deadline().is_some_and(|deadline| deadline < now);
        if is_due(&self.ledger) {
            self.decide(&Command::Tick, &Payload::default());
        }
        if is_due(&self.ledger) {
            self.next_tick = Instant::now();
        }
        self.observe();
    }

    /// Makes the batch durable, then lets answers and callbacks go.
    fn commit(&mut self) -> Result<(), JournalError> {
        if !self.batch.is_empty() {
            let decided = self.batch_started.elapsed();
            let appended = self.writer.append(&mut self.batch)?;
            self.shared.durable_seq.store(appended.last_seq, Ordering::Release);
            self.metrics.community_position.observe(decided.as_secs_f64());
            self.metrics.batch_commands.observe(self.batch.len() as f64);
            self.metrics.journal_bytes.inc_by(appended.bytes);
            self.metrics.journal_write_seconds.observe(Duration::from_nanos(appended.write_ns).as_secs_f64());
            self.metrics.journal_sync_seconds.observe(Duration::from_nanos(appended.sync_ns).as_secs_f64());
            self.batch.reset(appended.last_seq + 1);
        }
        self.release();
        self.writer.maintain()?;
        self.shared.archive.journal_reached(self.ledger.last_seq());
        Ok(())
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.participants_changed) {
            self.effects.participants(Arc::new(Participants::of(&self.ledger)));
        }
        for record in self.records.drain(..) {
            self.effects.publish(&record);
        }
        if !self.redelivered.is_empty() {
            self.effects.redeliver(&self.redelivered);
            self.redelivered.clear();
        }
        self.effects.flush();
        let took = self.batch_started.elapsed().as_secs_f64();
        for waiter in self.waiters.drain(..) {
            match waiter {
                Waiter::Asker(completion) => completion(Ok(())),
                Waiter::Caller { answer, desk, reply, kind } => {
                    match kind {
                        Kind::Prepare => self.metrics.community_prepare.observe(took),
                        Kind::Fulfil => self.metrics.community_fulfil.observe(took),
                        Kind::Get => self.metrics.community_get.observe(took),
                        Kind::Other => {}
                    }
                    let answered = Ok(Verdict::Decided(reply));
                    let Some(desk) = desk else {
                        // A caller that hung up learns the outcome by callback.
                        let _ = answer.send(answered);
                        continue;
                    };
                    if desk.lay(answer, answered) {
                        self.desks.push(desk);
                    }
                }
            }
        }
        for desk in self.desks.drain(..) {
            desk.ring();
        }
    }

    /// Tells all who wait that their batch did not become durable.
    fn abandon(&mut self, error: SubmitError) {
        for waiter in self.waiters.drain(..) {
            match waiter {
                Waiter::Asker(completion) => completion(Err(error.clone())),
                Waiter::Caller { answer, .. } => {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Makes sure that the next batch will find its place on the disk, before anything is decided: a batch as large as
    /// allowed, or one command of `bytes`.
    fn has_room(&mut self, bytes: usize) -> Result<bool, JournalError> {
        let bytes = bytes.max(self.options.batch_bytes_max) + DECISION_BYTES_MAX;
        let room = match self.writer.reserve(bytes as u64) {
            Ok(()) => true,
            Err(JournalError::DiskFull { .. }) => false,
            Err(error) => return Err(error),
        };
        let serving = if room { Serving::Yes } else { Serving::ReadOnly };
        let mut present = self.shared.serving();
        if *present != serving {
            tracing::warn!(from = ?*present, to = ?serving, "the engine changes what it serves");
            *present = serving;
        }
        Ok(room)
    }

    fn is_archive_behind(&self) -> bool {
        self.ledger.finished_len() >= self.options.finished_transfers_max
    }

    /// Takes finished transfers out of memory that the archive has held for one epoch or longer, so that every look-up
    /// made in the present or the last epoch finds them there.
    fn evict(&mut self) {
        let (epoch, watermark) = self.shared.archive.epoch_and_watermark();
        if epoch > self.evicted_epoch + 1 {
            self.ledger.drain_finished(self.evictable_seq).for_each(drop);
            self.evicted_epoch = epoch - 1;
            self.evictable_seq = watermark;
            self.metrics.archived_seq.set(watermark as i64);
        }
    }

    fn observe(&self) {
        let (ledger, metrics) = (&self.ledger, &self.metrics);
        let totals = ledger.totals();
        metrics.queue_depth.set(self.shared.queue.len() as i64);
        metrics.transfers_reserved.set(ledger.reserved_len() as i64);
        metrics.transfers_finished_in_memory.set(ledger.finished_len() as i64);
        metrics.transfers_committed.set(totals.committed as i64);
        metrics.transfers_aborted.set(totals.aborted as i64);
        metrics.transfers_expired.set(totals.expired as i64);
        metrics.prepares_refused.set(totals.refused as i64);
        metrics.callbacks_undelivered.set(ledger.outbox().len() as i64);
        metrics.callbacks_parked.set(ledger.outbox().parked_len() as i64);
        metrics.journal_seq.set(ledger.last_seq() as i64);
    }
}

fn refuse(submission: Submission, error: &SubmitError) {
    match submission {
        Submission::Command { answer, .. } => {
            let _ = answer.send(Err(error.clone()));
        }
        Submission::Quiet(_) => {}
        // A question that cannot be asked is dropped, which its asker sees.
        Submission::Question(_) => {}
    }
}

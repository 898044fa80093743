//! The engine's thread: decides commands, appends the decisions to the journal and releases their effects.

mod bulks;
mod observe;
mod room;
mod time;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use upesi_journal::JournalError;
use upesi_ledger::{
    Actor, Archived, Callback, Command, Decision, DecisionInput, Event, Ledger, Limits, ParticipantId, Reply,
};
use upesi_types::Timestamp;

use observe::IgnoredResults;
use time::DecisionTime;
pub(crate) use time::Ticks;

use crate::clock::{Clock as _, ClockState};
use crate::commit_thread::{CommitJob, CommitThread};
use crate::committer::Committer;
use crate::error::{StopReason, SubmitError};
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::participants::Participants;
use crate::pending_batch::{CommandKind, PendingBatch, Waiter};
use crate::progress::Eviction;
use crate::queue::{CommandOutcome, Submission};
use crate::record::{DurableRecord, Payload};
use crate::shared::SharedState;

/// Bytes that the last command of a batch and a tick add beyond the command's own bytes, for events and callbacks. A
/// tick expires at most 64 transfers.
const DECISION_BYTES_MAX: usize = 128 * 1024;

/// Bytes that the expiry of one transfer adds to a record: its event and its callbacks, which contain only ids and
/// numbers.
const EXPIRY_BYTES_MAX: usize = 512;
const _: () = assert!(Limits::SHIPPED.expiries_per_tick * EXPIRY_BYTES_MAX <= DECISION_BYTES_MAX);

/// Number of commands whose transfers are loaded from memory together, before the first of them is decided.
const FETCHED_AHEAD: usize = 32;

/// The engine's work, on its own thread ([`Decider::run`]) or one turn at a time.
pub(crate) struct Decider<H> {
    shared: Arc<SharedState>,
    options: EngineOptions,
    metrics: EngineMetrics,
    ledger: Ledger,
    started_at: Timestamp,
    /// `None` while the commit thread has it.
    committer: Option<Committer>,
    /// The thread that commits large batches.
    commit_thread: H,
    /// The batch that is being filled.
    open: PendingBatch,
    /// The second batch, which alternates with the open one.
    spare: Option<PendingBatch>,
    decision: Decision,
    participants_changed: bool,
    /// Whether callbacks to the sender of a request wait until the sender has its response.
    holds_callbacks: bool,
    /// Reports that arrived while the disk was full.
    held_back: VecDeque<Command>,
    eviction: Eviction,
    /// Whether bulk transfers wait for disk space.
    stalls_bulks: bool,
    ticks: Ticks,
    /// The clock state that was last logged.
    clock_state: ClockState,
    ignored_results: IgnoredResults,
}

impl<H: CommitThread> Decider<H> {
    pub(crate) fn new(
        shared: Arc<SharedState>,
        options: EngineOptions,
        metrics: EngineMetrics,
        mut ledger: Ledger,
        committer: Committer,
        commit_thread: H,
        ticks: Ticks,
    ) -> Self {
        let started_at = shared.clock.now();
        ledger.show_first_window_opened(started_at);
        Self {
            started_at,
            shared,
            metrics,
            holds_callbacks: committer.holds_callbacks(),
            open: PendingBatch::new(ledger.last_seq() + 1),
            spare: None,
            ignored_results: IgnoredResults::new(ledger.bulk_totals().results_ignored),
            ledger,
            committer: Some(committer),
            commit_thread,
            decision: Decision::default(),
            participants_changed: false,
            held_back: VecDeque::new(),
            eviction: Eviction::default(),
            stalls_bulks: false,
            ticks,
            clock_state: ClockState::default(),
            options,
        }
    }

    /// Runs until the queue is closed or the journal fails.
    pub(crate) fn run(mut self) {
        let mut submissions = VecDeque::new();
        let reason = loop {
            let patience = match self.ticks {
                // Bulk transfers continue immediately.
                _ if self.has_bulk_to_step() => Duration::ZERO,
                Ticks::At(instant) => instant.saturating_duration_since(Instant::now()),
                Ticks::Asked(_) => Duration::ZERO,
            };
            if !self.shared.queue.take_all(&mut submissions, patience) {
                break self.finish();
            }
            if let Err(error) = self.turn(&mut submissions) {
                break StopReason::of_journal(error);
            }
        };
        self.stop(submissions, reason);
    }

    /// Rejects the remaining submissions, because nothing is decided any longer.
    pub(crate) fn stop(&mut self, mut submissions: VecDeque<Submission>, reason: StopReason) {
        self.open.abandon(&SubmitError::Stopped);
        for submission in submissions.drain(..) {
            refuse(submission, &SubmitError::Stopped);
        }
        self.shared.stop(reason);
        // Submissions that arrived just before the queue was closed.
        while self.shared.queue.take_all(&mut submissions, Duration::ZERO) {
            submissions.drain(..).for_each(|submission| refuse(submission, &SubmitError::Stopped));
        }
    }

    /// One turn: decides everything in the queue, in batches, and checks deadlines.
    pub(crate) fn turn(&mut self, submissions: &mut VecDeque<Submission>) -> Result<(), JournalError> {
        while let Some(job) = self.commit_thread.try_recv() {
            self.on_committed(*job)?;
        }
        self.open.resume();
        self.observe_wait(submissions);
        self.evict();
        let mut has_room = self.has_room(0)?;
        if has_room {
            self.held_back
                .drain(..)
                .rev()
                .for_each(|command| submissions.push_front(Submission::Quiet(command)));
        }
        for number in 0.. {
            if number % FETCHED_AHEAD == 0 {
                self.ledger.fetch(submissions.iter().take(FETCHED_AHEAD).filter_map(Submission::transfer_id));
            }
            let Some(submission) = submissions.pop_front() else { break };
            let bytes = submission.bytes();
            let is_full = self.open.batch.len() >= self.options.batch_commands_max
                || self.open.batch.bytes() + bytes > self.options.batch_bytes_max;
            if is_full {
                self.commit()?;
                has_room = self.has_room(bytes)?;
            }
            if has_room {
                self.take(submission);
            } else {
                self.take_without_room(submission);
            }
        }
        if has_room {
            self.step_bulks()?;
        }
        let ticks = self.ticks.is_due();
        if ticks {
            self.tick(has_room);
        }
        // The courier's reports need no sync of their own: losing one only repeats a callback. While the commit thread
        // is busy, the batch grows. The commit thread's return ends the wait for the queue.
        let is_due = ticks || self.is_awaited();
        if is_due && self.committer.is_some() {
            return self.commit();
        }
        self.open.pause();
        Ok(())
    }

    fn is_awaited(&self) -> bool {
        self.open.is_awaited() || self.participants_changed
    }

    fn take(&mut self, submission: Submission) {
        match submission {
            Submission::Command {
                command,
                payload,
                mut archived,
                archive_epoch,
                arrived,
                answer,
                batcher,
            } => {
                let kind = CommandKind::of(&command);
                if let (CommandKind::Prepare, true) =
                    (kind, self.is_archive_behind() || self.is_full_of_bulks(&command))
                {
                    self.metrics.refused_busy.inc();
                    let _ = answer.send(Err(SubmitError::Busy));
                    return;
                }
                if self.eviction.outdates(archive_epoch) {
                    // The archive was queried before memory dropped transfers that it may have missed, so it must be
                    // queried again.
                    archived = Archived::Unknown;
                }
                let published = self.open.records.len();
                let payload = self.decide(&command, &archived, payload);
                let held = self.open.records.get(published).filter(|record| record.asker.is_some()).cloned();
                let reply = mem::take(&mut self.decision.reply);
                self.follow_accepted(&command, &reply);
                if reply == Reply::NeedsArchive {
                    let kept = payload.unwrap_or_default();
                    let id = self.ledger.archive_id_of(&command);
                    let _ = answer.send(Ok(CommandOutcome::LookUp(Box::new(command), kept, id)));
                } else {
                    self.open.waiters.push(Waiter::Caller { answer, batcher, reply, kind, arrived, held });
                }
            }
            Submission::Quiet(command) => {
                self.decide(&command, &Archived::Absent, Payload::default());
            }
            Submission::Question(question) => {
                self.open.waiters.push(Waiter::Question(question(&self.ledger)));
            }
        }
    }

    /// Decides a command, records the decision in the batch and applies it to the state. Returns the payload if there
    /// was nothing to record.
    fn decide(&mut self, command: &Command, archived: &Archived, payload: Payload) -> Option<Payload> {
        let DecisionTime { record: stamp, present } = self.moment();
        let now = present.at;
        self.decision.clear();
        let facts = DecisionInput {
            clock_jump_ms: self.jump_to_accept(command),
            ..DecisionInput::new(present, archived)
        };
        self.ledger.decide(command, &facts, &mut self.decision);
        self.metrics.commands.inc();
        self.commit_thread.decided(&mut self.decision);
        if self.decision.is_empty() {
            return Some(payload);
        }
        let Decision { actor, events, callbacks, .. } = &mut self.decision;
        let payload = payload.kept_for(events);
        if self.ledger.last_seq() == 0 {
            events.insert(0, Event::FirstWindowOpened(self.started_at));
        }
        if now != stamp {
            events.insert(0, Event::DecidedAt(now));
        }
        let seq = self.open.batch.push(stamp.as_ns(), |buffer| {
            let payload = upesi_ledger::Payload { headers: &payload.headers, body: &payload.body };
            upesi_ledger::Record::encode(*actor, events, callbacks, payload, buffer);
        });
        let mut prepared_before = None;
        for event in events.iter() {
            if self.metrics.records_metrics {
                observe::observe_response(&self.ledger, event, now, &self.metrics.response_times);
            }
            self.participants_changed |= Participants::is_changed_by(event);
            match event {
                Event::ParticipantCreated { .. } => self.shared.is_new.store(false, Ordering::Relaxed),
                Event::TransferPrepared(_)
                | Event::FxTransferPrepared(_)
                | Event::FxTransferCommitted { .. }
                | Event::FxTransferAborted { .. } => self.open.positions += 1,
                Event::TransferCommitted { id, .. } | Event::TransferAborted { id, .. } => {
                    self.open.positions += 1;
                    // A tick may end many transfers at once. No client waits for a tick or for a step of a bulk
                    // transfer.
                    let is_waited_for = !matches!(command, Command::Tick | Command::StepBulk);
                    if self.metrics.records_metrics && is_waited_for {
                        let ended = self.ledger.transfer(*id);
                        prepared_before = ended.map(|transfer| now.since(transfer.prepared_at));
                    }
                }
                Event::CallbacksRedelivered(keys) => self.open.redelivered.extend_from_slice(keys),
                _ => {}
            }
        }
        self.ledger.evolve(seq, stamp, events.drain(..), callbacks);
        if !callbacks.is_empty() {
            // Allocated with the exact length: most records owe one or two callbacks and stay in memory until delivery.
            let mut owed = Vec::with_capacity(callbacks.len());
            owed.append(callbacks);
            let asker = self.asker(command, &owed);
            let record = DurableRecord { seq, time: now, callbacks: owed, payload, prepared_before, asker };
            self.open.records.push(Arc::new(record));
        }
        None
    }

    /// The sender of the request, if one of these callbacks is for the sender.
    fn asker(&self, command: &Command, callbacks: &[Callback]) -> Option<ParticipantId> {
        if !self.holds_callbacks {
            return None;
        }
        let Actor::Dfsp(source) = command.actor() else { return None };
        let is_asker = |target: &ParticipantId| {
            self.ledger.participant(*target).name.as_str().eq_ignore_ascii_case(source.as_str())
        };
        callbacks.iter().map(|callback| callback.target).find(is_asker)
    }

    /// Commits the open batch and starts another, on this thread, or on the commit thread if the batch is large. Waits
    /// until the previous batch is durable.
    fn commit(&mut self) -> Result<(), JournalError> {
        self.close_batch();
        let mut committer = self.committer()?;
        let bytes = self.open.batch.bytes();
        let is_large = !self.open.batch.is_empty() && bytes >= self.options.overlap_bytes_min;
        // The next batch is decided before this one is written, so there must be space for both.
        let both = bytes + self.options.batch_bytes_max + 2 * DECISION_BYTES_MAX;
        if is_large && committer.has_room_for(both) {
            let next = self.spare.take().unwrap_or_else(|| PendingBatch::new(self.ledger.last_seq() + 1));
            let pending = mem::replace(&mut self.open, next);
            let job = Box::new(CommitJob { committer, pending, result: Ok(()) });
            if let Err(unsent) = self.commit_thread.submit(job) {
                return self.on_committed(CommitJob { result: Err(JournalError::Poisoned), ..*unsent });
            }
        } else {
            let result = committer.commit(&mut self.open);
            self.committer = Some(committer);
            result?;
        }
        self.open.reset(self.ledger.last_seq() + 1);
        Ok(())
    }

    /// Commits the open batch on this thread, and hands over the leadership if requested.
    pub(crate) fn finish(&mut self) -> StopReason {
        self.close_batch();
        let committed = self.committer().and_then(|mut committer| {
            committer.commit(&mut self.open)?;
            Ok(committer)
        });
        match (committed, self.shared.successor.get()) {
            (Err(error), _) => StopReason::of_journal(error),
            (Ok(_), None) => StopReason::Shutdown,
            (Ok(mut committer), Some(successor)) => match committer.hand_over(*successor) {
                Ok(()) => StopReason::HandedOver,
                Err(error @ JournalError::Superseded { .. }) => StopReason::of_journal(error),
                Err(error) => {
                    tracing::warn!(%error, "the handover is not in the log; another node takes over after the election timeout");
                    StopReason::HandedOver
                }
            },
        }
    }

    /// The state, including decisions that are not durable yet.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) const fn commit_thread(&mut self) -> &mut H {
        &mut self.commit_thread
    }

    /// Makes the next turn check deadlines.
    pub(crate) const fn ask_for_tick(&mut self) {
        self.ticks = Ticks::Asked(true);
    }

    fn close_batch(&mut self) {
        self.open.pause();
        if mem::take(&mut self.participants_changed) {
            self.open.participants = Some(Arc::new(Participants::of(&self.ledger)));
        }
    }

    /// Takes out the committer. Waits until the commit thread has returned it.
    fn committer(&mut self) -> Result<Committer, JournalError> {
        if self.committer.is_none() {
            let job = self.commit_thread.recv().ok_or(JournalError::Poisoned)?;
            self.on_committed(*job)?;
        }
        self.committer.take().ok_or(JournalError::Poisoned)
    }

    /// Takes a batch and its committer back from the commit thread.
    fn on_committed(&mut self, job: CommitJob) -> Result<(), JournalError> {
        let CommitJob { committer, mut pending, result } = job;
        self.committer = Some(committer);
        if result.is_err() {
            pending.abandon(&SubmitError::Stopped);
        }
        self.spare = Some(pending);
        result
    }
}

fn refuse(submission: Submission, error: &SubmitError) {
    match submission {
        Submission::Command { answer, .. } => {
            let _ = answer.send(Err(error.clone()));
        }
        Submission::Quiet(_) => {}
        // A query that cannot be processed is dropped; its sender notices the closed channel.
        Submission::Question(_) => {}
    }
}

#[cfg(test)]
mod tests;

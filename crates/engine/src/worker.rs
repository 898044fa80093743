//! The engine's thread: decides, journals, lets go.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use upesi_journal::JournalError;
use upesi_ledger::command::Archived;
use upesi_ledger::{
    AdminCommand, AdminOutcome, Command, Decision, Event, Ledger, Notice, ParticipantId, Reply,
};
use upesi_types::{Present, Timestamp};

use crate::clock::{Clock, ClockState, GuardedClock};
use crate::committer::{Committer, Errand, Hands, Kind, Outgoing, Waiter};
use crate::error::{StopReason, SubmitError};
use crate::handle::look_up_of;
use crate::metrics::EngineMetrics;
use crate::options::EngineOptions;
use crate::participants::Participants;
use crate::progress::{ArchiveProgress, Eviction};
use crate::queue::{Queue, REPORTS_MAX, Submission, Verdict};
use crate::record::{DurableRecord, Payload};

/// What the last command of a batch and a tick add to it beyond the command's own bytes: events and notices. A tick
/// expires at most 64 transfers.
const DECISION_BYTES_MAX: usize = 128 * 1024;

/// By how much a record's instant may be later than the clock without saying so, in milliseconds: instants on the wire are
/// no finer.
const STAMP_AHEAD_MS: i64 = 1;

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
    /// How the hub's time stands to the clocks.
    pub clock: ClockState,
}

/// What the engine's thread shares with handles and the archivist.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) durable_seq: AtomicU64,
    pub(crate) archive: ArchiveProgress,
    pub(crate) serving: Mutex<Serving>,
    pub(crate) stopped: watch::Sender<Option<StopReason>>,
    pub(crate) is_durable: bool,
    pub(crate) clock: Arc<GuardedClock>,
}

impl Shared {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        let mut serving = self.serving();
        if !matches!(*serving, Serving::Stopped(_)) {
            *serving = Serving::Stopped(reason.clone());
            self.stopped.send_replace(Some(reason));
        }
        drop(serving);
        // Last: the worker takes a queue that is closed, and no reason yet, for an orderly end.
        self.queue.close();
    }

    pub(crate) fn status(&self) -> EngineStatus {
        EngineStatus {
            serving: self.serving().clone(),
            queue_depth: self.queue.len(),
            durable_seq: self.durable_seq.load(Ordering::Acquire),
            archived_seq: self.archive.watermark(),
            is_durable: self.is_durable,
            clock: self.clock.state(),
        }
    }
}

/// When deadlines are looked at.
pub(crate) enum Ticks {
    /// At this instant, and from then on in intervals.
    At(Instant),
    /// When it is asked for.
    Asked(bool),
}

impl Ticks {
    fn is_due(&self) -> bool {
        match self {
            Self::At(instant) => Instant::now() >= *instant,
            Self::Asked(is_due) => *is_due,
        }
    }

    /// Sets the next one: at once, or after the interval.
    fn rearm(&mut self, at_once: bool, interval: Duration) {
        match self {
            Self::At(instant) => *instant = Instant::now() + if at_once { Duration::ZERO } else { interval },
            Self::Asked(is_due) => *is_due = at_once,
        }
    }
}

/// The engine's work, on a thread of its own ([`Worker::run`]) or turn by turn.
pub(crate) struct Worker<H> {
    shared: Arc<Shared>,
    options: EngineOptions,
    metrics: EngineMetrics,
    ledger: Ledger,
    /// Absent while the journal's thread commits a batch.
    committer: Option<Committer>,
    /// Those that commit large batches.
    hands: H,
    /// The batch that is being filled.
    open: Outgoing,
    /// Takes turns with the open one.
    spare: Option<Outgoing>,
    decision: Decision,
    participants_changed: bool,
    /// Whether callbacks to those who wait for answers wait for them, too.
    holds_callbacks: bool,
    /// Reports that came while the disk was full.
    held_back: VecDeque<Command>,
    eviction: Eviction,
    ticks: Ticks,
    /// As it was logged last.
    clock_state: ClockState,
}

/// The instants of a decision.
struct Moment {
    /// Of its record: later than that of the record before.
    record: Timestamp,
    /// Of the decision, by the hub's clock.
    present: Present,
}

impl<H: Hands> Worker<H> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: EngineOptions,
        metrics: EngineMetrics,
        ledger: Ledger,
        committer: Committer,
        hands: H,
        ticks: Ticks,
    ) -> Self {
        Self {
            shared,
            metrics,
            holds_callbacks: committer.holds_callbacks(),
            open: Outgoing::new(ledger.last_seq() + 1),
            spare: None,
            ledger,
            committer: Some(committer),
            hands,
            decision: Decision::default(),
            participants_changed: false,
            held_back: VecDeque::new(),
            eviction: Eviction::default(),
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

    /// Refuses what is left, now that nothing will be decided any more.
    pub(crate) fn stop(&mut self, mut submissions: VecDeque<Submission>, reason: StopReason) {
        self.open.abandon(&SubmitError::Stopped);
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
    pub(crate) fn turn(&mut self, submissions: &mut VecDeque<Submission>) -> Result<(), JournalError> {
        while let Some(errand) = self.hands.take_back() {
            self.welcome(*errand)?;
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
        while let Some(submission) = submissions.pop_front() {
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
        let ticks = self.ticks.is_due();
        if ticks {
            self.tick(has_room);
        }
        // The courier's reports need no sync of their own: losing one only repeats a callback. While the journal's thread
        // is busy the batch goes on growing; its return ends the waiting for the queue.
        let is_due = ticks || self.somebody_waits();
        if is_due && self.committer.is_some() {
            return self.commit();
        }
        self.open.pause();
        Ok(())
    }

    fn somebody_waits(&self) -> bool {
        self.open.is_awaited() || self.participants_changed
    }

    fn take(&mut self, submission: Submission) {
        match submission {
            Submission::Command { mut command, payload, archive_epoch, arrived, answer, desk } => {
                let kind = Kind::of(&command);
                if let (Kind::Prepare, true) = (kind, self.is_archive_behind()) {
                    self.metrics.refused_busy.inc();
                    let _ = answer.send(Err(SubmitError::Busy));
                    return;
                }
                if let (true, Some((_, archived))) =
                    (self.eviction.outdates(archive_epoch), look_up_of(&mut command))
                {
                    // The look-up is older than what memory has forgotten since: it must be made again.
                    *archived = Archived::Unknown;
                }
                let published = self.open.records.len();
                self.find_jump(&mut command);
                let payload = self.decide(&command, payload);
                let held = self.open.records.get(published).filter(|record| record.asker.is_some()).cloned();
                let reply = mem::take(&mut self.decision.reply);
                self.follow_accepted(&command, &reply);
                if reply == Reply::NeedsArchive {
                    let kept = payload.unwrap_or_default();
                    let _ = answer.send(Ok(Verdict::LookUp(Box::new(command), kept)));
                } else {
                    self.open.waiters.push(Waiter::Caller { answer, desk, reply, kind, arrived, held });
                }
            }
            Submission::Quiet(command) => {
                self.decide(&command, Payload::default());
            }
            Submission::Question(question) => {
                self.open.waiters.push(Waiter::Asker(question(&self.ledger)));
            }
        }
    }

    fn take_without_room(&mut self, submission: Submission) {
        match submission {
            Submission::Quiet(command) if self.held_back.len() < REPORTS_MAX => {
                self.held_back.push_back(command);
            }
            Submission::Question(_) => self.take(submission),
            refused => {
                self.metrics.refused_full.inc();
                refuse(refused, &SubmitError::Full);
            }
        }
    }

    /// Decides a command, records the decision in the batch and folds it into the state. Gives the payload back when there
    /// was nothing to record.
    fn decide(&mut self, command: &Command, payload: Payload) -> Option<Payload> {
        let Moment { record: stamp, present } = self.moment();
        let now = present.at;
        self.decision.clear();
        self.ledger.decide(command, present, &mut self.decision);
        self.metrics.commands.inc();
        if self.decision.is_empty() {
            return Some(payload);
        }
        let Decision { events, notices, .. } = &mut self.decision;
        let payload = payload.kept_for(events);
        if now != stamp {
            events.insert(0, Event::DecidedAt(now));
        }
        let seq = self.open.batch.push(stamp, |buffer| {
            let payload = upesi_ledger::Payload { headers: &payload.headers, body: &payload.body };
            upesi_ledger::Record::encode(events, notices, payload, buffer);
        });
        let mut prepared_before = None;
        for event in events.iter() {
            self.participants_changed |= Participants::is_changed_by(event);
            match event {
                Event::TransferPrepared(_) => self.open.positions += 1,
                Event::TransferCommitted { id, .. } | Event::TransferAborted { id, .. } => {
                    self.open.positions += 1;
                    // A tick may end many at once, and none by a message that somebody waits for.
                    if self.metrics.observes && !matches!(command, Command::Tick) {
                        let ended = self.ledger.transfer(*id);
                        prepared_before = ended.map(|transfer| now.since(transfer.prepared_at));
                    }
                }
                Event::NoticesRedelivered(keys) => self.open.redelivered.extend_from_slice(keys),
                _ => {}
            }
        }
        self.ledger.evolve(seq, stamp, events.drain(..), notices);
        if !notices.is_empty() {
            let notices = mem::take(notices);
            let asker = self.asker(command, &notices);
            let record = DurableRecord { seq, time: now, notices, payload, prepared_before, asker };
            self.open.records.push(Arc::new(record));
        }
        None
    }

    /// The sender of a request, where one of these callbacks goes back to it.
    fn asker(&self, command: &Command, notices: &[Notice]) -> Option<ParticipantId> {
        let source = match command {
            _ if !self.holds_callbacks => return None,
            Command::Prepare(prepare) => &prepare.source,
            Command::Fulfil(fulfil) => &fulfil.source,
            Command::Abort(abort) => &abort.source,
            Command::Get(get) => &get.source,
            _ => return None,
        };
        let is_asker = |target: &ParticipantId| {
            self.ledger.participant(*target).name.as_str().eq_ignore_ascii_case(source.as_str())
        };
        notices.iter().map(|notice| notice.target).find(is_asker)
    }

    /// The present, and the instant for its record, made later than the last record's. When that is ahead of the clock,
    /// records keep their order by the smallest steps, and deadlines go by the clock.
    fn moment(&self) -> Moment {
        let present = self.shared.clock.present();
        let next = Timestamp::from_ns(self.ledger.last_time().as_ns().saturating_add(1));
        let record = present.at.max(next);
        if record.ms_since(present.at) >= STAMP_AHEAD_MS {
            return Moment { record, present };
        }
        Moment { record, present: Present { at: record, latest: present.latest.max(record), ..present } }
    }

    /// An operator accepts the jump that there is when the engine decides.
    fn find_jump(&self, command: &mut Command) {
        if let Command::Admin(AdminCommand::AcceptClock { jump_ms, .. }) = command {
            let found = self.shared.clock.compare(self.ledger.last_time()).jump_ms;
            *jump_ms = Some(found).filter(|jump_ms| *jump_ms != 0);
        }
    }

    /// What was accepted is the time from now on.
    fn follow_accepted(&mut self, command: &Command, reply: &Reply) {
        let is_accepted = matches!(reply, Reply::Admin(Ok(AdminOutcome::Done)));
        if let (Command::Admin(AdminCommand::AcceptClock { .. }), true) = (command, is_accepted) {
            self.shared.clock.accept();
            self.compare_clocks();
        }
    }

    /// Follows the wall clock as long as it has not jumped, and says so when that changes.
    fn compare_clocks(&mut self) {
        let state = self.shared.clock.compare(self.ledger.last_time());
        let before = mem::replace(&mut self.clock_state, state);
        let changed = |find: fn(&ClockState) -> i64| (find(&before) == 0) != (find(&state) == 0);
        if changed(|state| state.jump_ms) || changed(|state| state.ahead_ms) {
            match state.fault() {
                Some(fault) => tracing::error!("{fault}"),
                None => tracing::warn!("the clocks agree again"),
            }
        }
        let seconds = |ms: i64| {
            let sign = if ms < 0 { -1.0 } else { 1.0 };
            Duration::from_millis(ms.unsigned_abs()).as_secs_f64().copysign(sign)
        };
        self.metrics.clock_jump_seconds.set(seconds(state.jump_ms));
        self.metrics.clock_ahead_seconds.set(seconds(state.ahead_ms));
    }

    /// Expires what is due, a bounded number per turn; when more is due the next turn follows at once.
    fn tick(&mut self, has_room: bool) {
        self.compare_clocks();
        let now = self.moment().present.at;
        self.ticks.rearm(false, self.options.tick_interval);
        if !has_room {
            return self.observe();
        }
        let is_due = |ledger: &Ledger| ledger.next_deadline().is_some_and(|deadline| deadline < now);
        if is_due(&self.ledger) {
            self.decide(&Command::Tick, Payload::default());
        }
        if is_due(&self.ledger) {
            self.ticks.rearm(true, self.options.tick_interval);
        }
        self.observe();
    }

    /// Commits the open batch and begins another: here, or when it is large, on the journal's thread. Waits until the batch
    /// before is durable.
    fn commit(&mut self) -> Result<(), JournalError> {
        self.close_batch();
        let mut committer = self.committer()?;
        let bytes = self.open.batch.bytes();
        let is_large = !self.open.batch.is_empty() && bytes >= self.options.overlap_bytes_min;
        // The next batch is decided before this one is written, so there must be room for both.
        let both = bytes + self.options.batch_bytes_max + 2 * DECISION_BYTES_MAX;
        if is_large && committer.has_room_for(both) {
            let next = self.spare.take().unwrap_or_else(|| Outgoing::new(self.ledger.last_seq() + 1));
            let outgoing = mem::replace(&mut self.open, next);
            let errand = Box::new(Errand { committer, outgoing, result: Ok(()) });
            if let Err(unsent) = self.hands.give(errand) {
                return self.welcome(Errand { result: Err(JournalError::Poisoned), ..*unsent });
            }
        } else {
            let result = committer.commit(&mut self.open);
            self.committer = Some(committer);
            result?;
        }
        self.open.reset(self.ledger.last_seq() + 1);
        Ok(())
    }

    /// Commits what is left, here.
    pub(crate) fn finish(&mut self) -> StopReason {
        self.close_batch();
        let committed = self.committer().and_then(|mut committer| committer.commit(&mut self.open));
        committed.map_or_else(StopReason::of_journal, |()| StopReason::Shutdown)
    }

    /// The state, those decisions included that are not durable yet.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) const fn hands(&mut self) -> &mut H {
        &mut self.hands
    }

    /// Lets the next turn look at deadlines.
    pub(crate) const fn ask_for_tick(&mut self) {
        self.ticks = Ticks::Asked(true);
    }

    fn close_batch(&mut self) {
        self.open.pause();
        if mem::take(&mut self.participants_changed) {
            self.open.participants = Some(Arc::new(Participants::of(&self.ledger)));
        }
    }

    /// The committer, taken out, once the journal's thread has given it back.
    fn committer(&mut self) -> Result<Committer, JournalError> {
        if self.committer.is_none() {
            let errand = self.hands.wait().ok_or(JournalError::Poisoned)?;
            self.welcome(*errand)?;
        }
        self.committer.take().ok_or(JournalError::Poisoned)
    }

    /// Takes back what was given to the journal's thread.
    fn welcome(&mut self, errand: Errand) -> Result<(), JournalError> {
        let Errand { committer, mut outgoing, result } = errand;
        self.committer = Some(committer);
        if result.is_err() {
            outgoing.abandon(&SubmitError::Stopped);
        }
        self.spare = Some(outgoing);
        result
    }

    /// Makes sure that the next batch will find its place on the disk, before anything is decided: a batch as large as
    /// allowed, or one command of `bytes`. And the one after it, which may be decided before this one is written.
    fn has_room(&mut self, bytes: usize) -> Result<bool, JournalError> {
        if self.committer.is_none() && bytes <= self.options.batch_bytes_max {
            // There was room for this batch when the one before was given to the journal's thread.
            return Ok(true);
        }
        let mut committer = self.committer()?;
        let batch_bytes = bytes.max(self.options.batch_bytes_max) + DECISION_BYTES_MAX;
        let room = committer.reserve(2 * batch_bytes);
        self.committer = Some(committer);
        let room = room?;
        let serving = if room { Serving::Yes } else { Serving::ReadOnly };
        let mut present = self.shared.serving();
        // Who has stopped does not serve again.
        if *present != serving && !matches!(*present, Serving::Stopped(_)) {
            match serving {
                Serving::Yes => tracing::warn!("the disk has room again: commands are taken"),
                _ => tracing::warn!("the disk has no room: questions are answered, commands are refused"),
            }
            *present = serving;
        }
        Ok(room)
    }

    fn is_archive_behind(&self) -> bool {
        self.ledger.finished_len() >= self.options.finished_transfers_max
    }

    /// Takes finished transfers out of memory that every look-up finds in the archive by now.
    fn evict(&mut self) {
        if let Some(due) = self.eviction.due(&self.shared.archive) {
            self.ledger.drain_finished(due.forget_to).for_each(drop);
            self.metrics.archived_seq.set(due.watermark as i64);
        }
    }

    /// How long the first command of a turn has waited: the longest of them.
    fn observe_wait(&self, submissions: &VecDeque<Submission>) {
        if !self.metrics.observes {
            return;
        }
        let arrived = submissions.iter().find_map(|submission| match submission {
            Submission::Command { arrived, .. } => Some(arrived),
            Submission::Quiet(_) | Submission::Question(_) => None,
        });
        if let Some(arrived) = arrived {
            self.metrics.wait_seconds.observe(arrived.elapsed().as_secs_f64());
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

//! The interface through which gateway, admin API and other edges use the engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use upesi_journal::Log;
use upesi_ledger::codec::Decoder;
use upesi_ledger::command::{BulkCommand, FxTransferCommand};
use upesi_ledger::{
    Archived, Bulk, CallbackKey, Command, FxTransfer, Ledger, ParticipantId, Reply, Stored, Transfer,
};
use upesi_tables::archive::{Archive, ArchiveStats};
use upesi_types::{BulkId, Timestamp, TransferId};

use crate::backlog::{PendingCallback, PendingPage, RecordReader};
use crate::clock::GuardedClock;
use crate::error::{StopReason, SubmitError};
use crate::follow::{Follow, FollowError};
use crate::metrics::EngineMetrics;
use crate::queue::{Answer, CommandOutcome, Completion, Submission};
use crate::record::Payload;
use crate::reply_batcher::{ReplyBatcher, ReplyTo};
use crate::shared::{Availability, EngineStatus, SharedState};

/// How often a command is submitted again because the archive's answer was outdated.
const LOOKUPS_MAX: usize = 8;

/// A cheap handle of a running engine.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<SharedState>,
    /// Weak, so that a handle that outlives its engine does not keep the archive open.
    pub(crate) archive: Weak<dyn Archive>,
    pub(crate) records: Arc<RecordReader>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) metrics: EngineMetrics,
}

impl EngineHandle {
    /// Submits a command and waits until its decision is durable. Queries the archive if necessary.
    ///
    /// This is not an `async fn`, because an `async fn` would hold the command twice while it waits.
    pub fn submit(
        &self,
        command: Command,
        payload: Payload,
    ) -> impl Future<Output = Result<Reply, SubmitError>> + Send {
        self.submit_for(ReplyTo::Dfsp, command, payload)
    }

    /// Like [`Self::submit`], for a reply to the given target. No callback that the command causes overtakes the reply
    /// on its way to the DFSP.
    pub fn submit_for(
        &self,
        to: ReplyTo,
        command: Command,
        payload: Payload,
    ) -> impl Future<Output = Result<Reply, SubmitError>> + Send {
        let archive_epoch = self.inner.shared.archive.epoch();
        async move {
            // The rare path is boxed to save memory, because there may be as many waiting requests as connections.
            let archived = match &command {
                Command::Prepare(prepare) => self.look_up(prepare.id).await?,
                Command::FxTransfer(FxTransferCommand::Prepare(_))
                | Command::Bulk(BulkCommand::Prepare(_)) => {
                    Box::pin(self.look_up_for(&command, None)).await?
                }
                _ => Archived::Unknown,
            };
            let answered = self.hand_in(to, command, payload, archived, archive_epoch)?;
            match answered.await.unwrap_or(Err(SubmitError::Stopped))? {
                CommandOutcome::Decided(reply) => Ok(reply),
                CommandOutcome::LookUp(command, payload, id) => {
                    Box::pin(self.submit_again(to, *command, payload, id)).await
                }
            }
        }
    }

    /// Submits a command again with the archive's answer that the engine requested. Repeats this if the answer is
    /// outdated.
    async fn submit_again(
        &self,
        to: ReplyTo,
        mut command: Command,
        mut payload: Payload,
        mut id: Option<TransferId>,
    ) -> Result<Reply, SubmitError> {
        for _ in 1..LOOKUPS_MAX {
            let archive_epoch = self.inner.shared.archive.epoch();
            let archived = self.look_up_for(&command, id).await?;
            let answered = self.hand_in(to, command, payload, archived, archive_epoch)?;
            match answered.await.unwrap_or(Err(SubmitError::Stopped))? {
                CommandOutcome::Decided(reply) => return Ok(reply),
                CommandOutcome::LookUp(kept, kept_payload, kept_id) => {
                    (command, payload, id) = (*kept, kept_payload, kept_id);
                }
            }
        }
        Err(SubmitError::Busy)
    }

    /// Queries the archive for a command. `id` is the transfer that the decision depends on.
    async fn look_up_for(&self, command: &Command, id: Option<TransferId>) -> Result<Archived, SubmitError> {
        match command {
            Command::FxTransfer(command) => self.look_up_fx_transfer(command).await,
            Command::Bulk(command) => self.look_up_bulk(command).await,
            _ => {
                let Some(id) = id else { return Err(SubmitError::Stopped) };
                self.look_up(id).await
            }
        }
    }

    /// Puts a command into the queue. The returned receiver yields its answer.
    fn hand_in(
        &self,
        to: ReplyTo,
        command: Command,
        payload: Payload,
        archived: Archived,
        archive_epoch: u64,
    ) -> Result<oneshot::Receiver<Answer>, SubmitError> {
        let (answer, answered) = oneshot::channel();
        let batcher = ReplyBatcher::for_this_runtime(to);
        let arrived = Instant::now();
        let submission =
            Submission::Command { command, payload, archived, archive_epoch, arrived, answer, batcher };
        self.push(submission)?;
        Ok(answered)
    }

    /// Submits a command without waiting for it, such as the courier's reports. The command is lost if the queue is
    /// full, which is acceptable for these reports.
    pub fn submit_quietly(&self, command: Command) -> Result<(), SubmitError> {
        self.push(Submission::Quiet(command))
    }

    /// Queries the ledger between two commands. The answer is returned when everything that the query saw is durable.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, SubmitError> {
        let (answer, answered) = oneshot::channel();
        let ask = move |ledger: &Ledger| -> Completion {
            let found = question(ledger);
            Box::new(move |outcome| {
                let _ = answer.send(outcome.map(|()| found));
            })
        };
        self.push(Submission::Question(Box::new(ask)))?;
        answered.await.unwrap_or(Err(SubmitError::Stopped))
    }

    fn push(&self, submission: Submission) -> Result<(), SubmitError> {
        if self.inner.log.is_held_up() {
            return Err(SubmitError::HeldUp);
        }
        self.inner.shared.queue.push(submission).inspect_err(|error| {
            if *error == SubmitError::Busy {
                self.inner.metrics.refused_busy.inc();
            }
        })
    }

    /// A transfer, from memory or from the archive.
    pub async fn transfer(&self, id: TransferId) -> Result<Option<Transfer>, SubmitError> {
        if let Some(found) = self.read(move |ledger| ledger.transfer(id).cloned()).await? {
            return Ok(Some(found));
        }
        match self.look_up(id).await? {
            Archived::Found(transfer) => Ok(Some(*transfer)),
            _ => Ok(None),
        }
    }

    /// A bulk transfer, from memory or from the archive.
    pub async fn bulk(&self, id: BulkId) -> Result<Option<Bulk>, SubmitError> {
        match self.read(move |ledger| ledger.bulk(id).cloned()).await? {
            Some(found) => Ok(Some(found)),
            None => self.read_archive(id.archive_key()).await,
        }
    }

    /// The request of a durable journal record; `None` if it can no longer be read.
    pub async fn payload(&self, seq: u64) -> Result<Option<Payload>, SubmitError> {
        let records = Arc::clone(&self.inner.records);
        blocking(move || records.payload(seq).ok()).await
    }

    /// The bulk transfer of a transfer and the position of the item, from the durable record that prepared the
    /// transfer. `None` if the transfer is not an item, or if the record can no longer be read.
    pub async fn item_of(&self, prepare_seq: u64) -> Result<Option<(BulkId, u32)>, SubmitError> {
        let records = Arc::clone(&self.inner.records);
        blocking(move || records.item_of(prepare_seq).ok().flatten()).await
    }

    /// The keys of the callbacks that [`Self::pending_callbacks`] returns.
    pub async fn pending_keys(
        &self,
        target: ParticipantId,
        after: Option<(u64, u8)>,
        limit: usize,
    ) -> Result<Vec<CallbackKey>, SubmitError> {
        self.read(move |ledger| ledger.outbox().pending(target, after).take(limit).collect()).await
    }

    /// The oldest undelivered, unparked callbacks of a participant that are younger than `after`, at most `limit`.
    pub async fn pending_callbacks(
        &self,
        target: ParticipantId,
        after: Option<(u64, u8)>,
        limit: usize,
    ) -> Result<PendingPage, SubmitError> {
        let mut keys = self.pending_keys(target, after, limit + 1).await?;
        let has_more = keys.len() > limit;
        keys.truncate(limit);
        let more_after = keys.last().filter(|_| has_more).map(|key| key.age());
        Ok(PendingPage { callbacks: self.callbacks(keys).await?, more_after })
    }

    /// The content of callbacks by key. Callbacks whose records are damaged are left out and logged.
    ///
    /// Returns an error if the disk cannot be read at the moment. Treating this as an empty result would leave
    /// callbacks unsent.
    pub async fn callbacks(&self, keys: Vec<CallbackKey>) -> Result<Vec<PendingCallback>, SubmitError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let records = Arc::clone(&self.inner.records);
        let read = move || records.callbacks(&keys).map_err(|error| SubmitError::Journal(error.to_string()));
        blocking(read).await?
    }

    async fn look_up(&self, id: TransferId) -> Result<Archived, SubmitError> {
        let found: Option<Transfer> = self.read_archive(id).await?;
        Ok(found.map_or(Archived::Absent, |transfer| Archived::Found(Box::new(transfer))))
    }

    /// The archive's answer for a command about an FX transfer.
    async fn look_up_fx_transfer(&self, command: &FxTransferCommand) -> Result<Archived, SubmitError> {
        let fx_transfer = match command.fx_transfer() {
            Some(id) => self.read_archive::<FxTransfer>(id.archive_key()).await?.map(Box::new),
            None => None,
        };
        let has_transfer = match command.determining_transfer() {
            Some(id) if fx_transfer.is_none() => self.read_archive::<Transfer>(id).await?.is_some(),
            _ => false,
        };
        Ok(Archived::FxTransfer { fx_transfer, has_transfer })
    }

    /// The archive's answer for a command about a bulk transfer.
    async fn look_up_bulk(&self, command: &BulkCommand) -> Result<Archived, SubmitError> {
        let bulk = match command.bulk() {
            Some(id) => self.read_archive::<Bulk>(id.archive_key()).await?.map(Box::new),
            None => None,
        };
        let mut transfers = BTreeSet::new();
        for id in command.transfers() {
            if self.read_archive::<Transfer>(id).await?.is_some() {
                transfers.insert(id);
            }
        }
        Ok(Archived::Bulk { bulk, transfers })
    }

    /// Reads from the archive, usually from memory. A read from the disk runs on a thread that may block.
    pub(crate) async fn read_archive<T: Stored>(&self, id: TransferId) -> Result<Option<T>, SubmitError> {
        let archive = self.inner.archive.upgrade().ok_or(SubmitError::Stopped)?;
        if !archive.may_contain(&id) {
            return Ok(None);
        }
        let failed = |error: &dyn std::fmt::Display| SubmitError::Archive(error.to_string());
        let durations = self.inner.metrics.archive_read_seconds.clone();
        let read = move || {
            let started = Instant::now();
            archive.get(&id).inspect(|_| durations.observe(started.elapsed().as_secs_f64()))
        };
        let bytes = blocking(read).await?.map_err(|error| failed(&error))?;
        bytes.map(|bytes| T::decode(&mut Decoder(&bytes)).map_err(|error| failed(&error))).transpose()
    }

    /// The journal's records from `seq` on, and new records as they become durable. The stream ends after the engine
    /// has stopped.
    pub fn follow(&self, seq: u64) -> Follow {
        Follow::live(&self.inner.log, seq, Arc::clone(&self.inner.shared.durable))
    }

    /// The first durable record up to `last` that is not before an instant; the one after `last` if there is none. It
    /// uses a binary search, because times of records increase. Reads from disk.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn first_since(&self, since: Timestamp, last: u64) -> Result<u64, FollowError> {
        let mut records = self.follow(1);
        let oldest = match records.next_up_to(last) {
            Ok(_) => 1,
            Err(FollowError::Gone { oldest, .. }) => oldest,
            Err(error) => return Err(error),
        };
        let (mut low, mut high) = (oldest, last + 1);
        if since <= Timestamp::EPOCH {
            return Ok(low);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match records.read(middle) {
                Ok(found) if found.time >= since => high = middle,
                Ok(_) => low = middle + 1,
                // Retention may remove records meanwhile.
                Err(FollowError::Gone { oldest, .. }) if oldest > low => low = oldest,
                Err(error) => return Err(error),
            }
        }
        Ok(low)
    }

    /// The state of the engine.
    pub fn status(&self) -> EngineStatus {
        let mut status = self.inner.shared.status();
        if status.serving == Availability::Yes && self.inner.log.is_held_up() {
            status.serving = Availability::HeldUp;
        }
        status
    }

    /// The hub's clock.
    pub fn clock(&self) -> Arc<GuardedClock> {
        Arc::clone(&self.inner.shared.clock)
    }

    /// Statistics of the archive; `None` after the engine has ended.
    pub fn archive_stats(&self) -> Option<ArchiveStats> {
        self.inner.archive.upgrade().map(|archive| archive.stats())
    }

    /// The archive, for retention; `None` after the engine has ended. A caller that keeps it keeps the archive open.
    pub fn archive(&self) -> Option<Arc<dyn Archive>> {
        self.inner.archive.upgrade()
    }

    /// Closes the archive's current division. The journal records this, and the archivist does it when it reaches the
    /// record, on this node and on every follower. Later removals are therefore the same on all nodes.
    pub async fn divide_archive(&self) -> Result<(), SubmitError> {
        self.submit(Command::DivideArchive, Payload::default()).await?;
        self.inner.shared.archive.ask(self.inner.shared.durable.get());
        Ok(())
    }

    /// Permanently removes transfers that finished up to a record from the archive. The journal records the removal
    /// first, so that no later fold mistakes a reused id for a known one. The current division stays. Returns the
    /// number of removed divisions, after record and removal are durable.
    pub async fn remove_finished(&self, to_seq: u64) -> Result<u64, SubmitError> {
        let archive = self.inner.archive.upgrade().ok_or(SubmitError::Stopped)?;
        let growing = archive.divisions().last().map_or(1, |growing| growing.first_seq);
        let to_seq = to_seq.min(growing.saturating_sub(1));
        self.submit(Command::RemoveFinished { to_seq }, Payload::default()).await?;
        let removed = blocking(move || archive.remove_to(to_seq)).await?;
        removed.map_err(|error| SubmitError::Archive(error.to_string()))
    }

    /// Hands over the leadership to another node of the cluster. No further commands are accepted, accepted ones are
    /// decided and committed, and the log states that `successor`, or any other node, may lead. Waits until the engine
    /// has stopped and returns the reason.
    pub async fn hand_over(&self, successor: Option<u32>) -> StopReason {
        // Only the first request has an effect.
        let _ = self.inner.shared.successor.set(successor);
        self.inner.shared.queue.close();
        self.stopped().await
    }

    /// The node that was named in the request for a handover; `None` without a request, or if any node may lead.
    pub fn successor(&self) -> Option<u32> {
        self.inner.shared.successor.get().copied().flatten()
    }

    /// Waits until the engine has stopped and returns the reason.
    pub async fn stopped(&self) -> StopReason {
        let mut stopped: watch::Receiver<_> = self.inner.shared.stopped.subscribe();
        let reason = stopped.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(StopReason::Shutdown)
    }
}

/// Runs work that may wait for the disk on a thread that may block. Outside a runtime, as in simulations, runs it
/// directly.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SubmitError> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| SubmitError::Stopped),
        Err(_) => Ok(work()),
    }
}

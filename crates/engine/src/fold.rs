//! The one fold of the journal: the engine's replay at a start, the archivist, the rebuild of a lost archive, and the
//! tools.

use std::collections::VecDeque;
use std::sync::Arc;

use upesi_journal::{END, Log, Snapshot};
use upesi_ledger::{Callback, Event, Ledger, LedgerConfig, Record};
use upesi_types::Timestamp;

use crate::error::StartError;
use crate::follow::{Follow, FollowError, Followed, follow, follow_once};

/// Records that are read together, so that the transfers of all are fetched from memory at once.
const READ_AHEAD: usize = 32;

/// Folds the records of a journal into a ledger, one after the other.
///
/// The meaning of a finished transfer's id depends on whether retention has removed the transfer, and retention
/// goes by its own time. So a removal is a record of its own, before which no id that it frees comes again, and the
/// ledger forgets at that record what a fold still holds. A fold that begins anew also skips what the archive holds
/// already: it is neither kept in memory nor archived once more.
pub struct Fold {
    /// The state after the last record that was folded.
    pub ledger: Ledger,
    records: Follow,
    /// Read and not folded yet; behind an error nothing is read.
    ahead: VecDeque<Result<Ahead, FollowError>>,
    /// Lists of records that were folded, for those to come.
    spare: Vec<(Vec<Event>, Vec<Callback>)>,
    archived_to: u64,
}

/// What is folded of a record.
struct Ahead {
    seq: u64,
    time: Timestamp,
    events: Vec<Event>,
    callbacks: Vec<Callback>,
}

impl From<Followed<'_>> for Ahead {
    fn from(Followed { seq, time, record, .. }: Followed<'_>) -> Self {
        let Record { events, callbacks, .. } = record;
        Self { seq, time, events, callbacks }
    }
}

impl Fold {
    /// Continues after the last record of `ledger`. The archive holds, or has removed, all that finished up to
    /// `archived_to`.
    pub fn new(log: &Arc<dyn Log>, ledger: Ledger, archived_to: u64) -> Self {
        Self::of(follow(log, ledger.last_seq() + 1), ledger, archived_to)
    }

    /// The same, for the last reader of those records: it leaves caches to others.
    pub fn once(log: &Arc<dyn Log>, ledger: Ledger, archived_to: u64) -> Self {
        Self::of(follow_once(log, ledger.last_seq() + 1), ledger, archived_to)
    }

    fn of(records: Follow, ledger: Ledger, archived_to: u64) -> Self {
        let ahead = VecDeque::with_capacity(READ_AHEAD);
        Self { ledger, records, ahead, spare: Vec::with_capacity(READ_AHEAD), archived_to }
    }

    /// Begins as early as possible: at the first record ever, or, if the journal has lost it to retention, behind
    /// the oldest of `snapshots`. Finished transfers stay in the ledger.
    ///
    /// # Errors
    /// The journal cannot be read, or the snapshot is not understood.
    pub fn earliest(
        log: &Arc<dyn Log>,
        snapshots: &[Snapshot],
        config: LedgerConfig,
    ) -> Result<Self, StartError> {
        let is_whole = log.oldest_seq()?.is_none_or(|oldest| oldest <= 1);
        let ledger = match snapshots.first().filter(|_| !is_whole) {
            None => Ledger::new(config),
            Some(Snapshot { seq, bytes, .. }) => Ledger::decode_snapshot(bytes, config)
                .map_err(|source| StartError::Snapshot { seq: *seq, source })?,
        };
        Ok(Self::new(log, ledger, 0))
    }

    /// Folds the next record up to `goal`; false when there is none.
    ///
    /// # Errors
    /// The journal cannot be read, or one of its records is not understood.
    pub fn next(&mut self, goal: u64) -> Result<bool, StartError> {
        self.next_seen(goal, |_| ())
    }

    /// The same; `see` is shown the events before they are folded.
    pub(crate) fn next_seen(&mut self, goal: u64, see: impl FnOnce(&[Event])) -> Result<bool, StartError> {
        if self.ahead.is_empty() {
            self.read_ahead(goal);
        }
        let is_due = |next: &mut Result<Ahead, _>| next.as_ref().map_or(true, |next| next.seq <= goal);
        let Some(next) = self.ahead.pop_front_if(is_due) else { return Ok(false) };
        let Ahead { seq, time, mut events, callbacks } = next?;
        see(&events);
        self.ledger.evolve(seq, time, events.drain(..), &callbacks);
        self.spare.push((events, callbacks));
        if seq <= self.archived_to {
            self.forget_to(seq);
        }
        Ok(true)
    }

    fn read_ahead(&mut self, goal: u64) {
        while self.ahead.len() < READ_AHEAD {
            if let Some((events, callbacks)) = self.spare.pop() {
                self.records.reuse(events, callbacks);
            }
            let Some(found) = self.records.next_up_to(goal).transpose() else { break };
            self.ahead.push_back(found.map(Ahead::from));
            if let Some(Err(_)) = self.ahead.back() {
                break;
            }
        }
        let events = self.ahead.iter().flatten().flat_map(|next| &next.events);
        self.ledger.fetch(events.filter_map(Event::transfer_id));
    }

    /// The archive holds, or has removed, all that finished up to a record by now.
    pub(crate) fn skip_to(&mut self, archived_to: u64) {
        self.archived_to = self.archived_to.max(archived_to);
        self.forget_to(self.archived_to.min(self.ledger.last_seq()));
    }

    /// Forgets what finished up to a record: the archive has it.
    pub(crate) fn forget_to(&mut self, seq: u64) {
        self.ledger.drain_finished(seq).for_each(drop);
        self.ledger.take_finished_conversions(seq).for_each(drop);
        self.ledger.take_finished_bulks(seq).for_each(drop);
    }

    /// Folds all records to the end of a log without an appender.
    ///
    /// # Errors
    /// As [`Fold::next`].
    pub fn finish(self) -> Result<Ledger, StartError> {
        self.finish_at(END)
    }

    /// The same of a log whose last record is known: what it has prepared behind that may be much, and is not read.
    pub(crate) fn finish_at(mut self, last_seq: u64) -> Result<Ledger, StartError> {
        while self.next(last_seq)? {}
        Ok(self.ledger)
    }
}

impl std::fmt::Debug for Fold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold").field("seq", &self.ledger.last_seq()).finish_non_exhaustive()
    }
}

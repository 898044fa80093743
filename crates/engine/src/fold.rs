//! The only fold of the journal. It is used by the engine's replay at a start, the archivist, the rebuild of a lost
//! archive, and the tools.

use std::collections::VecDeque;
use std::sync::Arc;

use upesi_journal::{END, Log, Snapshot};
use upesi_ledger::{Callback, Event, Ledger, LedgerConfig, Record};
use upesi_types::Timestamp;

use crate::error::StartError;
use crate::follow::{DecodedRecord, Follow, FollowError, follow, follow_once};

/// Number of records that are read together, so that their transfers are loaded from memory at once.
const READ_AHEAD: usize = 32;

/// Applies the records of a journal to a ledger, one after the other.
///
/// The meaning of a finished transfer's id depends on whether retention has removed the transfer, and retention has its
/// own schedule. A removal is therefore a record, and the ids that it frees are not reused before it. At that record
/// the ledger also drops finished transfers that a fold still holds. A fold that starts again skips transfers that the
/// archive already contains: they are neither kept in memory nor archived again.
pub struct LedgerFold {
    /// The state after the last applied record.
    pub ledger: Ledger,
    records: Follow,
    /// Records that are read but not applied yet. Nothing is read after an error.
    ahead: VecDeque<Result<PendingRecord, FollowError>>,
    /// Lists of applied records, reused for later records.
    spare: Vec<(Vec<Event>, Vec<Callback>)>,
    archived_to: u64,
}

/// The parts of a record that are applied.
struct PendingRecord {
    seq: u64,
    time: Timestamp,
    events: Vec<Event>,
    callbacks: Vec<Callback>,
}

impl From<DecodedRecord<'_>> for PendingRecord {
    fn from(DecodedRecord { seq, time, record, .. }: DecodedRecord<'_>) -> Self {
        let Record { events, callbacks, .. } = record;
        Self { seq, time, events, callbacks }
    }
}

impl LedgerFold {
    /// Continues after the last record of `ledger`. The archive contains, or has removed, everything that finished up
    /// to `archived_to`.
    pub fn new(log: &Arc<dyn Log>, ledger: Ledger, archived_to: u64) -> Self {
        Self::of(follow(log, ledger.last_seq() + 1), ledger, archived_to)
    }

    /// Like [`Self::new`], for a fold that is the last reader of those records and should not displace cached data.
    pub fn once(log: &Arc<dyn Log>, ledger: Ledger, archived_to: u64) -> Self {
        Self::of(follow_once(log, ledger.last_seq() + 1), ledger, archived_to)
    }

    fn of(records: Follow, ledger: Ledger, archived_to: u64) -> Self {
        let ahead = VecDeque::with_capacity(READ_AHEAD);
        Self { ledger, records, ahead, spare: Vec::with_capacity(READ_AHEAD), archived_to }
    }

    /// Starts as early as possible: at the very first record, or after the oldest of `snapshots` if retention has
    /// deleted the first record. Finished transfers stay in the ledger.
    ///
    /// # Errors
    /// The journal cannot be read, or the snapshot cannot be decoded.
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

    /// Applies the next record up to `goal`. Returns false if there is none.
    ///
    /// # Errors
    /// The journal cannot be read, or one of its records cannot be decoded.
    pub fn next(&mut self, goal: u64) -> Result<bool, StartError> {
        self.next_seen(goal, |_| ())
    }

    /// Like [`Self::next`]. Calls `see` with the events before they are applied.
    pub(crate) fn next_seen(&mut self, goal: u64, see: impl FnOnce(&[Event])) -> Result<bool, StartError> {
        if self.ahead.is_empty() {
            self.read_ahead(goal);
        }
        let is_due =
            |next: &mut Result<PendingRecord, _>| next.as_ref().map_or(true, |next| next.seq <= goal);
        let Some(next) = self.ahead.pop_front_if(is_due) else { return Ok(false) };
        let PendingRecord { seq, time, mut events, callbacks } = next?;
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
            self.ahead.push_back(found.map(PendingRecord::from));
            if let Some(Err(_)) = self.ahead.back() {
                break;
            }
        }
        let events = self.ahead.iter().flatten().flat_map(|next| &next.events);
        self.ledger.fetch(events.filter_map(Event::transfer_id));
    }

    /// Notes that the archive now contains, or has removed, everything that finished up to a record.
    pub(crate) fn skip_to(&mut self, archived_to: u64) {
        self.archived_to = self.archived_to.max(archived_to);
        self.forget_to(self.archived_to.min(self.ledger.last_seq()));
    }

    /// Drops everything that finished up to a record, because the archive has it.
    pub(crate) fn forget_to(&mut self, seq: u64) {
        self.ledger.drain_finished(seq).for_each(drop);
        self.ledger.take_finished_fx_transfers(seq).for_each(drop);
        self.ledger.take_finished_bulks(seq).for_each(drop);
    }

    /// Applies all records to the end of a log without an appender.
    ///
    /// # Errors
    /// Like [`LedgerFold::next`].
    pub fn finish(self) -> Result<Ledger, StartError> {
        self.finish_at(END)
    }

    /// Like [`Self::finish`], for a log whose last record is known. The prepared space after it may be large and is not
    /// read.
    pub(crate) fn finish_at(mut self, last_seq: u64) -> Result<Ledger, StartError> {
        while self.next(last_seq)? {}
        Ok(self.ledger)
    }
}

impl std::fmt::Debug for LedgerFold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fold").field("seq", &self.ledger.last_seq()).finish_non_exhaustive()
    }
}

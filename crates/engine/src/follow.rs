//! The record stream: decoded journal records in order from any sequence number on, and new records as they become
//! durable.

use std::mem;
use std::sync::Arc;

use upesi_journal::{Damage, END, JournalError, Log, LogReader, Record as Stored, TornTail};
use upesi_ledger::{Callback, Event, Record, SnapshotError};
use upesi_types::Timestamp;

use crate::durable_seq::DurableSeq;
use crate::record::{DurableRecord, Payload};

/// A decoded record of the journal.
#[derive(Debug)]
pub struct DecodedRecord<'a> {
    /// The sequence number.
    pub seq: u64,
    /// The record's own time; see [`Record::decided_at`].
    pub time: Timestamp,
    /// Events, callbacks and payload.
    pub record: Record<'a>,
    /// The stored form.
    pub bytes: &'a [u8],
}

impl DecodedRecord<'_> {
    /// Converts the record to the form that the engine releases. It has no sender that waits for a response.
    pub fn into_durable(self) -> DurableRecord {
        let Self { seq, time, record, .. } = self;
        let (time, payload) = (record.decided_at(time), Payload::of(&record));
        let callbacks = record.callbacks;
        DurableRecord { seq, time, callbacks, payload, prepared_before: None, asker: None }
    }
}

/// The reason why a record cannot be read from the stream.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// Retention has removed the record.
    #[error(
        "record {seq} is no longer in the journal, whose oldest is {oldest}: begin after a snapshot of record {} or later, or \
         restore the older segments from a backup",
        oldest.saturating_sub(1)
    )]
    Gone {
        /// The sequence number of the record.
        seq: u64,
        /// The oldest record in the journal.
        oldest: u64,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(JournalError),
    /// A sound record cannot be decoded.
    #[error("record {seq}: {source}")]
    Record {
        /// The sequence number of the record.
        seq: u64,
        source: SnapshotError,
    },
}

/// Records from `seq` on, in order, each as soon as it is durable.
///
/// The stream of a running engine comes from [`EngineHandle::follow`](crate::EngineHandle::follow). It waits for new
/// records and ends after the engine has stopped. The stream of a log without an appender comes from [`follow`] and
/// reads to the log's end.
pub struct Follow {
    log: Arc<dyn Log>,
    reader: Box<dyn LogReader>,
    /// The last durable record of a running engine.
    durable: Option<Arc<DurableSeq>>,
    /// Lists of a returned record, reused for the next one.
    events: Vec<Event>,
    callbacks: Vec<Callback>,
}

/// The records of a log from `seq` on. A snapshot's state continues with the record after it.
pub fn follow(log: &Arc<dyn Log>, seq: u64) -> Follow {
    Follow::new(log, log.read_from(seq))
}

/// Like [`follow`], for the last reader of those records, which should not displace cached data.
pub fn follow_once(log: &Arc<dyn Log>, seq: u64) -> Follow {
    Follow::new(log, log.read_once_from(seq))
}

/// The records of a log from the oldest on.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub fn follow_from_oldest(log: &Arc<dyn Log>) -> Result<Follow, FollowError> {
    let oldest = log.oldest_seq().map_err(FollowError::Journal)?;
    Ok(follow_once(log, oldest.unwrap_or(1)))
}

impl Follow {
    fn new(log: &Arc<dyn Log>, reader: Box<dyn LogReader>) -> Self {
        Self { log: Arc::clone(log), reader, durable: None, events: Vec::new(), callbacks: Vec::new() }
    }

    pub(crate) fn live(log: &Arc<dyn Log>, seq: u64, durable: Arc<DurableSeq>) -> Self {
        Self { durable: Some(durable), ..follow(log, seq) }
    }

    /// Returns the next record without waiting. Returns `None` at the end of the log, or if the next record is not
    /// durable yet.
    ///
    /// # Errors
    /// If the record is missing or damaged, the next call tries it again. If it cannot be decoded, the next call
    /// continues after it.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the stream")]
    pub fn next(&mut self) -> Result<Option<DecodedRecord<'_>>, FollowError> {
        let durable = self.durable.as_ref().map_or(END, |durable| durable.get());
        self.next_up_to(durable)
    }

    /// Returns the next record up to `seq`, which must be durable.
    ///
    /// # Errors
    /// Like [`next`](Self::next).
    pub fn next_up_to(&mut self, seq: u64) -> Result<Option<DecodedRecord<'_>>, FollowError> {
        let next = self.reader.next_seq();
        match self.reader.next_record(seq) {
            Ok(Some(stored)) => {
                let (events, callbacks) = (mem::take(&mut self.events), mem::take(&mut self.callbacks));
                decode(stored, events, callbacks).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(failure(&*self.log, next, error)),
        }
    }

    /// Waits until the next record is durable and returns it. Returns `None` if the engine has stopped and all its
    /// records were returned. Blocks the thread, so do not call it on a runtime's worker threads.
    ///
    /// # Errors
    /// Like [`next`](Self::next).
    pub fn wait_next(&mut self) -> Result<Option<DecodedRecord<'_>>, FollowError> {
        let seen = self.reader.next_seq() - 1;
        match &self.durable {
            None => self.next(),
            Some(durable) => match durable.wait_past(seen) {
                None => Ok(None),
                Some(reached) => self.next_up_to(reached),
            },
        }
    }

    /// Takes the lists of a returned record back. The next record reuses their memory, so a stream of many records
    /// allocates little.
    pub fn reuse(&mut self, events: Vec<Event>, callbacks: Vec<Callback>) {
        (self.events, self.callbacks) = (events, callbacks);
    }

    /// Reads one record, which must be durable. Ascending reads are cheap. The stream continues after it.
    ///
    /// # Errors
    /// Like [`next`](Self::next).
    pub fn read(&mut self, seq: u64) -> Result<DecodedRecord<'_>, FollowError> {
        match self.reader.read_record(seq) {
            Ok(stored) => decode(stored, Vec::new(), Vec::new()),
            Err(error) => Err(failure(&*self.log, seq, error)),
        }
    }

    /// The sequence number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.reader.next_seq()
    }

    /// The remains of a batch that was never acknowledged, if the log ended with such remains.
    pub fn torn(&self) -> Option<&TornTail> {
        self.reader.torn()
    }
}

fn decode(
    stored: Stored<'_>,
    events: Vec<Event>,
    callbacks: Vec<Callback>,
) -> Result<DecodedRecord<'_>, FollowError> {
    let Stored { seq, time_ns, bytes } = stored;
    let time = Timestamp::from_ns(time_ns);
    match Record::decode_into(bytes, events, callbacks) {
        Ok(record) => Ok(DecodedRecord { seq, time, record, bytes }),
        Err(source) => Err(FollowError::Record { seq, source }),
    }
}

/// Converts an error. A record that retention removed appears to the reader as a missing file or record.
fn failure(log: &dyn Log, seq: u64, error: JournalError) -> FollowError {
    let is_missing = error.is_not_found()
        || matches!(
            error,
            JournalError::NoSuchRecord { .. } | JournalError::Damaged { reason: Damage::Missing(_), .. }
        );
    match log.oldest_seq() {
        Ok(Some(oldest)) if is_missing && seq < oldest => FollowError::Gone { seq, oldest },
        _ => FollowError::Journal(error),
    }
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("next_seq", &self.next_seq()).finish_non_exhaustive()
    }
}

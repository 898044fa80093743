//! Undelivered callbacks, read back from the journal.

use std::sync::{Arc, Mutex, PoisonError};

use upesi_journal::{JournalError, Log};
use upesi_ledger::{Callback, CallbackKey, Event};
use upesi_types::BulkId;

use crate::follow::{DecodedRecord, Follow, FollowError, follow};
use crate::record::{DurableRecord, Payload};

/// An undelivered callback with all data needed to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCallback {
    pub key: CallbackKey,
    /// The record that owes it.
    pub record: Arc<DurableRecord>,
}

impl PendingCallback {
    /// The content of the callback.
    pub fn callback(&self) -> &Callback {
        &self.record.callbacks[usize::from(self.key.index)]
    }
}

/// Undelivered callbacks of one participant, in ascending order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPage {
    /// The callbacks whose records can be read.
    pub callbacks: Vec<PendingCallback>,
    /// The position after which to continue, if there are more. Its own callback may be damaged and left out.
    pub more_after: Option<(u64, u8)>,
}

/// Reads records by sequence number. Ascending reads are cheap.
pub(crate) struct RecordReader {
    log: Arc<dyn Log>,
    records: Mutex<Option<Follow>>,
}

impl RecordReader {
    pub(crate) fn new(log: Arc<dyn Log>) -> Self {
        Self { log, records: Mutex::default() }
    }

    /// The callbacks with these keys, which must be durable. Reads from disk.
    ///
    /// A damaged or missing record must not block the others. Its callbacks are left out and stay in the outbox.
    pub(crate) fn callbacks(&self, keys: &[CallbackKey]) -> Result<Vec<PendingCallback>, FollowError> {
        let mut pending = Vec::<PendingCallback>::with_capacity(keys.len());
        for key in keys {
            let record = match pending.last() {
                Some(last) if last.key.seq == key.seq => Some(Arc::clone(&last.record)),
                _ => match self.durable_record(key.seq) {
                    Err(error) if is_lost(&error) => {
                        tracing::error!(%error, seq = key.seq, "the request behind a callback is lost");
                        None
                    }
                    other => Some(other?),
                },
            };
            let record = record.filter(|record| usize::from(key.index) < record.callbacks.len());
            pending.extend(record.map(|record| PendingCallback { key: *key, record }));
        }
        Ok(pending)
    }

    fn durable_record(&self, seq: u64) -> Result<Arc<DurableRecord>, FollowError> {
        self.with_record(seq, |found| Arc::new(found.into_durable()))
    }

    /// The request of a record, which must be durable. Reads from disk.
    pub(crate) fn payload(&self, seq: u64) -> Result<Payload, FollowError> {
        self.with_record(seq, |found| Payload::of(&found.record))
    }

    /// The bulk transfer of a transfer and the position of the item, from the record that decided the item, which must
    /// be durable. Reads from disk.
    pub(crate) fn item_of(&self, seq: u64) -> Result<Option<(BulkId, u32)>, FollowError> {
        self.with_record(seq, |found| {
            found.record.events.iter().find_map(|event| match event {
                Event::BulkItemDecided { id, place, .. } => Some((*id, *place)),
                _ => None,
            })
        })
    }

    fn with_record<T>(&self, seq: u64, take: impl FnOnce(DecodedRecord<'_>) -> T) -> Result<T, FollowError> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let records = records.get_or_insert_with(|| follow(&self.log, seq));
        records.read(seq).map(take)
    }
}

/// Whether reading the record again later cannot succeed.
const fn is_lost(error: &FollowError) -> bool {
    match error {
        FollowError::Gone { .. } | FollowError::Record { .. } => true,
        FollowError::Journal(error) => {
            matches!(error, JournalError::Damaged { .. } | JournalError::NoSuchRecord { .. })
        }
    }
}

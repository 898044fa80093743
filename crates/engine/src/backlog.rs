//! Undelivered callbacks, read back from the journal.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use upesi_journal::{Disk, JournalError, Reader};
use upesi_ledger::{Callback, CallbackKey, Record};
use upesi_types::Timestamp;

use crate::record::{DurableRecord, Payload};

/// An undelivered callback with everything needed to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCallback {
    /// Which.
    pub key: CallbackKey,
    /// The record that owes it.
    pub record: Arc<DurableRecord>,
}

impl PendingCallback {
    /// What it says.
    pub fn callback(&self) -> &Callback {
        &self.record.callbacks[usize::from(self.key.index)]
    }
}

/// Reads records by sequence. Ascending reads are cheap.
pub(crate) struct RecordReader {
    disk: Arc<dyn Disk>,
    reader: Mutex<Option<Reader>>,
}

impl RecordReader {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, reader: Mutex::default() }
    }

    /// The callbacks of these keys, which must be durable. Reads from disk.
    ///
    /// A record that is damaged or gone must not hold up the others: its callbacks are left out, and stay in the outbox.
    pub(crate) fn callbacks(&self, keys: &[CallbackKey]) -> Result<Vec<PendingCallback>, JournalError> {
        let mut pending = Vec::<PendingCallback>::with_capacity(keys.len());
        for key in keys {
            let record = match pending.last() {
                Some(last) if last.key.seq == key.seq => Some(Arc::clone(&last.record)),
                _ => match self.durable_record(key.seq) {
                    Err(error @ (JournalError::Damaged { .. } | JournalError::NoSuchRecord { .. })) => {
                        tracing::error!(%error, seq = key.seq, "the request behind a callback is lost");
                        None
                    }
                    other => other?,
                },
            };
            let record = record.filter(|record| usize::from(key.index) < record.callbacks.len());
            pending.extend(record.map(|record| PendingCallback { key: *key, record }));
        }
        Ok(pending)
    }

    fn durable_record(&self, seq: u64) -> Result<Option<Arc<DurableRecord>>, JournalError> {
        self.with_record(seq, |time, record| {
            let payload = owned(&record);
            let time = record.decided_at(time);
            let callbacks = record.callbacks;
            Arc::new(DurableRecord { seq, time, callbacks, payload, prepared_before: None, asker: None })
        })
    }

    /// The request of a record, which must be durable. Reads from disk.
    pub(crate) fn payload(&self, seq: u64) -> Result<Option<Payload>, JournalError> {
        self.with_record(seq, |_, record| owned(&record))
    }

    fn with_record<T>(
        &self,
        seq: u64,
        take: impl FnOnce(Timestamp, Record<'_>) -> T,
    ) -> Result<Option<T>, JournalError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = reader.get_or_insert_with(|| Reader::new(Arc::clone(&self.disk), seq));
        let record = reader.read_record(seq)?;
        let time = record.time;
        Ok(Record::decode(record.bytes).ok().map(|record| take(time, record)))
    }
}

fn owned(record: &Record<'_>) -> Payload {
    Payload {
        headers: Bytes::copy_from_slice(record.payload.headers),
        body: Bytes::copy_from_slice(record.payload.body),
    }
}

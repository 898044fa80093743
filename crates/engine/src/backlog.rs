//! Undelivered callbacks, read back from the journal.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use upesi_journal::{Disk, JournalError, Reader};
use upesi_ledger::{Notice, NoticeKey, Record};
use upesi_types::Timestamp;

use crate::record::Payload;

/// A callback with everything needed to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNotice {
    /// Which.
    pub key: NoticeKey,
    /// When it was decided.
    pub time: Timestamp,
    /// What it says.
    pub notice: Notice,
    /// The request that caused it.
    pub payload: Payload,
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

    /// The notices of these keys, which must be durable. Reads from disk.
    pub(crate) fn notices(&self, keys: &[NoticeKey]) -> Result<Vec<PendingNotice>, JournalError> {
        let mut pending = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.with_record(key.seq, |time, record| {
                let payload = owned(&record);
                let notice = record.notices.into_iter().nth(usize::from(key.index))?;
                Some(PendingNotice { key: *key, time, notice, payload })
            })?;
            pending.extend(found.flatten());
        }
        Ok(pending)
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

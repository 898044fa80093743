//! The node's copy of accepted records: journal files, and the position in the log.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{ClusterId, EntryKind, LogEntry, LogFold, LogStart, StorePosition};
use upesi_journal::{
    AppendedBatch, Batch, Disk, EmbeddedLog, JournalError, LogReader, Maintenance, OpenedJournal, Options,
    Writer, open,
};

use crate::checkpoint::Checkpoint;
use crate::error::ReplicationError;
use crate::history::{History, first_in};
use crate::partition::{CopyPosition, Partition};
use crate::records::decode;

/// Minimum interval between writes of the position. A start reads later entries from the log again.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Minimum interval between writes of older positions.
const SAVE_HISTORY_EVERY: Duration = Duration::from_secs(10);

/// Entries that were read together are written together, up to this size.
const WRITE_BYTES: usize = 256 * 1024;

/// Storage of a node's records.
pub struct CopyOf {
    /// The disk with the journal files.
    pub disk: Arc<dyn Disk>,
    /// Options of the journal files.
    pub options: Options,
}

/// Storage of a node's copies. The disk of the journal also has the file `place`.
pub struct Copies {
    /// Copy of the engine's records.
    pub journal: CopyOf,
    pub store: CopyOf,
}

/// Journal files with copies of the log's records.
struct Stream {
    part: &'static str,
    disk: Arc<dyn Disk>,
    writer: Writer,
    /// Accepted records that are not in the files yet.
    batch: Batch,
    /// Compares entries with existing records of the copy.
    reader: Box<dyn LogReader>,
}

impl Stream {
    /// `copied`: the last record according to the position.
    fn open(
        part: &'static str,
        CopyOf { disk, options }: CopyOf,
        copied: u64,
    ) -> Result<Self, ReplicationError> {
        let OpenedJournal { recovered, mut writer } = open(Arc::clone(&disk), options)?;
        while writer.maintain()? == Maintenance::Advanced {}
        if recovered.last_seq < copied {
            return Err(ReplicationError::CopyTooShort { part, copy: recovered.last_seq, place: copied });
        }
        let reader = EmbeddedLog::for_reading(&disk).read_from(copied + 1);
        Ok(Self { part, batch: Batch::new(recovered.last_seq + 1), disk, writer, reader })
    }

    /// The last record in the files.
    fn last_seq(&self) -> u64 {
        self.writer.next_seq() - 1
    }

    /// Accepts the records of an entry for the next [`Stream::write`]. Existing records are compared, except records
    /// that the store has deleted because its tables contain them.
    fn accept(&mut self, log: &str, offset: u64, entry: &LogEntry<'_>) -> Result<(), ReplicationError> {
        let Some(records) = decode(entry.body, entry.first_seq, entry.count) else {
            return Err(ReplicationError::Records { log: log.to_owned(), offset });
        };
        let last_seq = self.batch.next_seq() - 1;
        let (known, new) = records.split_at(records.partition_point(|record| record.seq <= last_seq));
        let oldest =
            if known.is_empty() { None } else { EmbeddedLog::for_reading(&self.disk).oldest_seq()? };
        for record in known.iter().filter(|record| Some(record.seq) >= oldest) {
            let own = self.reader.read_record(record.seq)?;
            if (own.time_ns, own.bytes) != (record.time_ns, record.bytes) {
                let (part, log) = (self.part, log.to_owned());
                return Err(ReplicationError::CopyDiffers { part, log, seq: record.seq });
            }
        }
        for record in new {
            self.batch.push(record.time_ns, |buffer| buffer.extend_from_slice(record.bytes));
        }
        Ok(())
    }

    /// Writes the accepted records and syncs them before this returns.
    fn write(&mut self) -> Result<(), JournalError> {
        if !self.batch.is_empty() {
            self.writer.append(&mut self.batch)?;
            self.writer.maintain()?;
            self.batch.reset(self.writer.next_seq());
        }
        Ok(())
    }
}

impl Stream {
    /// Checks that all records after `seq` are in the files.
    fn expect_kept(&self, seq: u64) -> Result<(), ReplicationError> {
        let oldest = EmbeddedLog::for_reading(&self.disk).oldest_seq()?;
        match oldest {
            Some(oldest) if oldest > seq + 1 && seq < self.last_seq() => {
                Err(ReplicationError::NotKept { part: self.part, missing: seq + 1, oldest })
            }
            _ => Ok(()),
        }
    }

    /// The last record before the records in the files, and a time before all of them.
    fn begins_behind(&self) -> Result<(u64, i64), JournalError> {
        let log = EmbeddedLog::for_reading(&self.disk);
        let seq = log.oldest_seq()?.unwrap_or(self.last_seq() + 1) - 1;
        if seq == 0 {
            return Ok((0, i64::MIN));
        }
        let first = log.read_from(seq + 1).next_record(self.last_seq())?.map(|record| record.time_ns);
        Ok((seq, first.map_or(self.writer.last_time_ns(), |time_ns| time_ns - 1)))
    }

    /// Records after `seq`, up to this size.
    fn records_behind(&self, seq: u64, bytes_max: usize) -> Result<Batch, JournalError> {
        let mut batch = Batch::new(seq + 1);
        let mut reader = EmbeddedLog::for_reading(&self.disk).read_from(seq + 1);
        while batch.bytes() < bytes_max
            && let Some(record) = reader.next_record(self.last_seq())?
        {
            batch.push(record.time_ns, |buffer| buffer.extend_from_slice(record.bytes));
        }
        Ok(batch)
    }
}

/// The copies of a node, open for writing.
pub(crate) struct LocalCopy {
    journal: Stream,
    store: Stream,
    place: Checkpoint,
    saved: Checkpoint,
    saved_at: Duration,
    history: History,
    history_saved_at: Duration,
    /// Time of the last report about the entries that this node needs.
    told_at: Option<Duration>,
    report_every: Duration,
}

impl LocalCopy {
    /// Opens the copies of a data directory. `report_every`: interval of reports to the log.
    ///
    /// # Errors
    /// The copies are damaged, or belong to another cluster.
    pub fn open(
        copies: Copies,
        cluster: ClusterId,
        report_every: Duration,
    ) -> Result<Self, ReplicationError> {
        let (mut copy, is_new) = Self::of_any(copies, cluster, report_every)?;
        if is_new && copy.has_records() {
            return Err(ReplicationError::NotReplicated);
        }
        if is_new {
            // From now on the directory records its cluster.
            copy.save()?;
        }
        Ok(copy)
    }

    /// Opens the copies, or the files of a standalone hub, without writing. Returns whether the directory belongs to no
    /// cluster.
    pub fn of_any(
        copies: Copies,
        cluster: ClusterId,
        report_every: Duration,
    ) -> Result<(Self, bool), ReplicationError> {
        let place = Checkpoint::load(&*copies.journal.disk)?;
        let place = match place {
            Some(place) if place.cluster != cluster => {
                return Err(ReplicationError::OtherCluster { found: place.cluster.0, expected: cluster.0 });
            }
            place => place,
        };
        let copied = place.as_ref().map_or((0, 0), |place| (place.position.seq, place.position.store.seq));
        let journal = Stream::open("journal", copies.journal, copied.0)?;
        let store = Stream::open("store", copies.store, copied.1)?;
        let is_new = place.is_none();
        let place = place.unwrap_or(Checkpoint::start(cluster));
        let history = History::load(&*journal.disk, cluster);
        let copy = Self {
            journal,
            store,
            saved: place.clone(),
            place,
            saved_at: Duration::ZERO,
            history,
            history_saved_at: Duration::ZERO,
            told_at: None,
            report_every,
        };
        Ok((copy, is_new))
    }

    /// Whether there is any record of the journal or the store.
    pub fn has_records(&self) -> bool {
        self.ends() != CopyPosition::default()
    }

    pub const fn disk(&self) -> &Arc<dyn Disk> {
        &self.journal.disk
    }

    /// If the log does not have the last accepted entry, returns to an older one that it has. The records in between
    /// are then compared with it, one by one.
    ///
    /// # Errors
    /// The log has no entry that this node knows, or has deleted it.
    pub fn settle_on(
        &mut self,
        partition: &mut dyn Partition,
        offsets: Range<u64>,
    ) -> Result<(), ReplicationError> {
        let log = partition.name().to_owned();
        let needed = self.place.accepted_at.unwrap_or(0);
        if needed < offsets.start {
            return Err(ReplicationError::Deleted { log, begin: offsets.start, needed });
        }
        let Some(accepted) = self.place.accepted_at else { return Ok(()) };
        match first_in(partition, &self.history.candidates(&self.place), &offsets)? {
            Some(place) if place == self.place => Ok(()),
            Some(place) => {
                self.place = place;
                Ok(self.save()?)
            }
            None if offsets.end <= accepted => {
                Err(ReplicationError::TailLost { log, end: offsets.end, accepted })
            }
            None => Err(ReplicationError::OtherLog { log, accepted }),
        }
    }

    /// Checks that the files contain all records that a log with this end lacks.
    pub fn expect_kept(&self, log: CopyPosition) -> Result<(), ReplicationError> {
        self.journal.expect_kept(log.seq)?;
        self.store.expect_kept(log.store_seq)
    }

    /// The last records before the records in the files; `None` if the files are complete.
    pub fn begins_behind(&self) -> Result<Option<LogStart>, JournalError> {
        let ((seq, time_ns), store) = (self.journal.begins_behind()?, self.store.begins_behind()?);
        let store = StorePosition { seq: store.0, time_ns: store.1 };
        Ok((seq + store.seq > 0).then_some(LogStart { seq, time_ns, store }))
    }

    /// Records of the copy, for the log.
    pub fn records_behind(&self, kind: EntryKind, seq: u64, bytes_max: usize) -> Result<Batch, JournalError> {
        let of = if kind == EntryKind::Store { &self.store } else { &self.journal };
        of.records_behind(seq, bytes_max)
    }

    /// The position in the log when the directory was opened.
    pub const fn place(&self) -> &Checkpoint {
        &self.place
    }

    /// The writer of the journal files, which also appends the engine's own batches.
    pub const fn writer(&mut self) -> &mut Writer {
        &mut self.journal.writer
    }

    /// The writer of the store's journal files.
    pub const fn store_writer(&mut self) -> &mut Writer {
        &mut self.store.writer
    }

    /// Appends a batch of the engine, or of the store.
    pub fn append(&mut self, kind: EntryKind, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        if kind == EntryKind::Store {
            self.store.writer.append(batch)
        } else {
            self.journal.writer.append(batch)
        }
    }

    pub fn has_room_for(&self, body_bytes: u64) -> bool {
        self.journal.writer.has_room_for(body_bytes)
    }

    pub fn store_has_room_for(&self, body_bytes: u64) -> bool {
        self.store.writer.has_room_for(body_bytes)
    }

    pub fn last_seq(&self) -> u64 {
        self.journal.last_seq()
    }

    /// Whether an entry was ever accepted.
    pub const fn has_any(&self) -> bool {
        self.place.accepted_at.is_some()
    }

    /// The last records.
    pub fn ends(&self) -> CopyPosition {
        CopyPosition { seq: self.journal.last_seq(), store_seq: self.store.last_seq() }
    }

    /// The last record of the store, and its time.
    pub fn store_end(&self) -> (u64, i64) {
        (self.store.last_seq(), self.store.writer.last_time_ns())
    }

    /// Accepts an entry for the next [`LocalCopy::write`].
    pub fn accept(&mut self, log: &str, offset: u64, entry: &LogEntry<'_>) -> Result<(), ReplicationError> {
        match entry.kind {
            EntryKind::Batch => self.journal.accept(log, offset, entry),
            EntryKind::Store => self.store.accept(log, offset, entry),
            EntryKind::Begin => self.expect_reached(log, entry),
            EntryKind::Beat | EntryKind::Claim | EntryKind::HandOver => Ok(()),
        }
    }

    /// Checks that the copy contains the records before the beginning of the log.
    fn expect_reached(&self, log: &str, entry: &LogEntry<'_>) -> Result<(), ReplicationError> {
        match entry.beginning().map(|before| CopyPosition { seq: before.seq, store_seq: before.store.seq }) {
            Some(before) if !self.ends().has_all_of(&before) => {
                let (log, CopyPosition { seq, store_seq }) = (log.to_owned(), before);
                Err(ReplicationError::BeginsLater { log, seq, store_seq })
            }
            _ => Ok(()),
        }
    }

    /// Whether enough was accepted to be written.
    pub fn is_write_due(&self) -> bool {
        self.journal.batch.bytes().max(self.store.batch.bytes()) >= WRITE_BYTES
    }

    /// Writes the accepted records and syncs them before this returns.
    pub fn write(&mut self) -> Result<(), JournalError> {
        self.journal.write()?;
        self.store.write()
    }

    /// Advances the position in the log.
    pub fn advance(&mut self, fold: &LogFold, accepted_at: u64) {
        self.place.position = fold.position().clone();
        self.place.accepted_at = Some(accepted_at);
    }

    /// The first entry that this node needs if it starts again.
    pub fn needs(&self) -> u64 {
        self.saved.accepted_at.unwrap_or(0)
    }

    /// Whether a report to the log is due.
    pub fn is_due_to_tell(&mut self, now: Duration) -> bool {
        let is_due = self.told_at.is_none_or(|told| now.saturating_sub(told) >= self.report_every);
        if is_due {
            self.told_at = Some(now);
        }
        is_due
    }

    /// Writes the position if it is due. If the disk is full, the old position remains, and a start reads the log from
    /// there.
    pub fn save_if_due(&mut self, now: Duration) -> Result<(), JournalError> {
        if self.place == self.saved || now.saturating_sub(self.saved_at) < SAVE_EVERY {
            return Ok(());
        }
        self.saved_at = now;
        without_room(self.save())?;
        if now.saturating_sub(self.history_saved_at) >= SAVE_HISTORY_EVERY {
            self.history_saved_at = now;
            self.history.note(&self.place);
            let saved = self.history.save(&*self.journal.disk);
            without_room(saved.map_err(|source| JournalError::io("write", "places", source)))?;
        }
        Ok(())
    }

    /// Writes the position at the end.
    pub fn save_last(&mut self) -> Result<(), JournalError> {
        without_room(self.save())
    }

    /// Writes the position, after the records up to it.
    pub fn save(&mut self) -> Result<(), JournalError> {
        self.write()?;
        let saved = self.place.save(&*self.journal.disk);
        saved.map_err(|source| JournalError::io("write", "place", source))?;
        self.saved = self.place.clone();
        Ok(())
    }
}

/// Ignores the error of a full disk.
fn without_room(saved: Result<(), JournalError>) -> Result<(), JournalError> {
    match saved {
        Err(JournalError::DiskFull { .. }) => Ok(()),
        other => other,
    }
}

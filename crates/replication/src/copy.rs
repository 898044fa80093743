//! What this node accepted: journal files, and how far the log was read.

use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Beginning, ClusterId, Entry, Fold, Kind, StorePosition};
use upesi_journal::{
    Appended, Batch, Disk, EmbeddedLog, JournalError, LogReader, Maintenance, Opened, Options, Writer, open,
};

use crate::error::ReplicationError;
use crate::partition::{Copied, Partition};
use crate::place::{History, Place, first_in};
use crate::shared;

/// How often the place is written at most. What lies behind it is read from the log once more at a start.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The same of older places.
const SAVE_HISTORY_EVERY: Duration = Duration::from_secs(10);

/// Entries that were read together are written together, up to so much.
const WRITE_BYTES: usize = 256 * 1024;

/// Where a node keeps records, and how.
pub struct CopyOf {
    /// The disk with the journal files.
    pub disk: Arc<dyn Disk>,
    /// Their form.
    pub options: Options,
}

/// Where a node keeps its copies. The disk of the journal has the file `place`, too.
pub struct Copies {
    /// Of the engine's records.
    pub journal: CopyOf,
    /// Of the store's.
    pub store: CopyOf,
}

/// Journal files that records of the log are copied to.
struct Stream {
    part: &'static str,
    disk: Arc<dyn Disk>,
    writer: Writer,
    /// Records that were accepted and are not in the files yet.
    batch: Batch,
    /// Compares entries with records that the copy has already.
    reader: Box<dyn LogReader>,
}

impl Stream {
    /// `copied`: the last record by the place.
    fn open(
        part: &'static str,
        CopyOf { disk, options }: CopyOf,
        copied: u64,
    ) -> Result<Self, ReplicationError> {
        let Opened { recovered, mut writer } = open(Arc::clone(&disk), options)?;
        while writer.maintain()? == Maintenance::Advanced {}
        if recovered.last_seq < copied {
            return Err(ReplicationError::CopyTooShort { part, copy: recovered.last_seq, place: copied });
        }
        let reader = EmbeddedLog::for_reading(&disk).read_from(copied + 1);
        Ok(Self { part, batch: Batch::new(recovered.last_seq + 1), disk, writer, reader })
    }

    /// The last record of the files.
    fn last_seq(&self) -> u64 {
        self.writer.next_seq() - 1
    }

    /// Takes the records of an entry over, for the next [`Stream::write`]. Those that are here already are compared,
    /// but for those that were deleted since: the store deletes what its tables have.
    fn accept(&mut self, log: &str, offset: u64, entry: &Entry<'_>) -> Result<(), ReplicationError> {
        let Some(records) = shared::decode(entry.body, entry.first_seq, entry.count) else {
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

    /// Writes what was taken over: it is on disk when this returns.
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
    /// Whether all records behind `seq` are in the files.
    fn expect_kept(&self, seq: u64) -> Result<(), ReplicationError> {
        let oldest = EmbeddedLog::for_reading(&self.disk).oldest_seq()?;
        match oldest {
            Some(oldest) if oldest > seq + 1 && seq < self.last_seq() => {
                Err(ReplicationError::NotKept { part: self.part, missing: seq + 1, oldest })
            }
            _ => Ok(()),
        }
    }

    /// The last record before those in the files, and the time up to which: all of these are later.
    fn begins_behind(&self) -> Result<(u64, i64), JournalError> {
        let log = EmbeddedLog::for_reading(&self.disk);
        let seq = log.oldest_seq()?.unwrap_or(self.last_seq() + 1) - 1;
        if seq == 0 {
            return Ok((0, i64::MIN));
        }
        let first = log.read_from(seq + 1).next_record(self.last_seq())?.map(|record| record.time_ns);
        Ok((seq, first.map_or(self.writer.last_time_ns(), |time_ns| time_ns - 1)))
    }

    /// The records behind `seq`, until they are so many bytes or there are no more.
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
pub(crate) struct Copy {
    journal: Stream,
    store: Stream,
    place: Place,
    saved: Place,
    saved_at: Duration,
    history: History,
    history_saved_at: Duration,
    /// When the log was told what this node needs.
    told_at: Option<Duration>,
    tell_every: Duration,
}

impl Copy {
    /// Opens the copies of a data directory, of which the log is told so often.
    ///
    /// # Errors
    /// They are damaged, or are not of this cluster.
    pub fn open(copies: Copies, cluster: ClusterId, tell_every: Duration) -> Result<Self, ReplicationError> {
        let (mut copy, is_new) = Self::of_any(copies, cluster, tell_every)?;
        if is_new && copy.has_records() {
            return Err(ReplicationError::NotReplicated);
        }
        if is_new {
            // From its first moment on the directory says whose it is.
            copy.save()?;
        }
        Ok(copy)
    }

    /// The same, also of a hub alone; whether the directory was of no cluster. Nothing is written.
    pub fn of_any(
        copies: Copies,
        cluster: ClusterId,
        tell_every: Duration,
    ) -> Result<(Self, bool), ReplicationError> {
        let place = Place::load(&*copies.journal.disk)?;
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
        let place = place.unwrap_or(Place::start(cluster));
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
            tell_every,
        };
        Ok((copy, is_new))
    }

    /// Whether there is any record of the journal or the store.
    pub fn has_records(&self) -> bool {
        self.ends() != Copied::default()
    }

    pub const fn disk(&self) -> &Arc<dyn Disk> {
        &self.journal.disk
    }

    /// If the log has not what was accepted last, goes back to something older that it has: what lies between is
    /// compared with it, record by record.
    ///
    /// # Errors
    /// It has nothing that this node knows, or has deleted it.
    pub fn settle_on(
        &mut self,
        partition: &mut dyn Partition,
        (begin, end): (u64, u64),
    ) -> Result<(), ReplicationError> {
        let log = partition.name().to_owned();
        let needed = self.place.accepted_at.unwrap_or(0);
        if needed < begin {
            return Err(ReplicationError::Deleted { log, begin, needed });
        }
        let Some(accepted) = self.place.accepted_at else { return Ok(()) };
        match first_in(partition, &self.history.candidates(&self.place), (begin, end))? {
            Some(place) if place == self.place => Ok(()),
            Some(place) => {
                self.place = place;
                Ok(self.save()?)
            }
            None if end <= accepted => Err(ReplicationError::TailLost { log, end, accepted }),
            None => Err(ReplicationError::OtherLog { log, accepted }),
        }
    }

    /// Whether the files have all that a log lacks which goes so far.
    pub fn expect_kept(&self, log: Copied) -> Result<(), ReplicationError> {
        self.journal.expect_kept(log.seq)?;
        self.store.expect_kept(log.store_seq)
    }

    /// Behind which records the files begin; `None` if they have all.
    pub fn begins_behind(&self) -> Result<Option<Beginning>, JournalError> {
        let ((seq, time_ns), store) = (self.journal.begins_behind()?, self.store.begins_behind()?);
        let store = StorePosition { seq: store.0, time_ns: store.1 };
        Ok((seq + store.seq > 0).then_some(Beginning { seq, time_ns, store }))
    }

    /// Records of the copy, for the log.
    pub fn records_behind(&self, kind: Kind, seq: u64, bytes_max: usize) -> Result<Batch, JournalError> {
        let of = if kind == Kind::Store { &self.store } else { &self.journal };
        of.records_behind(seq, bytes_max)
    }

    /// How far the log was read when the directory was opened.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Appends where the engine's own batches go, too.
    pub const fn writer(&mut self) -> &mut Writer {
        &mut self.journal.writer
    }

    /// The same of the store's.
    pub const fn store_writer(&mut self) -> &mut Writer {
        &mut self.store.writer
    }

    /// Appends a batch of the engine, or of the store.
    pub fn append(&mut self, kind: Kind, batch: &mut Batch) -> Result<Appended, JournalError> {
        if kind == Kind::Store { self.store.writer.append(batch) } else { self.journal.writer.append(batch) }
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
    pub fn ends(&self) -> Copied {
        Copied { seq: self.journal.last_seq(), store_seq: self.store.last_seq() }
    }

    /// The last record of the store, and its time.
    pub fn store_end(&self) -> (u64, i64) {
        (self.store.last_seq(), self.store.writer.last_time_ns())
    }

    /// Takes an accepted entry over, for the next [`Copy::write`].
    pub fn accept(&mut self, log: &str, offset: u64, entry: &Entry<'_>) -> Result<(), ReplicationError> {
        match entry.kind {
            Kind::Batch => self.journal.accept(log, offset, entry),
            Kind::Store => self.store.accept(log, offset, entry),
            Kind::Begin => self.expect_reached(log, entry),
            Kind::Beat | Kind::Claim | Kind::HandOver => Ok(()),
        }
    }

    /// Whether the copy has the records behind which the log begins.
    fn expect_reached(&self, log: &str, entry: &Entry<'_>) -> Result<(), ReplicationError> {
        match entry.beginning().map(|before| Copied { seq: before.seq, store_seq: before.store.seq }) {
            Some(before) if !self.ends().has_all_of(&before) => {
                let (log, Copied { seq, store_seq }) = (log.to_owned(), before);
                Err(ReplicationError::BeginsLater { log, seq, store_seq })
            }
            _ => Ok(()),
        }
    }

    /// Whether so much was taken over that it is to be written.
    pub fn is_write_due(&self) -> bool {
        self.journal.batch.bytes().max(self.store.batch.bytes()) >= WRITE_BYTES
    }

    /// Writes what was taken over: it is on disk when this returns.
    pub fn write(&mut self) -> Result<(), JournalError> {
        self.journal.write()?;
        self.store.write()
    }

    /// The log was read up to here.
    pub fn advance(&mut self, fold: &Fold, accepted_at: u64) {
        self.place.position = fold.position().clone();
        self.place.accepted_at = Some(accepted_at);
    }

    /// What the log must have for this node if it starts anew.
    pub fn needs(&self) -> u64 {
        self.saved.accepted_at.unwrap_or(0)
    }

    /// Whether the log is to be told now.
    pub fn is_due_to_tell(&mut self, now: Duration) -> bool {
        let is_due = self.told_at.is_none_or(|told| now.saturating_sub(told) >= self.tell_every);
        if is_due {
            self.told_at = Some(now);
        }
        is_due
    }

    /// Writes the place now and then. Where the disk has no room it stays what it was, and a start reads the log from
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

    /// The same at the end.
    pub fn save_last(&mut self) -> Result<(), JournalError> {
        without_room(self.save())
    }

    /// Writes the place, behind what it says.
    pub fn save(&mut self) -> Result<(), JournalError> {
        self.write()?;
        let saved = self.place.save(&*self.journal.disk);
        saved.map_err(|source| JournalError::io("write", "place", source))?;
        self.saved = self.place.clone();
        Ok(())
    }
}

/// A lack of room is no failure.
fn without_room(saved: Result<(), JournalError>) -> Result<(), JournalError> {
    match saved {
        Err(JournalError::DiskFull { .. }) => Ok(()),
        other => other,
    }
}

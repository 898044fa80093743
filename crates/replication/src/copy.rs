//! What this node accepted: journal files, and how far the log was read.

use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{ClusterId, Entry, Fold, Kind};
use upesi_journal::{
    Batch, Disk, EmbeddedLog, JournalError, LogReader, Maintenance, Opened, Options, Writer, open,
};

use crate::error::ReplicationError;
use crate::place::Place;
use crate::records;

/// How often the place is written at most. What lies behind it is read from the log once more at a start.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The copy of a node, open for writing.
pub(crate) struct Copy {
    disk: Arc<dyn Disk>,
    writer: Writer,
    batch: Batch,
    place: Place,
    saved: Place,
    saved_at: Duration,
    /// Compares entries with records that the copy has already.
    reader: Box<dyn LogReader>,
}

impl Copy {
    /// Opens the copy of a data directory.
    ///
    /// # Errors
    /// The copy is damaged, or is not one of this cluster.
    pub fn open(disk: Arc<dyn Disk>, options: Options, cluster: ClusterId) -> Result<Self, ReplicationError> {
        let place = Place::load(&*disk)?;
        let Opened { recovered, mut writer } = open(Arc::clone(&disk), options)?;
        while writer.maintain()? == Maintenance::Advanced {}
        let place = match place {
            Some(place) if place.cluster == cluster => place,
            Some(Place { cluster: found, .. }) => {
                return Err(ReplicationError::OtherCluster { found: found.0, expected: cluster.0 });
            }
            None if recovered.last_seq > 0 => return Err(ReplicationError::NotReplicated),
            None => Place::start(cluster),
        };
        if recovered.last_seq < place.position.seq {
            return Err(ReplicationError::CopyTooShort {
                copy: recovered.last_seq,
                place: place.position.seq,
            });
        }
        let reader = EmbeddedLog::for_reading(&disk).read_from(place.position.seq + 1);
        let mut copy = Self {
            batch: Batch::new(recovered.last_seq + 1),
            disk,
            writer,
            saved: place.clone(),
            place,
            saved_at: Duration::ZERO,
            reader,
        };
        // From its first moment on the directory says whose it is.
        copy.save()?;
        Ok(copy)
    }

    pub const fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// How far the log was read when the directory was opened.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Appends where the engine's own batches go, too.
    pub const fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    pub fn has_room_for(&self, body_bytes: u64) -> bool {
        self.writer.has_room_for(body_bytes)
    }

    pub fn last_seq(&self) -> u64 {
        self.writer.next_seq() - 1
    }

    /// Takes an accepted entry over: its records are on disk when this returns. Records that the copy has already are
    /// compared.
    pub fn accept(&mut self, log: &str, offset: u64, entry: &Entry<'_>) -> Result<(), ReplicationError> {
        if entry.kind != Kind::Batch {
            return Ok(());
        }
        let Some(records) = records::decode(entry.body, entry.first_seq, entry.count) else {
            return Err(ReplicationError::Records { log: log.to_owned(), offset });
        };
        let last_seq = self.last_seq();
        let (known, new) = records.split_at(records.partition_point(|record| record.seq <= last_seq));
        for record in known {
            let own = self.reader.read_record(record.seq)?;
            if (own.time_ns, own.bytes) != (record.time_ns, record.bytes) {
                return Err(ReplicationError::CopyDiffers { log: log.to_owned(), seq: record.seq });
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        self.batch.reset(last_seq + 1);
        for record in new {
            self.batch.push(record.time_ns, |buffer| buffer.extend_from_slice(record.bytes));
        }
        self.writer.append(&mut self.batch)?;
        self.writer.maintain()?;
        Ok(())
    }

    /// The log was read up to here.
    pub fn advance(&mut self, fold: &Fold, accepted_at: u64) {
        self.place.position = fold.position().clone();
        self.place.accepted_at = Some(accepted_at);
    }

    /// Writes the place now and then.
    pub fn save_if_due(&mut self, now: Duration) -> Result<(), JournalError> {
        if self.place == self.saved || now.saturating_sub(self.saved_at) < SAVE_EVERY {
            return Ok(());
        }
        self.saved_at = now;
        self.save()
    }

    pub fn save(&mut self) -> Result<(), JournalError> {
        self.place.save(&*self.disk).map_err(|source| JournalError::Io {
            operation: "write",
            file: "place".to_owned(),
            source,
        })?;
        self.saved = self.place.clone();
        Ok(())
    }
}

//! The seam between an engine and its journal: an ordered log of records, which one node at a time may append to.
//!
//! [`EmbeddedLog`] is the journal of a data directory. A replicated log can stand behind the same traits: whether a
//! node may append is then decided by the log, at each [`Appender::append`] and [`Appender::confirm`].

use std::sync::Arc;

use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::JournalError;
use crate::reader::{Reader, Record};
use crate::recovery::{Recovered, open};
use crate::retention::delete_segments_below;
use crate::segment;
use crate::tail::TornTail;
use crate::writer::{Appended, Maintenance, Options, Writer};

/// An ordered log of records: appended to by one node, read by any number, trimmed from its beginning.
pub trait Log: Send + Sync {
    /// Recovers the end of the log and takes the right to append behind it. From then on every earlier
    /// [`Appender`] answers [`JournalError::Superseded`].
    ///
    /// Errors: the log ends before `known_durable_seq`, or is damaged, or another node keeps the right.
    fn claim(&self, known_durable_seq: u64) -> Result<Claimed, JournalError>;

    /// The oldest record that the log holds; `None` if it holds none.
    fn oldest_seq(&self) -> Result<Option<u64>, JournalError>;

    /// A reader whose first record is `seq`. Nothing is read yet.
    fn read_from(&self, seq: u64) -> Box<dyn LogReader>;

    /// The same, for a reader that goes through the log once: it leaves caches to others.
    fn read_once_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.read_from(seq)
    }

    /// Whether what was appended last waits for others for longer than its callers should: nothing more is to be taken
    /// until it is known what became of it. Never of a log that is this node's alone.
    fn is_held_up(&self) -> bool {
        false
    }

    /// Frees the room of records before `seq`, which may keep some of them. Returns how many pieces were freed.
    fn trim(&self, seq: u64) -> Result<usize, JournalError>;
}

/// The right to append, and the state of the log when it was taken.
pub struct Claimed {
    /// Appends behind the last record.
    pub appender: Box<dyn Appender>,
    /// The last record; 0 when there is none.
    pub last_seq: u64,
    /// The removed remains of a batch that was never acknowledged.
    pub torn: Option<TornTail>,
}

/// Appends to a log. It belongs on the thread that commits: submission and completion of a batch are one call there,
/// while another thread decides the next batch.
pub trait Appender: Send {
    /// Appends a batch: when this returns `Ok`, all of it is durable and stands in the log at its sequence numbers.
    /// The contract for errors is that of [`Writer::append`]; after [`JournalError::Superseded`] nothing of the
    /// batch counts.
    fn append(&mut self, batch: &mut Batch) -> Result<Appended, JournalError>;

    /// Confirms that this appender still has the right to append, after all that was decided before the call: an answer
    /// that records nothing may leave then. Free for a log that only one process can open.
    fn confirm(&mut self) -> Result<(), JournalError>;

    /// Makes sure that `body_bytes` of records can be appended without a lack of room.
    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError>;

    /// Whether `body_bytes` of records can be appended without a further [`reserve`](Self::reserve).
    fn has_room_for(&self, body_bytes: u64) -> bool;

    /// Prepares for later appends. To be called after every append, when its acknowledgements have left.
    fn maintain(&mut self) -> Result<Maintenance, JournalError>;

    /// Gives up the right to append in favour of another node of a cluster, or of any if none is named. Nothing can be
    /// appended then. A log that only one process can open has no other node.
    fn hand_over(&mut self, _successor: Option<u32>) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Reads a log in order, or one record at a time.
pub trait LogReader: Send {
    /// The next record; `None` if it is beyond `durable_seq`. [`END`](crate::END) reads a log that has no appender
    /// to its end.
    fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError>;

    /// One record, which must be durable. Reading in order continues behind it.
    fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError>;

    /// The sequence number of the record that [`next_record`](Self::next_record) returns next.
    fn next_seq(&self) -> u64;

    /// The remains of an unacknowledged batch that ended the log when it was read to its end.
    fn torn(&self) -> Option<&TornTail>;
}

/// The journal in the files of a data directory. Only the process that holds the directory's lock may claim it.
#[derive(Clone, Debug)]
pub struct EmbeddedLog {
    disk: Arc<dyn Disk>,
    options: Options,
}

impl EmbeddedLog {
    /// The journal on a disk.
    pub fn new(disk: Arc<dyn Disk>, options: Options) -> Self {
        Self { disk, options }
    }

    /// The journal on a disk, to be read only.
    pub fn for_reading(disk: &Arc<dyn Disk>) -> Arc<dyn Log> {
        Arc::new(Self::new(Arc::clone(disk), Options::default()))
    }
}

impl Log for EmbeddedLog {
    fn claim(&self, known_durable_seq: u64) -> Result<Claimed, JournalError> {
        let options = Options { known_durable_seq, ..self.options.clone() };
        let opened = open(Arc::clone(&self.disk), options)?;
        let Recovered { last_seq, torn, .. } = opened.recovered;
        Ok(Claimed { appender: Box::new(opened.writer), last_seq, torn })
    }

    fn oldest_seq(&self) -> Result<Option<u64>, JournalError> {
        Ok(segment::list(&*self.disk)?.first().copied())
    }

    fn read_from(&self, seq: u64) -> Box<dyn LogReader> {
        Box::new(Reader::new(Arc::clone(&self.disk), seq))
    }

    fn read_once_from(&self, seq: u64) -> Box<dyn LogReader> {
        Box::new(Reader::once(Arc::clone(&self.disk), seq))
    }

    fn trim(&self, seq: u64) -> Result<usize, JournalError> {
        delete_segments_below(&*self.disk, seq)
    }
}

impl Appender for Writer {
    fn append(&mut self, batch: &mut Batch) -> Result<Appended, JournalError> {
        Self::append(self, batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        if self.is_poisoned() { Err(JournalError::Poisoned) } else { Ok(()) }
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        Self::reserve(self, body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        Self::has_room_for(self, body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        Self::maintain(self)
    }
}

impl LogReader for Reader {
    fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError> {
        Self::next_record(self, durable_seq)
    }

    fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError> {
        Self::read_record(self, seq)
    }

    fn next_seq(&self) -> u64 {
        Self::next_seq(self)
    }

    fn torn(&self) -> Option<&TornTail> {
        Self::torn(self)
    }
}

//! The interface between the engine and its journal: an ordered log of records. One node at a time may append to it.
//!
//! [`EmbeddedLog`] is the journal of a data directory. A replicated log can implement the same traits. Such a log
//! decides at each [`Appender::append`] and [`Appender::confirm`] whether the node may append.

use std::sync::Arc;

use crate::batch::Batch;
use crate::disk::Disk;
use crate::error::JournalError;
use crate::reader::{Reader, Record};
use crate::recovery::{RecoveredJournal, open};
use crate::retention::delete_segments_below;
use crate::segment;
use crate::tail::TornTail;
use crate::writer::{AppendedBatch, Maintenance, Options, Writer};

/// An ordered log of records. One node appends to it, any number of readers read it, and its oldest records can be
/// trimmed.
pub trait Log: Send + Sync {
    /// Recovers the end of the log and acquires the right to append. From then on, every earlier [`Appender`] returns
    /// [`JournalError::Superseded`].
    ///
    /// Returns an error if the log ends before `known_durable_seq`, is damaged, or another node holds the right to
    /// append.
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError>;

    /// The oldest record in the log; `None` if the log is empty.
    fn oldest_seq(&self) -> Result<Option<u64>, JournalError>;

    /// A reader whose first record is `seq`. Nothing is read yet.
    fn read_from(&self, seq: u64) -> Box<dyn LogReader>;

    /// Like [`Self::read_from`], for a reader that reads the log once and should not displace cached data.
    fn read_once_from(&self, seq: u64) -> Box<dyn LogReader> {
        self.read_from(seq)
    }

    /// Whether the last append has waited for other nodes longer than its clients should wait. If so, no new work may
    /// be accepted until the outcome of that append is known. Always false for a log that only this node uses.
    fn is_held_up(&self) -> bool {
        false
    }

    /// Frees the space of records before `seq`; some of them may remain. Returns the number of pieces that were freed.
    fn trim(&self, seq: u64) -> Result<usize, JournalError>;
}

/// The right to append, and the state of the log when it was acquired.
pub struct ClaimedLog {
    /// Appends after the last record.
    pub appender: Box<dyn Appender>,
    /// The sequence number of the last record; 0 if there is none.
    pub last_seq: u64,
    /// The remains of a batch that was never acknowledged. They were removed.
    pub torn: Option<TornTail>,
}

/// Appends to a log. It belongs on the thread that commits: one call submits a batch and waits for its completion,
/// while another thread decides the next batch.
pub trait Appender: Send {
    /// Appends a batch. When this returns `Ok`, the whole batch is durable and in the log at its sequence numbers. The
    /// errors are as for [`Writer::append`]. After [`JournalError::Superseded`] nothing of the batch is valid.
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError>;

    /// Confirms that this appender still has the right to append, after everything that was decided before the call. A
    /// response that records nothing may then be sent. Costs nothing for a log that only one process can open.
    fn confirm(&mut self) -> Result<(), JournalError>;

    /// Reserves space, so that `body_bytes` of records can be appended without filling the disk.
    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError>;

    /// Whether `body_bytes` of records can be appended without a further [`reserve`](Self::reserve).
    fn has_room_for(&self, body_bytes: u64) -> bool;

    /// Prepares for later appends. Call it after every append, once its acknowledgements have been sent.
    fn maintain(&mut self) -> Result<Maintenance, JournalError>;

    /// Hands over the right to append to another node of a cluster, or to any node if none is named. Afterwards this
    /// node cannot append. Has no effect on a log that only one process can open.
    fn hand_over(&mut self, _successor: Option<u32>) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Reads a log in order or one record at a time.
pub trait LogReader: Send {
    /// The next record; `None` if it is beyond `durable_seq`. Pass [`END`](crate::END) to read a log without an
    /// appender to its end.
    fn next_record(&mut self, durable_seq: u64) -> Result<Option<Record<'_>>, JournalError>;

    /// Reads one record, which must be durable. Reading in order continues after it.
    fn read_record(&mut self, seq: u64) -> Result<Record<'_>, JournalError>;

    /// The sequence number of the record that [`next_record`](Self::next_record) returns next.
    fn next_seq(&self) -> u64;

    /// The remains of an unacknowledged batch at the end of the log. Known after the log was read to its end.
    fn torn(&self) -> Option<&TornTail>;
}

/// The journal in the files of a data directory. Only the process that holds the directory's lock may claim it.
#[derive(Clone, Debug)]
pub struct EmbeddedLog {
    disk: Arc<dyn Disk>,
    options: Options,
}

impl EmbeddedLog {
    /// Creates the log on a disk.
    pub fn new(disk: Arc<dyn Disk>, options: Options) -> Self {
        Self { disk, options }
    }

    /// Creates the log on a disk for reading only.
    pub fn for_reading(disk: &Arc<dyn Disk>) -> Arc<dyn Log> {
        Arc::new(Self::new(Arc::clone(disk), Options::default()))
    }
}

impl Log for EmbeddedLog {
    fn claim(&self, known_durable_seq: u64) -> Result<ClaimedLog, JournalError> {
        let options = Options { known_durable_seq, ..self.options.clone() };
        let opened = open(Arc::clone(&self.disk), options)?;
        let RecoveredJournal { last_seq, torn, .. } = opened.recovered;
        Ok(ClaimedLog { appender: Box::new(opened.writer), last_seq, torn })
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
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
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

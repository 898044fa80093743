//! The interface to the log's client.

use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Append, Position};

use crate::error::ReplicationError;

/// A report of the log's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The attempt with this tag is at `offset` in the log, on every in-sync replica.
    Acknowledged {
        /// The tag in [`Append::tag`].
        tag: u64,
        offset: u64,
    },
    /// The outcome of an attempt is unknown: the entry may be in the log, now or later, or not.
    Unknown {
        /// The tag in [`Append::tag`].
        tag: u64,
    },
    /// The next entry of the log, in order.
    Entry {
        offset: u64,
        /// The complete entry.
        bytes: Arc<[u8]>,
        /// When the log received it, by the clock of the log, in nanoseconds since 1970; `None` if it is not
        /// known.
        appended_ns: Option<i64>,
    },
}

/// The end of a node's copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyPosition {
    /// The last record of the engine; 0 before the first.
    pub seq: u64,
    /// The last record of the store.
    pub store_seq: u64,
}

impl CopyPosition {
    /// The end of a copy of everything up to a position.
    pub const fn up_to(position: &Position) -> Self {
        Self { seq: position.seq, store_seq: position.store.seq }
    }

    /// The furthest ends of both, for records and for the store.
    #[must_use]
    pub fn furthest(self, other: Self) -> Self {
        Self { seq: self.seq.max(other.seq), store_seq: self.store_seq.max(other.store_seq) }
    }

    /// Whether it includes everything of another copy.
    pub const fn has_all_of(&self, other: &Self) -> bool {
        self.seq >= other.seq && self.store_seq >= other.store_seq
    }
}

/// One partition of a log. Used by one thread at a time.
pub trait Partition: Send {
    /// Begins to append. An [`Event`] with the tag follows in any case.
    fn append(&mut self, append: Append);

    /// Reads entries from `offset` on, instead of the previous position.
    fn read_from(&mut self, offset: u64);

    /// Stops reading entries.
    fn stop_reading(&mut self);

    /// The next event; `None` if there is none within `patience`.
    ///
    /// # Errors
    /// A permanent failure, described for operators: for example, the log has no entry at the next offset.
    fn next(&mut self, patience: Duration) -> Result<Option<Event>, String>;

    /// The offset after the last readable entry; `None` if the log cannot be reached.
    fn end(&mut self) -> Option<u64>;

    /// The offset of the first entry that the log still has; `None` if the log cannot be reached.
    fn begin(&mut self) -> Option<u64>;

    /// Reports that this node no longer needs entries before `offset`, even if it starts again, and the end of its
    /// copy. The log may lose the report, so it is repeated.
    fn needs(&mut self, offset: u64, has: CopyPosition);

    /// The furthest copies of records, and of the store, that other nodes reported; `None` if the log cannot be
    /// reached.
    fn furthest_of_others(&mut self) -> Option<CopyPosition>;

    /// The name of the log, for messages.
    fn name(&self) -> &str;
}

/// The next event of a log.
pub(crate) fn next(
    partition: &mut dyn Partition,
    patience: Duration,
) -> Result<Option<Event>, ReplicationError> {
    partition
        .next(patience)
        .map_err(|reason| ReplicationError::Client { log: partition.name().to_owned(), reason })
}

//! The log as its client sees it.

use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Append, Position};

/// What the log's client reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The attempt with this tag stands at `offset`, on every replica that is in sync.
    Acknowledged {
        /// That of [`Append::tag`].
        tag: u64,
        /// Where it stands.
        offset: u64,
    },
    /// The client gave up on the attempt: it may stand in the log, now or later, or not.
    Unknown {
        /// That of [`Append::tag`].
        tag: u64,
    },
    /// The next entry of the log, in order.
    Entry {
        /// Where it stands.
        offset: u64,
        /// All of it.
        bytes: Arc<[u8]>,
        /// When the log had it, by the clock of the log, in nanoseconds since 1970; `None` if it does not say.
        appended_ns: Option<i64>,
    },
}

/// How far the copy of a node goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The last record of the engine; 0 before the first.
    pub seq: u64,
    /// The last record of the store.
    pub store_seq: u64,
}

impl Copied {
    /// All that the log has up to a position.
    pub const fn up_to(position: &Position) -> Self {
        Self { seq: position.seq, store_seq: position.store.seq }
    }

    /// The further one, of records and of the store.
    #[must_use]
    pub fn furthest(self, other: Self) -> Self {
        Self { seq: self.seq.max(other.seq), store_seq: self.store_seq.max(other.store_seq) }
    }

    /// Whether it has all that another has.
    pub const fn has_all_of(&self, other: &Self) -> bool {
        self.seq >= other.seq && self.store_seq >= other.store_seq
    }
}

/// One partition of a log. Used by one thread at a time.
pub trait Partition: Send {
    /// Begins to append. An [`Event`] with the tag follows in any case.
    fn append(&mut self, append: Append);

    /// Reads entries from `offset` on, in place of what was read before.
    fn read_from(&mut self, offset: u64);

    /// Reads no further entries.
    fn stop_reading(&mut self);

    /// The next event; `None` if there is none within `patience`.
    ///
    /// # Errors
    /// What was asked for can never come, in words for an operator: for instance the log has no entry at the offset
    /// that is read.
    fn next(&mut self, patience: Duration) -> Result<Option<Event>, String>;

    /// The offset behind the last entry that readers see; `None` if the log cannot be reached.
    fn end(&mut self) -> Option<u64>;

    /// The offset of the first entry that the log still has; `None` if the log cannot be reached.
    fn begin(&mut self) -> Option<u64>;

    /// Entries before `offset` are needed by this node no more, even if it starts anew, and its copy goes so far. The
    /// log may forget that it was told: it is told again and again.
    fn needs(&mut self, offset: u64, has: Copied);

    /// The furthest copies of records, and of the store, that other nodes told of; `None` if the log cannot be reached.
    fn furthest_of_others(&mut self) -> Option<Copied>;

    /// The name of the log, for messages.
    fn name(&self) -> &str;
}

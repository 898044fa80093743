//! The leader: appends entries and determines whether they were accepted.

use alloc::sync::Arc;
use core::time::Duration;

use crate::Append;
use crate::entry::{Chain, EntryKind, NodeId, Records, Times};
use crate::fold::{EntryVerdict, LogFold};

/// A leader that has appended nothing for this long sends a heartbeat.
pub const BEAT_AFTER: Duration = Duration::from_millis(300);

/// The next step of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Do nothing until the log responds.
    Wait,
    /// Append the same bytes again, because their outcome is unknown. A second copy is void.
    Append(Append),
    /// Pass the entries from offset `from` to `to` (inclusive) to [`Leader::read`], because other entries lie before
    /// the acknowledged one.
    Read {
        /// The first offset.
        from: u64,
        /// The last one.
        to: u64,
    },
    /// The entry was accepted, by every node that reads the log. Everything decided before it may be sent to clients.
    Accepted,
    /// Another node's claim was accepted. The entry in flight is void, and everything decided on top of it must be
    /// discarded. The affected clients must send their requests to the other node.
    Superseded,
    /// The hand-over was accepted. This node continues as a standby.
    HandedOver,
    /// The log lost or changed entries, or a newer hub wrote one. This node must never append to this log again.
    Stop(Stop),
}

/// The reason why a leader stops permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The log acknowledged an offset below entries that were already accepted.
    #[error(
        "the log acknowledged offset {offset}, but entries up to {accepted} were accepted: its end was lost"
    )]
    TailLost {
        /// The acknowledged offset.
        offset: u64,
        /// The last offset that was read.
        accepted: u64,
    },
    /// The entry is not at the acknowledged offset, or is void there.
    #[error("the log acknowledged an entry at offset {0}, but has another one there")]
    NotThere(u64),
    /// A newer hub wrote an entry.
    #[error("a newer hub wrote the entry at offset {0}: update this node")]
    Newer(u64),
}

#[derive(Debug)]
struct InFlight {
    kind: EntryKind,
    bytes: Arc<[u8]>,
    chain: Chain,
    /// The tag of the entry's first attempt. Its attempts have the tags from here to the leader's next tag, exclusive.
    first_tag: u64,
    /// An acknowledged offset that does not directly follow the entries that were read. The entry is at this offset or
    /// before it.
    acknowledged: Option<u64>,
}

/// Appends one entry at a time and reports its outcome.
///
/// An acknowledgement proves acceptance only if its offset directly follows everything that was read. Otherwise the
/// leader reads the log up to that offset, and the fold decides.
#[derive(Debug)]
pub struct Leader {
    fold: LogFold,
    me: NodeId,
    next_tag: u64,
    in_flight: Option<InFlight>,
    /// Time when the last entry was accepted, by this node's monotonic clock.
    accepted_at: Duration,
}

impl Leader {
    /// Creates the leader after `fold` accepted this node's claim.
    pub(crate) const fn new(fold: LogFold, me: NodeId, next_tag: u64, now: Duration) -> Self {
        Self { fold, me, next_tag, in_flight: None, accepted_at: now }
    }

    /// The fold of all accepted entries.
    pub const fn fold(&self) -> &LogFold {
        &self.fold
    }

    pub(crate) const fn me(&self) -> NodeId {
        self.me
    }

    /// Ends the leadership. Returns the fold and the next unused tag.
    pub(crate) fn into_parts(self) -> (LogFold, u64) {
        (self.fold, self.next_tag)
    }

    /// Whether an entry is in flight.
    pub const fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a heartbeat ([`Leader::beat`]) is due.
    pub fn is_beat_due(&self, now: Duration) -> bool {
        !self.is_busy() && now.saturating_sub(self.accepted_at) >= BEAT_AFTER
    }

    /// Appends records.
    ///
    /// # Panics
    /// Panics if an entry is in flight, if the records are empty, or if they are not later than earlier records.
    pub fn append(&mut self, records: Records<'_>) -> Append {
        assert!(records.times.first_ns > self.fold.position().time_ns, "times of records increase");
        self.begin_records(EntryKind::Batch, records)
    }

    /// Appends changes of the store.
    ///
    /// # Panics
    /// Panics if an entry is in flight, if the records are empty, or if they are not later than earlier records.
    pub fn append_store(&mut self, records: Records<'_>) -> Append {
        assert!(records.times.first_ns > self.fold.position().store.time_ns, "times of records increase");
        self.begin_records(EntryKind::Store, records)
    }

    fn begin_records(&mut self, kind: EntryKind, records: Records<'_>) -> Append {
        assert!(records.count > 0, "an entry with records is not empty");
        self.begin(kind, records.count, records.times, records.bytes)
    }

    /// Appends a heartbeat, an entry without records. Its acceptance proves that no other node led until then, so
    /// everything decided before it may be sent to clients.
    ///
    /// # Panics
    /// Panics if an entry is in flight.
    pub fn beat(&mut self, clock_ns: i64) -> Append {
        self.begin(EntryKind::Beat, 0, Times::at(clock_ns), &[])
    }

    /// Hands over the leadership to a node, or to [`NodeId::ANY`], which excludes this node. The successor need not
    /// wait for the silence timeout.
    ///
    /// # Panics
    /// Panics if an entry is in flight.
    pub fn hand_over(&mut self, successor: NodeId, clock_ns: i64) -> Append {
        self.begin(EntryKind::HandOver, 0, Times::at(clock_ns), &successor.0.to_le_bytes())
    }

    fn begin(&mut self, kind: EntryKind, count: u32, times: Times, body: &[u8]) -> Append {
        assert!(self.in_flight.is_none(), "one entry at a time");
        let drafted = self.fold.draft(kind, self.me, count, times, body);
        let first_tag = self.next_tag;
        let bytes = drafted.bytes;
        self.in_flight = Some(InFlight { kind, bytes, chain: drafted.chain, first_tag, acknowledged: None });
        self.attempt()
    }

    fn attempt(&mut self) -> Append {
        let tag = self.next_tag;
        self.next_tag += 1;
        let bytes = self.in_flight.as_ref().map(|entry| Arc::clone(&entry.bytes)).unwrap_or_default();
        Append { tag, bytes }
    }

    /// Handles an acknowledgement: the log has stored the attempt at that offset.
    pub fn acknowledged(&mut self, tag: u64, offset: u64, now: Duration) -> Next {
        let next_offset = self.fold.position().next_offset;
        let Some(entry) = self.in_flight.as_mut().filter(|entry| entry.first_tag <= tag) else {
            // The acknowledgement belongs to an earlier entry that was appended more than once.
            return Next::Wait;
        };
        if offset < next_offset {
            return Next::Stop(Stop::TailLost { offset, accepted: next_offset - 1 });
        }
        if offset > next_offset {
            let to = *entry.acknowledged.get_or_insert(offset);
            return Next::Read { from: next_offset, to };
        }
        let bytes = Arc::clone(&entry.bytes);
        self.read(offset, &bytes, now)
    }

    /// Handles an attempt with unknown outcome: no response, or an error.
    pub fn unknown(&mut self, tag: u64) -> Next {
        let is_current = self.in_flight.as_ref().is_some_and(|entry| entry.first_tag <= tag);
        // An attempt that is already acknowledged will be found by reading.
        let is_open = self.in_flight.as_ref().is_some_and(|entry| entry.acknowledged.is_none());
        if is_current && is_open && tag + 1 == self.next_tag {
            Next::Append(self.attempt())
        } else {
            Next::Wait
        }
    }

    /// Reads the bytes at `offset`, the next unread offset of the log.
    pub fn read(&mut self, offset: u64, bytes: &[u8], now: Duration) -> Next {
        let Some((chain, kind, acknowledged)) =
            self.in_flight.as_ref().map(|entry| (entry.chain, entry.kind, entry.acknowledged))
        else {
            return Next::Wait;
        };
        match self.fold.read(offset, bytes) {
            EntryVerdict::Accepted(entry) if entry.chain == chain => {
                self.in_flight = None;
                self.accepted_at = now;
                if kind == EntryKind::HandOver { Next::HandedOver } else { Next::Accepted }
            }
            // This node has one entry in flight. Any other entry that continues the log is a claim or follows one.
            EntryVerdict::Accepted(_) => Next::Superseded,
            EntryVerdict::Newer(_) => Next::Stop(Stop::Newer(offset)),
            EntryVerdict::Void(_) => match acknowledged {
                Some(to) if offset >= to => Next::Stop(Stop::NotThere(to)),
                Some(to) => Next::Read { from: offset + 1, to },
                None => Next::Wait,
            },
        }
    }
}

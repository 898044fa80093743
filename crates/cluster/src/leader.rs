//! The node that appends.

use alloc::sync::Arc;
use core::time::Duration;

use crate::Append;
use crate::entry::{Chain, Kind, NodeId, Records, Times};
use crate::fold::{Fold, Verdict};

/// How long a leader that appends nothing waits before it says that it lives.
pub const BEAT_AFTER: Duration = Duration::from_millis(300);

/// What a leader has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until the log answers.
    Wait,
    /// The same bytes once more, since their outcome is unknown. A second copy is void.
    Append(Append),
    /// Read the log from `from` to `to`, both included, into [`Leader::read`]: something lies between.
    Read {
        /// The first offset.
        from: u64,
        /// The last one.
        to: u64,
    },
    /// The entry was accepted, on every node that reads the log. Whatever was decided before it may be told.
    Accepted,
    /// Another node's claim was accepted. What is in flight is void and what was decided on top of it is to be
    /// forgotten; its callers are told to ask the other node.
    Superseded,
    /// The hand-over was accepted. This node reads on as a standby.
    HandedOver,
    /// The log is not what it was. This node must never append to it again.
    Stop(Stop),
}

/// Why a leader stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// An acknowledgement below what was accepted already.
    #[error(
        "the log acknowledged offset {offset}, but entries up to {accepted} were accepted: its end was lost"
    )]
    TailLost {
        /// What was acknowledged.
        offset: u64,
        /// The last offset that was read.
        accepted: u64,
    },
    /// The entry is not where the log said, or was refused there.
    #[error("the log acknowledged an entry at offset {0}, and has another one there")]
    NotThere(u64),
    /// A newer hub wrote an entry.
    #[error("a newer hub wrote the entry at offset {0}: update this node")]
    Newer(u64),
}

#[derive(Debug)]
struct InFlight {
    kind: Kind,
    bytes: Arc<[u8]>,
    chain: Chain,
    /// The tags of its attempts: this one up to, not including, the leader's next.
    first_tag: u64,
    /// An acknowledgement that does not follow what was read: the entry stands there at the latest.
    acknowledged: Option<u64>,
}

/// Appends one entry at a time, and says what became of it.
///
/// An acknowledgement proves acceptance only if nothing lies between: the offset is the one behind everything that was
/// read. Otherwise the log is read up to it, and the fold decides.
#[derive(Debug)]
pub struct Leader {
    fold: Fold,
    me: NodeId,
    next_tag: u64,
    in_flight: Option<InFlight>,
    /// When the last entry was accepted, by this node's clock without jumps.
    accepted_at: Duration,
}

impl Leader {
    /// The node whose claim `fold` accepted last.
    pub(crate) const fn new(fold: Fold, me: NodeId, next_tag: u64, now: Duration) -> Self {
        Self { fold, me, next_tag, in_flight: None, accepted_at: now }
    }

    /// What was accepted so far.
    pub const fn fold(&self) -> &Fold {
        &self.fold
    }

    /// The node.
    pub(crate) const fn me(&self) -> NodeId {
        self.me
    }

    /// Ends the leadership: the fold, and the next unused tag.
    pub(crate) fn into_parts(self) -> (Fold, u64) {
        (self.fold, self.next_tag)
    }

    /// Whether an entry is on its way.
    pub const fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether it is time for [`Leader::beat`].
    pub fn is_beat_due(&self, now: Duration) -> bool {
        !self.is_busy() && now.saturating_sub(self.accepted_at) >= BEAT_AFTER
    }

    /// Appends records.
    ///
    /// # Panics
    /// If an entry is on its way, or there are no records, or they are not later than those before.
    pub fn append(&mut self, records: Records<'_>) -> Append {
        assert!(records.times.first_ns > self.fold.position().time_ns, "times of records increase");
        self.begin_records(Kind::Batch, records)
    }

    /// Appends changes of the store.
    ///
    /// # Panics
    /// If an entry is on its way, or there are no records, or they are not later than those before.
    pub fn append_store(&mut self, records: Records<'_>) -> Append {
        assert!(records.times.first_ns > self.fold.position().store.time_ns, "times of records increase");
        self.begin_records(Kind::Store, records)
    }

    fn begin_records(&mut self, kind: Kind, records: Records<'_>) -> Append {
        assert!(records.count > 0, "an entry of records has some");
        self.begin(kind, records.count, records.times, records.bytes)
    }

    /// Appends an entry without records. Once it is accepted, whatever was decided before may be told: nobody else led
    /// until then.
    ///
    /// # Panics
    /// If an entry is on its way.
    pub fn beat(&mut self, clock_ns: i64) -> Append {
        self.begin(Kind::Beat, 0, Times::at(clock_ns), &[])
    }

    /// Ends the leadership in favour of a node, or of [`NodeId::ANY`] but this one: it need not wait for silence.
    ///
    /// # Panics
    /// If an entry is on its way.
    pub fn hand_over(&mut self, successor: NodeId, clock_ns: i64) -> Append {
        self.begin(Kind::HandOver, 0, Times::at(clock_ns), &successor.0.to_le_bytes())
    }

    fn begin(&mut self, kind: Kind, count: u32, times: Times, body: &[u8]) -> Append {
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

    /// The log has the attempt at that offset.
    pub fn acknowledged(&mut self, tag: u64, offset: u64, now: Duration) -> Next {
        let next_offset = self.fold.position().next_offset;
        let Some(entry) = self.in_flight.as_mut().filter(|entry| entry.first_tag <= tag) else {
            // Of an earlier entry, which was appended more than once.
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

    /// Nothing is known of the attempt: no answer came, or an error.
    pub fn unknown(&mut self, tag: u64) -> Next {
        let is_current = self.in_flight.as_ref().is_some_and(|entry| entry.first_tag <= tag);
        // What is acknowledged already will be found by reading.
        let is_open = self.in_flight.as_ref().is_some_and(|entry| entry.acknowledged.is_none());
        if is_current && is_open && tag + 1 == self.next_tag {
            Next::Append(self.attempt())
        } else {
            Next::Wait
        }
    }

    /// The log has these bytes at `offset`, which is the next that was not read.
    pub fn read(&mut self, offset: u64, bytes: &[u8], now: Duration) -> Next {
        let Some((chain, kind, acknowledged)) =
            self.in_flight.as_ref().map(|entry| (entry.chain, entry.kind, entry.acknowledged))
        else {
            return Next::Wait;
        };
        match self.fold.read(offset, bytes) {
            Verdict::Accepted(entry) if entry.chain == chain => {
                self.in_flight = None;
                self.accepted_at = now;
                if kind == Kind::HandOver { Next::HandedOver } else { Next::Accepted }
            }
            // This node has one entry in flight: any other that continues the log is a claim, or behind one.
            Verdict::Accepted(_) => Next::Superseded,
            Verdict::Newer(_) => Next::Stop(Stop::Newer(offset)),
            Verdict::Void(_) => match acknowledged {
                Some(to) if offset >= to => Next::Stop(Stop::NotThere(to)),
                Some(to) => Next::Read { from: offset + 1, to },
                None => Next::Wait,
            },
        }
    }
}

//! The acceptance rule: every node applies it to every entry.

use crate::entry::{
    Chain, Claim, ClusterId, Draft, EntryError, EntryKind, Incarnation, LEVEL, LogEntry, LogStart, NodeId,
    Times,
};

/// The position after the last accepted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of accepted claims.
    pub epoch: u64,
    /// The node of the last accepted claim and the run of its process. `None` before the first claim and after a
    /// hand-over.
    pub leader: Option<(NodeId, Incarnation)>,
    /// The sequence number of the last record.
    pub seq: u64,
    /// The chain value of the last accepted entry.
    pub chain: Chain,
    /// The time of the last record, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The position of the store's records.
    pub store: StorePosition,
    /// The offset where the log is read next. It is valid only in this node's log: a mirror has other offsets.
    pub next_offset: u64,
}

/// The position after the last record of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePosition {
    /// The sequence number of the last record.
    pub seq: u64,
    /// The time of the last record, in nanoseconds since 1970.
    pub time_ns: i64,
}

impl Position {
    /// The position before the first entry.
    pub const START: Self = Self {
        epoch: 0,
        leader: None,
        seq: 0,
        chain: Chain(0),
        time_ns: i64::MIN,
        store: StorePosition { seq: 0, time_ns: i64::MIN },
        next_offset: 0,
    };

    /// The sequence number and time of the last record that entries of this kind continue.
    const fn last_of(&self, kind: EntryKind) -> (u64, i64) {
        match kind {
            EntryKind::Store => (self.store.seq, self.store.time_ns),
            EntryKind::Batch
            | EntryKind::Beat
            | EntryKind::Claim
            | EntryKind::HandOver
            | EntryKind::Begin => (self.seq, self.time_ns),
        }
    }

    /// Whether no entry has been accepted yet.
    pub fn is_start(&self) -> bool {
        self.chain == Self::START.chain
    }
}

/// The reason why an entry is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoidReason {
    /// The bytes are not an entry.
    Unreadable(EntryError),
    /// Another cluster wrote it.
    ForeignCluster,
    /// The entry does not continue the last accepted entry.
    NotContinuing,
    /// The entry is a claim whose epoch is not the next one, or another entry whose epoch is not the current one.
    WrongEpoch,
    /// Its writer is not the leader.
    NotTheLeader,
    /// The entry continues the last entry, but the numbers or times of its records do not continue the earlier ones.
    /// Its writer has a defect.
    Unsound,
}

impl VoidReason {
    /// Whether an operator must investigate, because neither retries nor former leaders explain such an entry.
    pub const fn is_alarming(self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::ForeignCluster | Self::Unsound)
    }
}

/// The result of judging an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryVerdict<'a> {
    Accepted(LogEntry<'a>),
    /// The entry is void and changes nothing.
    Void(VoidReason),
    /// A newer hub of this cluster wrote the entry, and the newer hub may accept it. This node must stop before it. If
    /// it continued, it would accept entries that the other nodes do not accept.
    Newer(EntryError),
}

/// Judges entries one after the other. Two folds that read the same entries are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFold {
    cluster: ClusterId,
    position: Position,
    /// The leader's claim.
    claim: Option<Claim>,
    /// The hand-over of the previous leader, until a claim is accepted.
    hand_over: Option<HandOver>,
}

/// A hand-over from one leader to its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HandOver {
    from: NodeId,
    to: NodeId,
}

impl LogFold {
    /// Creates a fold that continues after a position.
    pub const fn new(cluster: ClusterId, position: Position) -> Self {
        Self { cluster, position, claim: None, hand_over: None }
    }

    /// The position after the last accepted entry.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// The leader's claim, if this fold has read it.
    pub const fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Whether the leader handed over to this node or to any node.
    pub fn is_left_to(&self, node: NodeId) -> bool {
        self.hand_over.is_some_and(|HandOver { from, to }| to == node || (to == NodeId::ANY && from != node))
    }

    /// Reads the entry at `offset`. This is the next offset of the log or, if the log skips offsets, a later one.
    ///
    /// # Panics
    /// If the offset was read before.
    pub fn read<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> EntryVerdict<'a> {
        assert!(offset >= self.position.next_offset, "offset {offset} was read before");
        let entry = match LogEntry::decode(bytes) {
            Err(error @ EntryError::Newer { cluster, .. }) if cluster == self.cluster => {
                return EntryVerdict::Newer(error);
            }
            decoded => decoded,
        };
        let before = self.position.next_offset;
        self.position.next_offset = offset + 1;
        let entry = match entry {
            Ok(entry) => entry,
            Err(EntryError::Newer { .. }) => return EntryVerdict::Void(VoidReason::ForeignCluster),
            Err(error) => return EntryVerdict::Void(VoidReason::Unreadable(error)),
        };
        match self.judge(&entry) {
            Ok(()) => {
                if let Some(Claim { level, .. }) = entry.claim()
                    && level > LEVEL
                {
                    self.position.next_offset = before;
                    return EntryVerdict::Newer(EntryError::NewerRecords { level });
                }
                self.advance(&entry);
                EntryVerdict::Accepted(entry)
            }
            Err(void) => EntryVerdict::Void(void),
        }
    }

    /// Checks whether an entry continues the accepted entries.
    fn judge(&self, entry: &LogEntry<'_>) -> Result<(), VoidReason> {
        let at = &self.position;
        if entry.cluster != self.cluster {
            return Err(VoidReason::ForeignCluster);
        }
        if entry.previous != at.chain {
            return Err(VoidReason::NotContinuing);
        }
        if entry.kind == EntryKind::Begin {
            let is_sound = at.is_start() && entry.epoch == at.epoch && entry.count == 0;
            return if is_sound && entry.beginning().is_some() { Ok(()) } else { Err(VoidReason::Unsound) };
        }
        if entry.kind == EntryKind::Claim {
            if Some(entry.epoch) != at.epoch.checked_add(1) {
                return Err(VoidReason::WrongEpoch);
            }
        } else if entry.epoch != at.epoch {
            return Err(VoidReason::WrongEpoch);
        } else if at.leader.is_none_or(|(leader, _)| leader != entry.node) {
            return Err(VoidReason::NotTheLeader);
        }
        let has_records = entry.kind.has_records();
        let (last_seq, last_ns) = at.last_of(entry.kind);
        let is_sound = Some(entry.first_seq) == last_seq.checked_add(1)
            && last_seq.checked_add(u64::from(entry.count)).is_some()
            && has_records == (entry.count > 0)
            && (!has_records || entry.times.first_ns > last_ns)
            && entry.times.last_ns >= entry.times.first_ns
            && (entry.kind != EntryKind::Claim || entry.claim().is_some())
            && (entry.kind != EntryKind::HandOver || entry.successor().is_some());
        if is_sound { Ok(()) } else { Err(VoidReason::Unsound) }
    }

    fn advance(&mut self, entry: &LogEntry<'_>) {
        let at = &mut self.position;
        at.epoch = entry.epoch;
        at.chain = entry.chain;
        match entry.kind {
            EntryKind::Batch => {
                at.seq += u64::from(entry.count);
                at.time_ns = entry.times.last_ns;
            }
            EntryKind::Store => {
                at.store.seq += u64::from(entry.count);
                at.store.time_ns = entry.times.last_ns;
            }
            EntryKind::Beat => {}
            EntryKind::Begin => {
                if let Some(LogStart { seq, time_ns, store }) = entry.beginning() {
                    (at.seq, at.time_ns, at.store) = (seq, time_ns, store);
                }
            }
            EntryKind::Claim => {
                let claim = entry.claim();
                at.leader = claim.as_ref().map(|claim| (entry.node, claim.incarnation));
                self.claim = claim;
                self.hand_over = None;
            }
            EntryKind::HandOver => {
                // The claim of the node that handed over is no longer valid.
                at.leader = None;
                self.claim = None;
                self.hand_over = entry.successor().map(|to| HandOver { from: entry.node, to });
            }
        }
    }

    /// An entry that continues the accepted entries, with its chain value.
    pub(crate) fn draft(
        &self,
        kind: EntryKind,
        node: NodeId,
        count: u32,
        times: Times,
        body: &[u8],
    ) -> DraftEntry {
        self.draft_from(self.position.last_of(kind).0 + 1, kind, node, count, times, body)
    }

    /// The first entry of a log that begins after existing records.
    pub(crate) fn draft_beginning(&self, node: NodeId, beginning: &LogStart) -> DraftEntry {
        let times = Times::at(beginning.time_ns);
        self.draft_from(beginning.seq + 1, EntryKind::Begin, node, 0, times, &beginning.encode())
    }

    fn draft_from(
        &self,
        first_seq: u64,
        kind: EntryKind,
        node: NodeId,
        count: u32,
        times: Times,
        body: &[u8],
    ) -> DraftEntry {
        let at = &self.position;
        let epoch = at.epoch + u64::from(kind == EntryKind::Claim);
        let (cluster, previous) = (self.cluster, at.chain);
        let draft = Draft { cluster, kind, epoch, node, first_seq, count, times, previous, body };
        let (bytes, chain) = draft.encode();
        DraftEntry { bytes: bytes.into(), chain }
    }
}

/// An entry that has not been appended yet.
#[derive(Clone, Debug)]
pub(crate) struct DraftEntry {
    pub bytes: alloc::sync::Arc<[u8]>,
    pub chain: Chain,
}

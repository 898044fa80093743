//! The acceptance rule: every node applies it to every entry.

use crate::entry::{
    Beginning, Chain, Claim, ClusterId, Draft, Entry, EntryError, Incarnation, Kind, LEVEL, NodeId, Times,
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
    const fn last_of(&self, kind: Kind) -> (u64, i64) {
        match kind {
            Kind::Store => (self.store.seq, self.store.time_ns),
            Kind::Batch | Kind::Beat | Kind::Claim | Kind::HandOver | Kind::Begin => (self.seq, self.time_ns),
        }
    }

    /// Whether no entry has been accepted yet.
    pub fn is_start(&self) -> bool {
        self.chain == Self::START.chain
    }
}

/// The reason why an entry is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Void {
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

impl Void {
    /// Whether an operator must investigate, because neither retries nor former leaders explain such an entry.
    pub const fn is_alarming(self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::ForeignCluster | Self::Unsound)
    }
}

/// The result of judging an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    Accepted(Entry<'a>),
    /// The entry is void and changes nothing.
    Void(Void),
    /// A newer hub of this cluster wrote the entry, and the newer hub may accept it. This node must stop before it. If
    /// it continued, it would accept entries that the other nodes do not accept.
    Newer(EntryError),
}

/// Judges entries one after the other. Two folds that read the same entries are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
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

impl Fold {
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
    pub fn read<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> Verdict<'a> {
        assert!(offset >= self.position.next_offset, "offset {offset} was read before");
        let entry = match Entry::decode(bytes) {
            Err(error @ EntryError::Newer { cluster, .. }) if cluster == self.cluster => {
                return Verdict::Newer(error);
            }
            decoded => decoded,
        };
        let before = self.position.next_offset;
        self.position.next_offset = offset + 1;
        let entry = match entry {
            Ok(entry) => entry,
            Err(EntryError::Newer { .. }) => return Verdict::Void(Void::ForeignCluster),
            Err(error) => return Verdict::Void(Void::Unreadable(error)),
        };
        match self.judge(&entry) {
            Ok(()) => {
                if let Some(Claim { level, .. }) = entry.claim()
                    && level > LEVEL
                {
                    self.position.next_offset = before;
                    return Verdict::Newer(EntryError::NewerRecords { level });
                }
                self.advance(&entry);
                Verdict::Accepted(entry)
            }
            Err(void) => Verdict::Void(void),
        }
    }

    /// Checks whether an entry continues the accepted entries.
    fn judge(&self, entry: &Entry<'_>) -> Result<(), Void> {
        let at = &self.position;
        if entry.cluster != self.cluster {
            return Err(Void::ForeignCluster);
        }
        if entry.previous != at.chain {
            return Err(Void::NotContinuing);
        }
        if entry.kind == Kind::Begin {
            let is_sound = at.is_start() && entry.epoch == at.epoch && entry.count == 0;
            return if is_sound && entry.beginning().is_some() { Ok(()) } else { Err(Void::Unsound) };
        }
        if entry.kind == Kind::Claim {
            if Some(entry.epoch) != at.epoch.checked_add(1) {
                return Err(Void::WrongEpoch);
            }
        } else if entry.epoch != at.epoch {
            return Err(Void::WrongEpoch);
        } else if at.leader.is_none_or(|(leader, _)| leader != entry.node) {
            return Err(Void::NotTheLeader);
        }
        let has_records = entry.kind.has_records();
        let (last_seq, last_ns) = at.last_of(entry.kind);
        let is_sound = Some(entry.first_seq) == last_seq.checked_add(1)
            && last_seq.checked_add(u64::from(entry.count)).is_some()
            && has_records == (entry.count > 0)
            && (!has_records || entry.times.first_ns > last_ns)
            && entry.times.last_ns >= entry.times.first_ns
            && (entry.kind != Kind::Claim || entry.claim().is_some())
            && (entry.kind != Kind::HandOver || entry.successor().is_some());
        if is_sound { Ok(()) } else { Err(Void::Unsound) }
    }

    fn advance(&mut self, entry: &Entry<'_>) {
        let at = &mut self.position;
        at.epoch = entry.epoch;
        at.chain = entry.chain;
        match entry.kind {
            Kind::Batch => {
                at.seq += u64::from(entry.count);
                at.time_ns = entry.times.last_ns;
            }
            Kind::Store => {
                at.store.seq += u64::from(entry.count);
                at.store.time_ns = entry.times.last_ns;
            }
            Kind::Beat => {}
            Kind::Begin => {
                if let Some(Beginning { seq, time_ns, store }) = entry.beginning() {
                    (at.seq, at.time_ns, at.store) = (seq, time_ns, store);
                }
            }
            Kind::Claim => {
                let claim = entry.claim();
                at.leader = claim.as_ref().map(|claim| (entry.node, claim.incarnation));
                self.claim = claim;
                self.hand_over = None;
            }
            Kind::HandOver => {
                // The claim of the node that handed over is no longer valid.
                at.leader = None;
                self.claim = None;
                self.hand_over = entry.successor().map(|to| HandOver { from: entry.node, to });
            }
        }
    }

    /// An entry that continues the accepted entries, with its chain value.
    pub(crate) fn draft(&self, kind: Kind, node: NodeId, count: u32, times: Times, body: &[u8]) -> Drafted {
        self.draft_from(self.position.last_of(kind).0 + 1, kind, node, count, times, body)
    }

    /// The first entry of a log that begins after existing records.
    pub(crate) fn draft_beginning(&self, node: NodeId, beginning: &Beginning) -> Drafted {
        let times = Times::at(beginning.time_ns);
        self.draft_from(beginning.seq + 1, Kind::Begin, node, 0, times, &beginning.encode())
    }

    fn draft_from(
        &self,
        first_seq: u64,
        kind: Kind,
        node: NodeId,
        count: u32,
        times: Times,
        body: &[u8],
    ) -> Drafted {
        let at = &self.position;
        let epoch = at.epoch + u64::from(kind == Kind::Claim);
        let (cluster, previous) = (self.cluster, at.chain);
        let draft = Draft { cluster, kind, epoch, node, first_seq, count, times, previous, body };
        let (bytes, chain) = draft.encode();
        Drafted { bytes: bytes.into(), chain }
    }
}

/// An entry that has not been appended yet.
#[derive(Clone, Debug)]
pub(crate) struct Drafted {
    pub bytes: alloc::sync::Arc<[u8]>,
    pub chain: Chain,
}

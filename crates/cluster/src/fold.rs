//! The rule by which every node judges every entry.

use crate::entry::{
    Beginning, Chain, Claim, ClusterId, Draft, Entry, EntryError, Incarnation, Kind, LEVEL, NodeId, Times,
};

/// How far the accepted entries go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Counts the claims that were accepted.
    pub epoch: u64,
    /// The node whose claim was accepted last, and the life of it; `None` before the first.
    pub leader: Option<(NodeId, Incarnation)>,
    /// The sequence number of the last record.
    pub seq: u64,
    /// The last accepted entry.
    pub chain: Chain,
    /// The time of the last record, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The same of the store's records.
    pub store: StorePosition,
    /// Where the log is read next. Only this node's log has this number: a mirror has others.
    pub next_offset: u64,
}

/// How far the records of the store go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePosition {
    /// The sequence number of the last one.
    pub seq: u64,
    /// The time of the last one, in nanoseconds since 1970.
    pub time_ns: i64,
}

impl Position {
    /// Before the first entry.
    pub const START: Self = Self {
        epoch: 0,
        leader: None,
        seq: 0,
        chain: Chain(0),
        time_ns: i64::MIN,
        store: StorePosition { seq: 0, time_ns: i64::MIN },
        next_offset: 0,
    };

    /// The last record, and its time, of those that entries of this kind continue.
    const fn last_of(&self, kind: Kind) -> (u64, i64) {
        match kind {
            Kind::Store => (self.store.seq, self.store.time_ns),
            Kind::Batch | Kind::Beat | Kind::Claim | Kind::HandOver | Kind::Begin => (self.seq, self.time_ns),
        }
    }

    /// Whether no entry was accepted yet.
    pub fn is_start(&self) -> bool {
        self.chain == Self::START.chain
    }
}

/// Why an entry does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Void {
    /// Its bytes are no entry.
    Unreadable(EntryError),
    /// Another cluster wrote it.
    ForeignCluster,
    /// It continues another entry than the last one that was accepted.
    NotContinuing,
    /// A claim whose epoch is not the next, or another entry whose epoch is not the present one.
    WrongEpoch,
    /// It is not of the node that leads.
    NotTheLeader,
    /// It continues the last entry, but not the records before: their numbers or times. Its writer has a fault.
    Unsound,
}

impl Void {
    /// Whether an operator must look: retries and former leaders do not explain it.
    pub const fn is_alarming(self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::ForeignCluster | Self::Unsound)
    }
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It counts.
    Accepted(Entry<'a>),
    /// It changes nothing.
    Void(Void),
    /// A newer hub of this cluster wrote it, and may count on it. This node must stop before it: if it went on, it
    /// would accept what the others do not.
    Newer(EntryError),
}

/// Judges entries, one after the other. Two folds that read the same entries are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    cluster: ClusterId,
    position: Position,
    /// What the leader said of itself.
    claim: Option<Claim>,
    /// The leader that ended in order, until a claim is accepted.
    hand_over: Option<HandOver>,
}

/// The end of a leadership in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HandOver {
    from: NodeId,
    to: NodeId,
}

impl Fold {
    /// Continues behind a position.
    pub const fn new(cluster: ClusterId, position: Position) -> Self {
        Self { cluster, position, claim: None, hand_over: None }
    }

    /// How far the accepted entries go.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// What the leader said of itself, where the fold has read its claim.
    pub const fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Whether the leader ended in order, and left the leadership to this node or to any.
    pub fn is_left_to(&self, node: NodeId) -> bool {
        self.hand_over.is_some_and(|HandOver { from, to }| to == node || (to == NodeId::ANY && from != node))
    }

    /// Reads the entry at `offset`, which is the next of the log or, if the log skips offsets, a later one.
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

    /// Whether an entry continues the accepted ones.
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
                // Nothing of the one that handed over counts any more.
                at.leader = None;
                self.claim = None;
                self.hand_over = entry.successor().map(|to| HandOver { from: entry.node, to });
            }
        }
    }

    /// An entry that continues the accepted ones, and its chain.
    pub(crate) fn draft(&self, kind: Kind, node: NodeId, count: u32, times: Times, body: &[u8]) -> Drafted {
        self.draft_from(self.position.last_of(kind).0 + 1, kind, node, count, times, body)
    }

    /// The first entry of a log that begins behind records.
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

/// An entry that was not appended yet.
#[derive(Clone, Debug)]
pub(crate) struct Drafted {
    pub bytes: alloc::sync::Arc<[u8]>,
    pub chain: Chain,
}

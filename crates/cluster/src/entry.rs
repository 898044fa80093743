//! An entry of the log: a batch of records, or a message of the election protocol.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use xxhash_rust::xxh3::Xxh3Default;

use crate::fold::StorePosition;

const MAGIC: [u8; 4] = *b"UPE\x01";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 96;

// Offsets of the fields of a header.
const KIND: usize = 6;
const CLUSTER: usize = 8;
const EPOCH: usize = 24;
const NODE: usize = 32;
const COUNT: usize = 36;
const FIRST_SEQ: usize = 40;
const FIRST_TIME: usize = 48;
const LAST_TIME: usize = 56;
const PREVIOUS: usize = 64;
const CHAIN: usize = 80;
const _: () = assert!(CHAIN + 16 == HEADER_BYTES);

/// Identifies the cluster that an entry belongs to, so that two clusters on one topic never mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u128);

/// Identifies a node by the number in its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The successor of a hand-over to any node except the sender. No node has this number.
    pub const ANY: Self = Self(u32::MAX);
}

/// The newest level (form) of records that this version writes and reads. A claim states the level that its leader
/// writes. A node that knows only older levels therefore stops before the first record of a newer level.
pub const LEVEL: u32 = 1;

/// Identifies one run of a node's process: a random number drawn at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

/// The digest of an entry. It covers the chain value of the previous entry, and so all entries accepted so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain(pub u128);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Records of the leader.
    Batch,
    /// A heartbeat without content: the leader is alive, or a response that records nothing is waiting for
    /// confirmation.
    Beat,
    /// A node claims the leadership.
    Claim,
    /// The leader resigns. The named successor, or every node if it is [`NodeId::ANY`], may claim immediately.
    HandOver,
    /// Changes of the leader's store, which are numbered separately from its records.
    Store,
    /// The start of a log whose earlier records are not in it, because its readers already have them. Valid only as the
    /// first accepted entry of a log.
    Begin,
}

impl EntryKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Batch, Self::Beat, Self::Claim, Self::HandOver, Self::Store, Self::Begin];

    const fn code(self) -> u8 {
        match self {
            Self::Batch => 1,
            Self::Beat => 2,
            Self::Claim => 3,
            Self::HandOver => 4,
            Self::Store => 5,
            Self::Begin => 6,
        }
    }

    /// Whether entries of this kind contain records of the journal or of the store.
    pub const fn has_records(self) -> bool {
        matches!(self, Self::Batch | Self::Store)
    }
}

/// Times when the first and the last record of an entry were decided, in nanoseconds since 1970. In an entry without
/// records, both are the time of the writer's clock. Only times of records must increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub first_ns: i64,
    pub last_ns: i64,
}

impl Times {
    /// The times of an entry without records.
    pub const fn at(ns: i64) -> Self {
        Self { first_ns: ns, last_ns: ns }
    }
}

/// Records to append. This crate does not read their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    pub count: u32,
    /// Times of the first and the last record.
    pub times: Times,
    /// The records as the journal encodes them.
    pub bytes: &'a [u8],
}

/// An entry, as read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// The cluster that the entry belongs to.
    pub cluster: ClusterId,
    pub kind: EntryKind,
    /// Number of accepted claims up to this entry.
    pub epoch: u64,
    pub node: NodeId,
    /// The sequence number of its first record. Without records, the next sequence number of the journal.
    pub first_seq: u64,
    /// Number of records.
    pub count: u32,
    /// Times when the records were decided.
    pub times: Times,
    /// The chain value of the previous accepted entry.
    pub previous: Chain,
    /// The entry's own digest.
    pub chain: Chain,
    /// The entry's records, or the content for [`LogEntry::claim`], [`LogEntry::successor`] or [`LogEntry::beginning`].
    pub body: &'a [u8],
}

/// The reason why bytes of the log are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryError {
    /// The bytes are too short or do not start like an entry.
    #[error("not an entry of a hub's log")]
    NoEntry,
    /// The digest does not match the bytes.
    #[error("an entry whose digest does not match its bytes")]
    Damaged,
    /// The entry has a version or kind of a newer hub.
    #[error("an entry of version {version} and kind {kind}, which a newer hub wrote")]
    Newer {
        /// The version of the entry's format.
        version: u16,
        /// The number of the entry's kind.
        kind: u8,
        /// The cluster that the entry belongs to.
        cluster: ClusterId,
    },
    /// The claim's leader writes records in a newer form than this hub reads.
    #[error("a claim by a newer hub, which writes records of level {level}")]
    NewerRecords {
        /// The level of that form.
        level: u32,
    },
}

/// The content of a claim: data about the claimant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run of the process that claims. A later run of the same node must claim again.
    pub incarnation: Incarnation,
    /// The level of the records that it writes: [`LEVEL`] or an older one.
    pub level: u32,
    /// The node's address for other nodes.
    pub address: String,
}

impl Claim {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + self.address.len());
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.level.to_le_bytes());
        bytes.extend_from_slice(self.address.as_bytes());
        bytes
    }
}

/// The position after which a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The sequence number of the last record before the log.
    pub seq: u64,
    /// The time of that record, in nanoseconds since 1970. Records of the log are later.
    pub time_ns: i64,
    /// The same position for the store's records.
    pub store: StorePosition,
}

impl LogStart {
    /// Encodes the body of the entry. The other fields are in its header.
    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.store.seq.to_le_bytes());
        bytes[8..].copy_from_slice(&self.store.time_ns.to_le_bytes());
        bytes
    }
}

impl<'a> LogEntry<'a> {
    /// Decodes an entry.
    ///
    /// Returns an error if the bytes are not an entry, are damaged, or were written by a newer hub.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(EntryError::NoEntry);
        };
        if header[..4] != MAGIC {
            return Err(EntryError::NoEntry);
        }
        let chain = Chain(u128_at(header, CHAIN));
        if chain != digest(header, body) {
            return Err(EntryError::Damaged);
        }
        let cluster = ClusterId(u128_at(header, CLUSTER));
        let version = u16::from_le_bytes([header[4], header[5]]);
        let kind = EntryKind::ALL.into_iter().find(|kind| kind.code() == header[KIND]);
        let (VERSION, Some(kind)) = (version, kind) else {
            return Err(EntryError::Newer { version, kind: header[KIND], cluster });
        };
        Ok(Self {
            cluster,
            kind,
            epoch: u64_at(header, EPOCH),
            node: NodeId(u32_at(header, NODE)),
            first_seq: u64_at(header, FIRST_SEQ),
            count: u32_at(header, COUNT),
            times: Times {
                first_ns: u64_at(header, FIRST_TIME).cast_signed(),
                last_ns: u64_at(header, LAST_TIME).cast_signed(),
            },
            previous: Chain(u128_at(header, PREVIOUS)),
            chain,
            body,
        })
    }

    /// The content of a claim. `None` for an entry of another kind, or if the body is invalid.
    pub fn claim(&self) -> Option<Claim> {
        let (head, address) = self.body.split_first_chunk::<12>()?;
        (self.kind == EntryKind::Claim).then_some(())?;
        Some(Claim {
            incarnation: Incarnation(u64_at(head, 0)),
            level: u32_at(head, 8),
            address: core::str::from_utf8(address).ok()?.to_owned(),
        })
    }

    /// The node that may claim immediately after a hand-over, or [`NodeId::ANY`]. `None` for an entry of another kind.
    pub fn successor(&self) -> Option<NodeId> {
        (self.kind == EntryKind::HandOver).then_some(NodeId(u32_at(self.body.first_chunk::<4>()?, 0)))
    }

    /// The position after which the log begins. `None` for an entry of another kind, or if the body is invalid.
    pub fn beginning(&self) -> Option<LogStart> {
        let body: &[u8; 16] = self.body.try_into().ok()?;
        (self.kind == EntryKind::Begin).then_some(())?;
        let store = StorePosition { seq: u64_at(body, 0), time_ns: u64_at(body, 8).cast_signed() };
        Some(LogStart { seq: self.first_seq.checked_sub(1)?, time_ns: self.times.last_ns, store })
    }
}

/// The content of an entry without its digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub cluster: ClusterId,
    pub kind: EntryKind,
    pub epoch: u64,
    pub node: NodeId,
    pub first_seq: u64,
    pub count: u32,
    pub times: Times,
    pub previous: Chain,
    pub body: &'a [u8],
}

impl Draft<'_> {
    /// The entry's bytes and its digest.
    pub fn encode(&self) -> (Vec<u8>, Chain) {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4..KIND].copy_from_slice(&VERSION.to_le_bytes());
        header[KIND] = self.kind.code();
        header[CLUSTER..EPOCH].copy_from_slice(&self.cluster.0.to_le_bytes());
        header[EPOCH..NODE].copy_from_slice(&self.epoch.to_le_bytes());
        header[NODE..COUNT].copy_from_slice(&self.node.0.to_le_bytes());
        header[COUNT..FIRST_SEQ].copy_from_slice(&self.count.to_le_bytes());
        header[FIRST_SEQ..FIRST_TIME].copy_from_slice(&self.first_seq.to_le_bytes());
        header[FIRST_TIME..LAST_TIME].copy_from_slice(&self.times.first_ns.to_le_bytes());
        header[LAST_TIME..PREVIOUS].copy_from_slice(&self.times.last_ns.to_le_bytes());
        header[PREVIOUS..CHAIN].copy_from_slice(&self.previous.0.to_le_bytes());
        let chain = digest(&header, self.body);
        header[CHAIN..].copy_from_slice(&chain.0.to_le_bytes());
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(self.body);
        (bytes, chain)
    }
}

/// Computes the digest of an entry's bytes, excluding the digest itself. It detects accidental damage, not forgery: the
/// brokers control write access to the topic.
fn digest(header: &[u8; HEADER_BYTES], body: &[u8]) -> Chain {
    let mut hasher = Xxh3Default::new();
    hasher.update(&header[..CHAIN]);
    hasher.update(body);
    Chain(hasher.digest128())
}

/// The digest that an entry's bytes should have.
#[cfg(test)]
pub(crate) fn digest_of(bytes: &[u8]) -> Chain {
    let (header, body) = bytes.split_first_chunk().expect("a header");
    digest(header, body)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    let mut word = [0; 16];
    word.copy_from_slice(&bytes[at..at + 16]);
    u128::from_le_bytes(word)
}

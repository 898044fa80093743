//! An entry of the log: one batch of records, or a word of the nodes among themselves.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use xxhash_rust::xxh3::Xxh3Default;

use crate::fold::StorePosition;

const MAGIC: [u8; 4] = *b"UPE\x01";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 96;

// Where the fields of a header begin.
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

/// Names the cluster that an entry belongs to, so that two clusters on one topic never mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u128);

/// A node, by the number that its settings give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// In a hand-over: any node but the one that ends. No node has this number.
    pub const ANY: Self = Self(u32::MAX);
}

/// The newest form of records that this version writes and reads. Which form a leader writes its claim says, so that a
/// node that knows only older ones stops there, before the first of them.
pub const LEVEL: u32 = 1;

/// One life of a node's process: a random number drawn at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

/// The digest of an entry, which covers the chain of the entry before it and so everything accepted so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain(pub u128);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Records of the leader.
    Batch,
    /// Nothing: the leader lives, or somebody waits for an answer that records nothing.
    Beat,
    /// A node wants to lead.
    Claim,
    /// The leader ends; the node that it names, or [`NodeId::ANY`], may claim at once.
    HandOver,
    /// Changes of the leader's store, which are numbered apart from its records.
    Store,
    /// The log begins behind records that it does not have: those who are to read it have them already. The first that
    /// counts in a log, or none.
    Begin,
}

impl Kind {
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

    /// Whether entries of this kind have records, of the journal or of the store.
    pub const fn has_records(self) -> bool {
        matches!(self, Self::Batch | Self::Store)
    }
}

/// When the first and the last record of an entry were decided, in nanoseconds since 1970. Without records, both are
/// what the writer's clock showed: only records increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Of the first record.
    pub first_ns: i64,
    /// Of the last record.
    pub last_ns: i64,
}

impl Times {
    /// Of an entry without records.
    pub const fn at(ns: i64) -> Self {
        Self { first_ns: ns, last_ns: ns }
    }
}

/// Records to be appended: how many, when, and their bytes, which this crate does not read.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// How many.
    pub count: u32,
    /// Their times.
    pub times: Times,
    /// As the journal encodes them.
    pub bytes: &'a [u8],
}

/// An entry, as read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The cluster that it is for.
    pub cluster: ClusterId,
    /// What it is.
    pub kind: Kind,
    /// Counts the changes of leadership.
    pub epoch: u64,
    /// The node that wrote it.
    pub node: NodeId,
    /// The sequence number of its first record; of the journal's next one if it has none.
    pub first_seq: u64,
    /// How many records it has.
    pub count: u32,
    /// When they were decided.
    pub times: Times,
    /// The chain of the entry that it continues.
    pub previous: Chain,
    /// Its own digest.
    pub chain: Chain,
    /// Its records; what [`Entry::claim`], [`Entry::successor`] or [`Entry::beginning`] reads.
    pub body: &'a [u8],
}

/// Why bytes of the log are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryError {
    /// Too short, or another beginning.
    #[error("not an entry of a hub's log")]
    NoEntry,
    /// The digest is that of other bytes.
    #[error("an entry whose digest is not that of its bytes")]
    Damaged,
    /// Version or kind of a newer hub.
    #[error("an entry of version {version} and kind {kind}, which a newer hub wrote")]
    Newer {
        /// The version of its form.
        version: u16,
        /// The number of its kind.
        kind: u8,
        /// The cluster that it is for.
        cluster: ClusterId,
    },
    /// What the claim's leader writes is in a form of a newer hub.
    #[error("a claim of a hub that writes records of level {level}, which is newer")]
    NewerRecords {
        /// The level.
        level: u32,
    },
}

/// What a claim says of the claimant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The life of the process that claims: a later one of the same node must claim anew.
    pub incarnation: Incarnation,
    /// The form of the records that it writes: [`LEVEL`], or an older one.
    pub level: u32,
    /// Where other nodes reach it.
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

/// Behind which records a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The last record before it.
    pub seq: u64,
    /// Records of the log are later, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The same of the store's records.
    pub store: StorePosition,
}

impl Beginning {
    /// The body of the entry; the rest is in its header.
    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.store.seq.to_le_bytes());
        bytes[8..].copy_from_slice(&self.store.time_ns.to_le_bytes());
        bytes
    }
}

impl<'a> Entry<'a> {
    /// Reads an entry.
    ///
    /// Errors: the bytes are no entry, are damaged, or were written by a newer hub.
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
        let kind = Kind::ALL.into_iter().find(|kind| kind.code() == header[KIND]);
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

    /// What a claim says; `None` of another entry, or if its body is none.
    pub fn claim(&self) -> Option<Claim> {
        let (head, address) = self.body.split_first_chunk::<12>()?;
        (self.kind == Kind::Claim).then_some(())?;
        Some(Claim {
            incarnation: Incarnation(u64_at(head, 0)),
            level: u32_at(head, 8),
            address: core::str::from_utf8(address).ok()?.to_owned(),
        })
    }

    /// The node that may claim at once after a hand-over, or [`NodeId::ANY`]; `None` of another entry.
    pub fn successor(&self) -> Option<NodeId> {
        (self.kind == Kind::HandOver).then_some(NodeId(u32_at(self.body.first_chunk::<4>()?, 0)))
    }

    /// Behind which records the log begins; `None` of another entry, or if its body is none.
    pub fn beginning(&self) -> Option<Beginning> {
        let body: &[u8; 16] = self.body.try_into().ok()?;
        (self.kind == Kind::Begin).then_some(())?;
        let store = StorePosition { seq: u64_at(body, 0), time_ns: u64_at(body, 8).cast_signed() };
        Some(Beginning { seq: self.first_seq.checked_sub(1)?, time_ns: self.times.last_ns, store })
    }
}

/// What an entry is made of, but for its digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    pub cluster: ClusterId,
    pub kind: Kind,
    pub epoch: u64,
    pub node: NodeId,
    pub first_seq: u64,
    pub count: u32,
    pub times: Times,
    pub previous: Chain,
    pub body: &'a [u8],
}

impl Draft<'_> {
    /// The entry's bytes, and its digest.
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

/// The digest of an entry's bytes without the digest itself. It recognises accidents, not forgers: who may write to the
/// topic is for the brokers to say.
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

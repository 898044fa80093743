//! Which entries of a shared log count, and which node leads.
//!
//! Several nodes append to one ordered log and read it, such as a Kafka topic with one partition. The log promises
//! order and durability, and nothing about who appends. So every node judges each entry by the same rule ([`Fold`]):
//! an entry counts if it continues the accepted entries exactly. An entry that does not is void, on every node alike.
//! Leadership changes by an entry like any other, a claim.
//!
//! [`Leader`] appends and says which of its entries were accepted; [`Standby`] reads, and claims when the leader is
//! silent. Both are state machines without IO: they return what is to be done, and are told what came of it.
//!
//! Why this is sound, and what it assumes of the log: `README.md`.
#![no_std]

extern crate alloc;

mod entry;
mod fold;
mod leader;
mod standby;
#[cfg(test)]
mod tests;

pub use entry::{
    Beginning, Chain, Claim, ClusterId, Entry, EntryError, Incarnation, Kind, LEVEL, NodeId, Records, Times,
};
pub use fold::{Fold, Position, StorePosition, Verdict, Void};
pub use leader::{Leader, Next, Stop};
pub use standby::{Ahead, EndLost, Patience, Role, Standby};

/// An entry to be appended. The log's client answers with the tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Names this attempt; never used twice by a node.
    pub tag: u64,
    /// The entry, byte for byte what was appended before if it is appended again.
    pub bytes: alloc::sync::Arc<[u8]>,
}

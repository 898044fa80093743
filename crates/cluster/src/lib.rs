//! Leader election by a shared log, and the rule that decides which of its entries are accepted.
//!
//! Several nodes append to one ordered log and read it, for example a Kafka topic with one partition. The log
//! guarantees order and durability, but does not restrict who appends. Every node therefore judges each entry by the
//! same rule ([`LogFold`]): an entry is accepted if it exactly continues the accepted entries. Every node treats any
//! other entry as void. A claim, an ordinary entry of the log, changes the leader.
//!
//! [`Leader`] appends and reports which of its entries were accepted. [`Standby`] reads, and claims the leadership when
//! the leader is silent. Both are state machines without IO: they return the next action, and the caller reports its
//! result to them.
//!
//! `README.md` explains why this is correct, and which properties of the log it assumes.
#![no_std]

extern crate alloc;

mod entry;
mod fold;
mod leader;
mod standby;
#[cfg(test)]
mod tests;

pub use entry::{
    Chain, Claim, ClusterId, EntryError, EntryKind, Incarnation, LEVEL, LogEntry, LogStart, NodeId, Records,
    Times,
};
pub use fold::{EntryVerdict, LogFold, Position, StorePosition, VoidReason};
pub use leader::{Leader, Next, Stop};
pub use standby::{ClockAhead, EndLost, NodeRole, Standby, StandbyTimeouts};

/// An entry to append. The log's client reports the result with the tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Identifies this attempt; a node never uses a tag twice.
    pub tag: u64,
    /// The bytes of the entry. A repeated attempt has exactly the same bytes.
    pub bytes: alloc::sync::Arc<[u8]>,
}

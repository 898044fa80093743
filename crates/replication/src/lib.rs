//! A journal that several nodes share.
//!
//! The journal is one [`Partition`] of a log that all nodes read, such as a Kafka topic with one partition. Every node
//! keeps a copy of what was accepted, in the files of its data directory, and syncs it. [`stand_by`] follows the log
//! until this node leads; the [`ReplicatedLog`] that it returns is then the engine's journal.
//!
//! The store beside the journal is shared by the same means: its changes are entries of the log, too, and each node
//! keeps the store's own journal as a copy of them.
//!
//! Which entries count, and who leads, is decided by [`upesi_cluster`].

mod copy;
mod error;
mod leading;
mod partition;
mod place;
mod repair;
mod shared;
mod standby;

pub use copy::{Copies, CopyOf};
pub use error::ReplicationError;
pub use leading::{ReplicatedLog, StoreLog};
pub use partition::{Copied, Event, Partition};
pub use place::PLACE_FILE;
pub use repair::{Repair, survey};
pub use standby::{Clock, NodeSettings, Progress, Stood, SystemClock, stand_by};

//! A journal that several nodes share.
//!
//! The journal is one [`Partition`] of a log that all nodes read, such as a Kafka topic with one partition. Every node
//! keeps and syncs a copy of the accepted records in the files of its data directory. [`stand_by`] follows the log
//! until this node becomes leader; the [`ReplicatedLog`] that it returns is then the engine's journal.
//!
//! The store beside the journal is shared in the same way: its changes are also entries of the log, and each node keeps
//! a copy of them as the store's own journal.
//!
//! [`upesi_cluster`] decides which entries are valid, and which node is the leader.

mod checkpoint;
mod clock;
mod copy;
mod error;
mod history;
mod leading;
mod partition;
mod records;
mod repair;
mod replicated_log;
mod settings;
mod shared;
mod standby;
mod survey;

pub use checkpoint::CHECKPOINT_FILE;
pub use clock::{Clock, SystemClock};
pub use copy::{Copies, CopyOf};
pub use error::ReplicationError;
pub use partition::{CopyPosition, Event, Partition};
pub use repair::Repair;
pub use replicated_log::{ReplicatedLog, StoreLog};
pub use settings::NodeSettings;
pub use standby::{StandbyOutcome, StandbyProgress, stand_by};
pub use survey::survey;

//! The log of a cluster: its settings, its state, its repair.

pub(crate) mod config;
pub(crate) mod error;
mod repair;
mod status;
pub(crate) mod topic;

pub use upesi_kafka::TopicReplicas;
pub use upesi_replication::CopyPosition;

pub use self::error::ClusterError;
pub use self::repair::{LogComparison, repair};
pub use self::status::{Status, create, knows, remove, status};

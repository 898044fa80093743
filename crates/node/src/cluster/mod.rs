//! The log of a cluster: its settings, its state, its repair.

pub(crate) mod config;
pub(crate) mod error;
mod repair;
mod status;
pub(crate) mod topic;

pub use upesi_kafka::Standing;
pub use upesi_replication::Copied;

pub use self::error::ClusterError;
pub use self::repair::{Found, repair};
pub use self::status::{Status, create, knows, remove, status};

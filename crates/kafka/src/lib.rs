//! A topic of Apache Kafka as the log that the nodes of a cluster share.
//!
//! [`KafkaPartition`] is the client: one producer, one consumer of partition 0, no consumer group. [`check_topic`]
//! compares the topic's settings with what the log must promise, and [`create_topic`] makes one that does. Redpanda is
//! reached by the same client.
//!
//! Nothing here decides which entries count: see [`upesi_cluster`].

mod client;
mod members;
mod reader;
mod security;
mod topic;
mod warnings;
mod watch;

pub use client::{ConnectError, ENTRY_BYTES_MAX, KafkaPartition, KafkaSettings, LastFailure};
pub use members::{Deletion, Members, Told};
pub use security::{Sasl, Security, SecurityError};
pub use topic::{Replicas, Standing, TopicError, check_topic, create_topic, standing};

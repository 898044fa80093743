//! A topic of Apache Kafka as the log that the nodes of a cluster share.
//!
//! [`KafkaPartition`] is the client: one producer, one consumer of partition 0, no consumer group. [`check_topic`]
//! compares the topic's settings with what the log must promise, and [`create_topic`] makes one that does. Redpanda is
//! reached by the same client.
//!
//! Nothing here decides which entries count: see [`upesi_cluster`].
//!
//! The feature `client` brings librdkafka and OpenSSL. Without it, as in `make demo`, [`KafkaSettings::new`] fails.

mod plain;

pub use plain::{Deletion, ENTRY_BYTES_MAX, Replicas, Sasl, Security, Standing, Told};

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod members;
#[cfg(feature = "client")]
mod reader;
#[cfg(feature = "client")]
mod security;
#[cfg(feature = "client")]
mod topic;
#[cfg(feature = "client")]
mod warnings;
#[cfg(feature = "client")]
mod watch;

#[cfg(feature = "client")]
pub use {
    client::{ConnectError, KafkaPartition, KafkaSettings, LastFailure},
    members::Members,
    security::SecurityError,
    topic::{TopicError, check_topic, create_topic, standing},
};

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(not(feature = "client"))]
pub use absent::{
    ConnectError, KafkaPartition, KafkaSettings, Members, TopicError, check_topic, create_topic, standing,
};

//! A topic of Apache Kafka as the log that the nodes of a cluster share.
//!
//! [`KafkaPartition`] is the client: one producer, one consumer of partition 0, no consumer group. [`check_topic`]
//! compares the topic's settings with the guarantees that the log needs, and [`create_topic`] creates a topic with
//! these settings. The same client works with Redpanda.
//!
//! [`upesi_cluster`] decides which entries are valid.
//!
//! The feature `client` includes librdkafka and OpenSSL. Without it, as in `make demo`, [`KafkaSettings::new`] fails.

mod plain;

pub use plain::{Deletion, ENTRY_BYTES_MAX, MemberReport, Replicas, Sasl, Security, TopicReplicas};

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod members;
#[cfg(feature = "client")]
mod reader;
#[cfg(feature = "client")]
mod security;
#[cfg(feature = "client")]
mod settings;
#[cfg(feature = "client")]
mod topic;
#[cfg(feature = "client")]
mod warnings;
#[cfg(feature = "client")]
mod watch;

#[cfg(feature = "client")]
pub use {
    client::KafkaPartition,
    members::Members,
    security::SecurityError,
    settings::{ConnectError, KafkaSettings, LastFailure},
    topic::{TopicError, check_topic, create_topic, standing},
};

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(not(feature = "client"))]
pub use absent::{
    ConnectError, KafkaPartition, KafkaSettings, Members, TopicError, check_topic, create_topic, standing,
};

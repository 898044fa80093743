//! Replaces the Kafka client in a build without it. Its settings cannot be created, so the rest is never called.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use upesi_cluster::{Append, ClusterId, NodeId};
use upesi_replication::{CopyPosition, Event, Partition};

use crate::plain::{Deletion, MemberReport, Replicas, Security, TopicReplicas};

/// The reason why no client can be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The build does not include the client.
    #[error(
        "this upesi was built without the Kafka client and cannot serve a cluster: `make build` builds one that can"
    )]
    NotBuiltIn,
}

/// A type without values. It is private, so that callers compile without warnings of unreachable code.
#[derive(Clone, Debug)]
enum NoValue {}

/// Settings that cannot be created.
#[derive(Clone, Debug)]
pub struct KafkaSettings(NoValue);

impl KafkaSettings {
    /// The settings of a client that is not included.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: String, _: String, _: Security) -> Result<Self, ConnectError> {
        Err(ConnectError::NotBuiltIn)
    }

    /// Never called.
    #[must_use]
    pub fn counting(self, _: Arc<AtomicU64>) -> Self {
        self
    }

    /// Never called.
    pub fn topic(&self) -> &str {
        match self.0 {}
    }

    /// Never called.
    pub fn last_failure(&self) -> String {
        match self.0 {}
    }
}

/// An error that never occurs.
#[derive(Debug)]
pub struct TopicError(NoValue);

impl TopicError {
    /// Never called.
    pub const fn is_of_brokers(&self) -> bool {
        match self.0 {}
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl std::error::Error for TopicError {}

/// Never called.
///
/// # Errors
/// None.
pub fn check_topic(settings: &KafkaSettings, _: Replicas) -> Result<(), TopicError> {
    match settings.0 {}
}

/// Never called.
///
/// # Errors
/// None.
pub fn create_topic(settings: &KafkaSettings, _: Replicas) -> Result<(), TopicError> {
    match settings.0 {}
}

/// Never called.
///
/// # Errors
/// None.
pub fn standing(settings: &KafkaSettings) -> Result<TopicReplicas, TopicError> {
    match settings.0 {}
}

/// The nodes of a cluster; never created.
#[derive(Clone, Debug)]
pub struct Members(KafkaSettings);

impl Members {
    /// Never called.
    pub const fn new(settings: KafkaSettings, _: ClusterId) -> Self {
        Self(settings)
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn told(&mut self) -> Result<BTreeMap<u32, MemberReport>, TopicError> {
        match self.0.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn remove(&self, _: NodeId) -> Result<bool, TopicError> {
        match self.0.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn delete_before_need(&mut self, _: Duration) -> Result<Deletion, TopicError> {
        match self.0.0 {}
    }
}

/// The topic's partition; never created.
#[derive(Debug)]
pub struct KafkaPartition(KafkaSettings);

impl KafkaPartition {
    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn connect(settings: KafkaSettings, _: Option<(ClusterId, NodeId)>) -> Result<Self, ConnectError> {
        Ok(Self(settings))
    }
}

impl Partition for KafkaPartition {
    fn append(&mut self, _: Append) {
        match self.0.0 {}
    }

    fn read_from(&mut self, _: u64) {
        match self.0.0 {}
    }

    fn stop_reading(&mut self) {
        match self.0.0 {}
    }

    fn next(&mut self, _: Duration) -> Result<Option<Event>, String> {
        match self.0.0 {}
    }

    fn end(&mut self) -> Option<u64> {
        match self.0.0 {}
    }

    fn begin(&mut self) -> Option<u64> {
        match self.0.0 {}
    }

    fn needs(&mut self, _: u64, _: CopyPosition) {
        match self.0.0 {}
    }

    fn furthest_of_others(&mut self) -> Option<CopyPosition> {
        match self.0.0 {}
    }

    fn name(&self) -> &str {
        match self.0.0 {}
    }
}

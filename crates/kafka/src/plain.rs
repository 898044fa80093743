//! Settings of the Kafka client and its results, also for a build without it.

use std::path::PathBuf;

use upesi_replication::CopyPosition;
use upesi_tls::ClientFiles;

/// Maximum size of an entry, in bytes; the topic has the same limit.
pub const ENTRY_BYTES_MAX: usize = 12 * 1024 * 1024;

/// TLS and SASL of every connection to the brokers.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Files with the brokers' authorities, and with this node's certificate; `None` without TLS.
    pub tls: Option<ClientFiles>,
    /// Login of this node; `None` without one.
    pub sasl: Option<Sasl>,
}

/// A login by name and password.
#[derive(Clone, Debug)]
pub struct Sasl {
    /// Mechanism, such as `SCRAM-SHA-512`.
    pub mechanism: String,
    pub username: String,
    /// File with the password, which is read for each client.
    pub password_file: PathBuf,
}

/// Number of brokers that store an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Number in total.
    pub count: i32,
    /// Minimum number before an entry is acknowledged.
    pub in_sync_min: i32,
}

impl Replicas {
    /// The replicas of a production switch: any one broker may fail.
    pub const SHIPPED: Self = Self { count: 3, in_sync_min: 2 };
    /// One broker, for trials.
    pub const TRIAL: Self = Self { count: 1, in_sync_min: 1 };
}

/// The brokers that store the topic, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicReplicas {
    /// The broker that accepts entries, if there is one.
    pub leader: Option<u32>,
    /// Brokers with all acknowledged entries.
    pub in_sync: Vec<u32>,
    /// Brokers that lack acknowledged entries.
    pub behind: Vec<u32>,
}

/// A node's latest report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The first entry that it still needs.
    pub needs: u64,
    /// The end of its copy; `None` for an older version.
    pub has: Option<CopyPosition>,
}

/// Result of a deletion of entries that no node needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The first remaining entry, if any were deleted.
    pub begin: Option<u64>,
    /// The node that needs entries beyond the configured time.
    pub held_by: Option<u32>,
}

//! Settings of the brokers' client and its results, also for a build without it.

use std::path::PathBuf;

use upesi_replication::Copied;
use upesi_tls::ClientFiles;

/// Largest entry, in bytes: that of the topic.
pub const ENTRY_BYTES_MAX: usize = 12 * 1024 * 1024;

/// TLS and SASL of every connection to the brokers.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Whose certificates brokers have, and that of this node; `None`: no TLS.
    pub tls: Option<ClientFiles>,
    /// By which this node logs in; `None`: it does not.
    pub sasl: Option<Sasl>,
}

/// A log-in by name and password.
#[derive(Clone, Debug)]
pub struct Sasl {
    /// Such as `SCRAM-SHA-512`.
    pub mechanism: String,
    /// The name.
    pub username: String,
    /// File of the password, which is read for each client.
    pub password_file: PathBuf,
}

/// On how many brokers an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// In all.
    pub count: i32,
    /// Before it is acknowledged.
    pub in_sync_min: i32,
}

impl Replicas {
    /// What a switch needs: any one broker may be lost.
    pub const SHIPPED: Self = Self { count: 3, in_sync_min: 2 };
    /// One broker, for trials.
    pub const TRIAL: Self = Self { count: 1, in_sync_min: 1 };
}

/// The brokers that have the topic, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The one that takes entries, if there is one.
    pub leader: Option<u32>,
    /// Those that have all that was acknowledged.
    pub in_sync: Vec<u32>,
    /// All others that are to have it.
    pub behind: Vec<u32>,
}

/// A node's latest report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The first entry that it still needs.
    pub needs: u64,
    /// How far its copy went; `None` of an older version.
    pub has: Option<Copied>,
}

/// The result of a look for entries that no node needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The first entry that is left, if any were deleted.
    pub begin: Option<u64>,
    /// The node for which older ones stay than are to be kept.
    pub held_by: Option<u32>,
}

//! Errors that stop a node from following its log.

use upesi_cluster::{EndLost, Stop};
use upesi_journal::JournalError;

/// Reason why a node stops following its log.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    /// The node's own copy cannot be read or written.
    #[error(transparent)]
    Copy(#[from] JournalError),
    /// The copy's last entry is not in the log.
    #[error(
        "{log} ends at offset {end}, but this node accepted the entry at {accepted} and has no older entry in common \
         with the log: the log lost its end, and its beginning was deleted; create a new topic and repair it \
         (`upesi cluster repair`)"
    )]
    TailLost {
        log: String,
        end: u64,
        /// The last entry that this node accepted.
        accepted: u64,
    },
    /// The log lacks records of the copy.
    #[error(
        "{log} ends with record {log_seq} of the {part}, but this node has {copy_seq}: the log lost its end; do not let \
         any node become leader, and run `upesi cluster repair` on each node"
    )]
    RecordsLost {
        /// Journal or store.
        part: &'static str,
        log: String,
        /// The last record in the log.
        log_seq: u64,
        /// The last record of the copy.
        copy_seq: u64,
    },
    /// The log ends before entries that this node has read.
    #[error("{log}: {lost}; do not let any node become leader, and run `upesi cluster repair` on each node")]
    EndLost {
        log: String,
        /// The end of the log, and the position of the node.
        lost: EndLost,
    },
    /// Another node's copy has more records than the log.
    #[error(
        "another node reported record {seq}, and {store_seq} of the store, but {log} ends before them: the log lost \
         its end; run `upesi cluster repair` on each node, or `upesi cluster remove` for a node whose disk is lost"
    )]
    BehindOthers {
        log: String,
        /// The last record of the other node.
        seq: u64,
        /// The last record of its store.
        store_seq: u64,
    },
    /// The log begins after records that the copy does not have.
    #[error(
        "{log} begins after record {seq}, and {store_seq} of the store, which this node's copy does not have: restore \
         it from a backup of another node (`upesi cluster add`)"
    )]
    BeginsLater {
        log: String,
        /// The last record before it.
        seq: u64,
        /// The last record of the store before it.
        store_seq: u64,
    },
    /// The copy's files no longer contain records that the log lacks.
    #[error(
        "the log lacks records of the {part} from {missing} on, but this node's files begin with {oldest}: the log \
         cannot be repaired from here; create a new topic and repair it"
    )]
    NotKept {
        /// Journal or store.
        part: &'static str,
        /// The first record that the log lacks.
        missing: u64,
        /// The oldest record in the files.
        oldest: u64,
    },
    /// Another node is the leader while the log should be repaired.
    #[error("another node is appending to {log}: stop all nodes, then repair it")]
    Contended { log: String },
    /// The log has deleted entries that this node needs.
    #[error(
        "{log} begins at offset {begin}, but this node needs offset {needed}: the entries between were deleted while it \
         was stopped; restore a backup of another node (`upesi backup` there, `upesi restore` here), then start again"
    )]
    Deleted {
        log: String,
        begin: u64,
        /// The next entry that is needed.
        needed: u64,
    },
    /// The log has another entry at the offset of this node's last entry.
    #[error(
        "{log} has a different entry at offset {accepted} than the one that this node accepted: the log was created again, \
         or restored from an older copy; use the log that this node belongs to, or an empty data directory"
    )]
    OtherLog {
        log: String,
        /// The last entry that this node accepted.
        accepted: u64,
    },
    /// A node without entries found entries of another cluster in its log.
    #[error(
        "{log} has entries of another cluster: check `cluster.id`, or use a separate topic for this cluster (`cluster.topic`)"
    )]
    ForeignLog { log: String },
    /// Records of the log and of the copy differ.
    #[error(
        "record {seq} of this node's {part} differs from the record in {log}: restore the data directory from a backup, or \
         start with an empty one"
    )]
    CopyDiffers {
        /// Journal or store.
        part: &'static str,
        log: String,
        /// The first record that differs.
        seq: u64,
    },
    /// The copy ends before its recorded position.
    #[error(
        "this node's {part} ends with record {copy}, but its file `place` contains {place}: restore it from a backup"
    )]
    CopyTooShort {
        /// Journal or store.
        part: &'static str,
        /// The copy's last record.
        copy: u64,
        /// The last record according to the file.
        place: u64,
    },
    /// The file with the node's position cannot be read.
    #[error(
        "the file `place` of this data directory is damaged or has another version: restore it from a backup, or start \
         with an empty directory"
    )]
    Checkpoint,
    /// The data directory belongs to a node of another cluster.
    #[error(
        "this data directory belongs to a node of the cluster {found:032x}, but the settings name {expected:032x}"
    )]
    OtherCluster {
        /// The cluster of the directory.
        found: u128,
        /// The cluster of the settings.
        expected: u128,
    },
    /// The data directory has a journal, or a store, that belongs to no log.
    #[error(
        "this data directory has records or parties that were written without a cluster: `upesi cluster repair --write` \
         fills an empty topic with them; otherwise start with an empty directory, or serve it without `cluster` settings"
    )]
    NotReplicated,
    /// An entry is intact, but its records cannot be read.
    #[error("{log} has an entry at offset {offset} whose records cannot be read: upgrade this node")]
    Records { log: String, offset: u64 },
    /// A newer hub wrote an entry.
    #[error("a newer hub wrote the entry at offset {offset} of {log}: upgrade this node")]
    Newer { log: String, offset: u64 },
    /// The brokers do not deliver their entries.
    #[error(
        "{log} ends at offset {end}, but no entries arrived from offset {offset} on: are the brokers reachable?"
    )]
    Silent {
        log: String,
        /// Offset of the next entry.
        offset: u64,
        end: u64,
    },
    /// The leader met an entry or error after which it must not continue.
    #[error("{log}: {stop}")]
    Stopped {
        log: String,
        /// The entry or error.
        stop: Stop,
    },
    /// The log's client reported a permanent failure.
    #[error("{log}: {reason}")]
    Client {
        log: String,
        /// Description of the failure.
        reason: String,
    },
}

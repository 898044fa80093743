//! Errors of a node that cannot follow the log of its cluster.

use upesi_engine::StartError;
use upesi_journal::JournalError;
use upesi_kafka::{ConnectError, TopicError};
use upesi_offline::directory::{start_exit, store_exit};
use upesi_process::exit::Exit;
use upesi_replication::ReplicationError;
use upesi_tables::TablesError;

/// Reason why a node cannot follow its cluster's log.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A setting of the section is invalid.
    #[error("{0}")]
    Settings(String),
    /// The client cannot be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The topic does not exist, or is not suitable as a log.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The copy or the log is inconsistent.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// No broker answers.
    #[error("{log} cannot be reached: check cluster.brokers and cluster.topic{last}")]
    Unreachable {
        log: String,
        /// The reason of the last failed connection, as the end of the sentence.
        last: String,
    },
    /// A repair would use a copy that is not the longest.
    #[error(
        "node {node} reported record {seq}, and {store_seq} of the store: repair the log there, or run `upesi \
             cluster remove {node}` if its disk is lost"
    )]
    LongerCopy {
        /// The other node.
        node: u32,
        /// Its last record.
        seq: u64,
        /// The last record of its store.
        store_seq: u64,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store in the data directory cannot be used.
    #[error(transparent)]
    Store(#[from] TablesError),
}

impl ClusterError {
    /// The exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Settings(_) | Self::Connect(_) => Exit::Usage,
            Self::Topic(error) if error.is_of_brokers() => Exit::Unavailable,
            Self::Topic(_) => Exit::Usage,
            Self::Unreachable { .. } => Exit::Unavailable,
            Self::LongerCopy { .. } => Exit::Failure,
            Self::Start(error) => start_exit(error),
            Self::Store(error) => store_exit(error),
            Self::Replication(error) => match error {
                ReplicationError::Copy(JournalError::Damaged { .. }) => Exit::Data,
                ReplicationError::Copy(_) | ReplicationError::Stopped { .. } => Exit::InputOutput,
                ReplicationError::OtherCluster { .. }
                | ReplicationError::ForeignLog { .. }
                | ReplicationError::NotReplicated => Exit::Usage,
                ReplicationError::Silent { .. } => Exit::Unavailable,
                ReplicationError::Contended { .. } => Exit::Temporary,
                _ => Exit::Data,
            },
        }
    }
}

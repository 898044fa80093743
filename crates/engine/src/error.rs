//! Errors of the engine.

use std::io::ErrorKind;
use std::path::PathBuf;

use upesi_journal::{DataDirectoryError, JournalError};
use upesi_ledger::SnapshotError;
use upesi_tables::TablesError;
use upesi_types::{FspId, Timestamp};

use crate::follow::FollowError;

/// The reason why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataDirectoryError),
    /// The journal or a snapshot cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The archive cannot be used.
    #[error("the archive of finished transfers: {0}")]
    Archive(#[from] TablesError),
    /// A sound record cannot be decoded.
    #[error("record {seq} of the journal: {source}; was it written by another version of upesi?")]
    Record {
        /// Sequence of the record.
        seq: u64,
        source: SnapshotError,
    },
    /// A sound snapshot cannot be decoded.
    #[error("snapshot {seq}: {source}; was it written by another version of upesi?")]
    Snapshot {
        /// Last record of the snapshot.
        seq: u64,
        source: SnapshotError,
    },
    /// The archive lacks transfers that the journal no longer contains.
    #[error(
        "the archive in {0} lacks finished transfers that the journal no longer holds: restore it from a backup"
    )]
    ArchiveLost(PathBuf),
    /// The settings give the hub the name of a DFSP.
    #[error("hub.name is the name of the DFSP {0} of this scheme: choose another name for the hub")]
    HubName(FspId),
    /// The journal's range of time is exhausted.
    #[error(
        "the last record of the journal has the time {0}, the latest possible time, so no further record can follow: \
         set the machine's clock, then restore a backup"
    )]
    EndOfTime(Timestamp),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl From<FollowError> for StartError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Gone { seq, oldest } => Self::Journal(JournalError::NoSuchRecord { seq, oldest }),
            FollowError::Journal(error) => Self::Journal(error),
            FollowError::Record { seq, source } => Self::Record { seq, source },
        }
    }
}

impl StartError {
    /// Whether a full disk is the only problem.
    pub fn is_lack_of_room(&self) -> bool {
        match self {
            Self::Journal(JournalError::DiskFull { .. }) => true,
            Self::Archive(TablesError::Io { source, .. }) => {
                matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// The reason why a command was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full; the client should try again shortly.
    #[error("the hub is busy")]
    Busy,
    /// The disk is full. Queries are answered, but changes are rejected.
    #[error("the hub's disk is full")]
    Full,
    /// Earlier commands are not durable yet, because the brokers of the cluster's log do not acknowledge them.
    #[error("the hub waits for the brokers of its cluster")]
    HeldUp,
    /// The engine has stopped.
    #[error("the hub no longer accepts commands")]
    Stopped,
    /// The archive cannot be read.
    #[error("the archive of finished transfers cannot be read: {0}")]
    Archive(String),
    /// The journal cannot be read at the moment.
    #[error("the journal cannot be read: {0}")]
    Journal(String),
}

/// The reason why an engine stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// A shutdown was requested.
    #[error("shut down")]
    Shutdown,
    /// The journal failed. Nothing was acknowledged after that.
    #[error("the journal failed: {0}")]
    Journal(String),
    /// Another node leads the cluster. This node's decisions without a response are discarded.
    #[error("another node is now the leader: {0}")]
    Superseded(String),
    /// The leadership was handed over to another node on request.
    #[error("leadership handed over to another node")]
    HandedOver,
    /// The archivist failed.
    #[error("the archive failed: {0}")]
    Archive(String),
    /// This thread panicked because of a programmer error. Occurs only if panics do not end the process.
    #[error("the thread {0} panicked")]
    Panicked(&'static str),
}

impl StopReason {
    pub(crate) fn of_journal(error: JournalError) -> Self {
        if let JournalError::Superseded { by } = error {
            tracing::warn!(by, "another node is now the leader; this node no longer acknowledges requests");
            return Self::Superseded(by);
        }
        tracing::error!(%error, "the journal failed; the hub no longer acknowledges requests");
        Self::Journal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use upesi_tables::DatabaseKind;

    use super::*;

    #[test]
    fn full_disk_differs_from_other_failures_of_the_archive() {
        let of_archive = |kind: ErrorKind| {
            let source = Arc::new(kind.into());
            StartError::Archive(TablesError::Io {
                part: DatabaseKind::Archive,
                path: "archive".into(),
                source,
            })
        };
        for (kind, is_lack) in [
            (ErrorKind::StorageFull, true),
            (ErrorKind::QuotaExceeded, true),
            (ErrorKind::PermissionDenied, false),
        ] {
            assert_eq!(of_archive(kind).is_lack_of_room(), is_lack, "{kind}");
        }
        assert!(!StartError::Journal(JournalError::Poisoned).is_lack_of_room());
    }
}

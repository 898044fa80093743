//! What can go wrong.

use std::io::ErrorKind;
use std::path::PathBuf;

use upesi_journal::{DataDirectoryError, JournalError};
use upesi_ledger::SnapshotError;
use upesi_tables::TablesError;
use upesi_types::{FspId, Timestamp};

use crate::follow::FollowError;

/// Why an engine does not start.
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
    /// A sound record cannot be understood.
    #[error("record {seq} of the journal: {source}; was it written by another version of upesi?")]
    Record {
        /// Sequence of the record.
        seq: u64,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// A sound snapshot cannot be understood.
    #[error("snapshot {seq}: {source}; was it written by another version of upesi?")]
    Snapshot {
        /// Last record of the snapshot.
        seq: u64,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// The archive lacks transfers and the journal no longer holds them.
    #[error(
        "the archive in {0} lacks finished transfers that the journal no longer holds: restore it from a backup"
    )]
    ArchiveLost(PathBuf),
    /// The settings give the hub the name of a DFSP.
    #[error("hub.name is the name of the DFSP {0} of this scheme: choose another name for the hub")]
    HubName(FspId),
    /// The journal's time is used up.
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
    /// Whether room on the disk is all that is missing.
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

/// Why a command was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue is at its bound; try again shortly.
    #[error("the hub is busy")]
    Busy,
    /// There is no room on the disk; questions are answered, changes are not.
    #[error("the hub has no room on its disk")]
    Full,
    /// What was taken before is not durable yet: the brokers of the cluster's log do not acknowledge it.
    #[error("the hub waits for the brokers of its cluster")]
    HeldUp,
    /// The engine has stopped.
    #[error("the hub has stopped taking commands")]
    Stopped,
    /// The archive cannot be read.
    #[error("the archive of finished transfers cannot be read: {0}")]
    Archive(String),
    /// The journal cannot be read just now.
    #[error("the journal cannot be read: {0}")]
    Journal(String),
}

/// Why an engine stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// It was asked to.
    #[error("shut down")]
    Shutdown,
    /// The journal failed: nothing was acknowledged after that.
    #[error("the journal failed: {0}")]
    Journal(String),
    /// Another node leads the cluster. What this one had decided and not answered is forgotten.
    #[error("another node is now the leader: {0}")]
    Superseded(String),
    /// It was asked to let another node of the cluster lead.
    #[error("leadership handed over to another node")]
    HandedOver,
    /// The archivist failed.
    #[error("the archive failed: {0}")]
    Archive(String),
    /// The program contradicted itself on this thread. Only where a panic does not end the process.
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

    use upesi_tables::Part;

    use super::*;

    #[test]
    fn a_lack_of_room_is_told_from_other_failures_of_the_archive() {
        let of_archive = |kind: ErrorKind| {
            let source = Arc::new(kind.into());
            StartError::Archive(TablesError::Io { part: Part::Archive, path: "archive".into(), source })
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

//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lsm::Fault;
use upesi_journal::{Damage, JournalError};
use upesi_types::ErrorCode;

/// A store operation that failed. Cheap to clone, because everybody in a failed batch is told.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The writer's queue is full; nothing was stored.
    #[error("the store is busy: {updates_max} updates are waiting; try again")]
    Busy {
        /// The queue's limit.
        updates_max: usize,
    },
    /// The disk is nearly full; nothing was stored, and updates are taken again once there is room.
    #[error(
        "the disk of {path} has {free_bytes} bytes left, less than the {free_bytes_min} that the store keeps free: make \
         room; reads go on, and updates are taken again by themselves"
    )]
    DiskFull {
        /// The store's directory.
        path: PathBuf,
        /// Room that was found.
        free_bytes: u64,
        /// Room that has to be left.
        free_bytes_min: u64,
    },
    /// The store was closed; nothing was stored.
    #[error("the store is closed")]
    Closed,
    /// A key or a value exceeds its limit; nothing of the update was stored.
    #[error("a {what} of {bytes} bytes exceeds the store's limit of {bytes_max}; nothing was stored")]
    TooLarge {
        /// `key`, `value` or `update`.
        what: &'static str,
        /// The size found.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The files do not hold what was written to them.
    #[error(
        "the store in {path} is damaged ({detail}): keep that directory as it is, restore it from a backup, or start with \
         an empty one and import again"
    )]
    Damaged {
        /// The store's directory.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A value is stored whole, but its owner cannot read it.
    #[error("{what} is stored in a form that this version cannot read; use the version that wrote it")]
    Content {
        /// What it was to be.
        what: &'static str,
    },
    /// The directory was written by another version of the store.
    #[error(
        "the store in {path} has a format this version cannot read ({detail}); use the version that wrote it"
    )]
    Format {
        /// The store's directory.
        path: PathBuf,
        /// The format that was found.
        detail: String,
    },
    /// Another process has the store open.
    #[error("the store in {path} is in use by another process; stop that one first")]
    InUse {
        /// The store's directory.
        path: PathBuf,
    },
    /// The operating system refused a read or a write. If it was a write, the store takes no further updates.
    #[error("the store in {path} cannot be read or written: {source}; check permissions and free space")]
    Io {
        /// The store's directory.
        path: PathBuf,
        /// The operating system's answer.
        source: Arc<std::io::Error>,
    },
    /// An earlier write failed. What of it is on disk is unknown until the store is opened again.
    #[error("the store in {path} refuses updates after an earlier failure; restart the hub to reopen it")]
    Poisoned {
        /// The store's directory.
        path: PathBuf,
    },
}

impl StoreError {
    /// The FSPIOP code of a request that failed for this reason: 2003 when a repetition may succeed, 2001 otherwise.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Busy { .. } | Self::DiskFull { .. } | Self::Closed | Self::Poisoned { .. } => {
                ErrorCode::UNAVAILABLE
            }
            _ => ErrorCode::INTERNAL,
        }
    }

    /// A value that its owner cannot read; `what` it was to be.
    pub fn content(what: &'static str) -> Self {
        Self::Content { what }
    }

    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source: Arc::new(source) }
    }

    pub(crate) fn of_fjall(path: &Path, error: fjall::Error) -> Self {
        Self::of_fault(path, error.into())
    }

    pub(crate) fn of_fault(path: &Path, fault: Fault) -> Self {
        let path = path.to_path_buf();
        match fault {
            Fault::InUse => Self::InUse { path },
            Fault::Poisoned => Self::Poisoned { path },
            Fault::Io(source) => Self::Io { path, source: Arc::new(source) },
            Fault::Format(detail) => Self::Format { path, detail },
            Fault::Damaged(detail) => Self::Damaged { path, detail },
        }
    }

    pub(crate) fn of_journal(path: &Path, error: JournalError) -> Self {
        let path = path.to_path_buf();
        match error {
            JournalError::Io { source, .. } => Self::Io { path, source: Arc::new(source) },
            JournalError::Poisoned => Self::Poisoned { path },
            JournalError::Damaged { reason: Damage::UnknownVersion(_), .. } => {
                Self::Format { path, detail: error.to_string() }
            }
            JournalError::DiskFull { .. } => {
                let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Self::Io { path, source: Arc::new(source) }
            }
            other => Self::Damaged { path, detail: other.to_string() },
        }
    }
}

//! Errors of tables, and their remedies.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use upesi_journal::{Damage, JournalError};
use upesi_types::ErrorCode;

use crate::lsm::Fault;

/// The part of this crate that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// Finished transfers. They are derived from the journal, so an error here loses none.
    Archive,
    /// Parties, oracles and stored quotes.
    Store,
}

impl DatabaseKind {
    /// The remedy for damage.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Archive => {
                "it is derived data: stop the hub, delete that directory and start again; the archive is then rebuilt from \
                 the journal"
            }
            Self::Store => {
                "do not change that directory; restore it from a backup, or start with an empty one and import again"
            }
        }
    }

    /// The remedy for another version's format.
    const fn remedy_of_format(self) -> &'static str {
        match self {
            Self::Archive => {
                "use the version that wrote it, or delete that directory; the archive is then rebuilt from the journal"
            }
            Self::Store => "use the version that wrote it",
        }
    }
}

impl Display for DatabaseKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Archive => "archive",
            Self::Store => "store",
        })
    }
}

/// An operation on tables that failed. Cheap to clone, because every caller in a failed batch gets it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TablesError {
    /// The writer's queue is full; nothing was stored.
    #[error("the store is busy: {updates_max} updates are waiting; try again")]
    Busy {
        /// The queue's limit.
        updates_max: usize,
    },
    /// The disk is nearly full; nothing was stored. Updates are accepted again once there is space.
    #[error(
        "the disk of {path} has {free_bytes} bytes left, less than the {free_bytes_min} that the store keeps free: free \
         some space; reads continue, and updates will be accepted again automatically"
    )]
    DiskFull {
        /// The store's directory.
        path: PathBuf,
        /// Free space on the disk.
        free_bytes: u64,
        /// Minimum of free space.
        free_bytes_min: u64,
    },
    /// Another node of the cluster is the leader; nothing was stored.
    #[error("this node is no longer the leader{}; nothing was stored, retry", said(.by))]
    NotLeading {
        /// Address of that node; empty if it is not known.
        by: String,
    },
    /// The store was closed; nothing was stored.
    #[error("the store is closed")]
    Closed,
    /// A key, a value or an update exceeds its limit; nothing of the update or batch was stored.
    #[error(
        "a {what} of {bytes} bytes exceeds the {part}'s limit of {bytes_max}; nothing of the batch was stored"
    )]
    TooLarge {
        part: DatabaseKind,
        /// `key`, `value` or `update`.
        what: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
    /// A value is stored completely, but its owner cannot read it.
    #[error("{what} is stored in a form that this version cannot read; use the version that wrote it")]
    Content {
        /// Its expected content.
        what: &'static str,
    },
    /// The files do not contain the data that was written to them.
    #[error("the {part} in {path} is damaged ({detail}); {}", .part.remedy())]
    Damaged {
        part: DatabaseKind,
        path: PathBuf,
        /// Description of the damage.
        detail: String,
    },
    /// The directory was written by another version.
    #[error(
        "the {part} in {path} has a format this version cannot read ({detail}); {}", .part.remedy_of_format()
    )]
    Format {
        part: DatabaseKind,
        path: PathBuf,
        /// Description of the format.
        detail: String,
    },
    /// Another process has it open.
    #[error("the {part} in {path} is in use by another process; stop that one first")]
    InUse { part: DatabaseKind, path: PathBuf },
    /// The operating system reported an error of a read or a write. After a failed write, nothing more is written until
    /// the next opening.
    #[error("the {part} in {path} cannot be read or written: {source}; check permissions and free space")]
    Io { part: DatabaseKind, path: PathBuf, source: Arc<std::io::Error> },
    /// An earlier write failed. It is unknown until the next opening which part of it is on disk.
    #[error("the {part} in {path} refuses writes after an earlier failure; restart the hub to reopen it")]
    Poisoned { part: DatabaseKind, path: PathBuf },
}

impl TablesError {
    /// The FSPIOP code of a request that failed for this reason: 2003 if a repetition may succeed, 2001 otherwise.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Busy { .. }
            | Self::DiskFull { .. }
            | Self::NotLeading { .. }
            | Self::Closed
            | Self::Poisoned { .. } => ErrorCode::UNAVAILABLE,
            _ => ErrorCode::INTERNAL,
        }
    }

    /// A value that its owner cannot read; `what` is its expected content.
    pub fn content(what: &'static str) -> Self {
        Self::Content { what }
    }

    /// An error of the operating system.
    pub fn io(part: DatabaseKind, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { part, path: path.as_ref().to_path_buf(), source: Arc::new(source) }
    }

    /// Damage.
    pub(crate) fn damaged(part: DatabaseKind, path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged { part, path: path.to_path_buf(), detail: detail.into() }
    }

    /// A fault of the embedded store in the directory `path` of a part.
    pub(crate) fn of_fault(part: DatabaseKind, path: &Path, fault: Fault) -> Self {
        let path = path.to_path_buf();
        match fault {
            Fault::InUse => Self::InUse { part, path },
            Fault::Poisoned => Self::Poisoned { part, path },
            Fault::Io(source) => Self::Io { part, path, source: Arc::new(source) },
            Fault::Format(detail) => Self::Format { part, path, detail },
            Fault::Damaged(detail) => Self::Damaged { part, path, detail },
        }
    }

    /// An error of the store's log.
    pub(crate) fn of_journal(path: &Path, error: JournalError) -> Self {
        let (part, path) = (DatabaseKind::Store, path.to_path_buf());
        match error {
            JournalError::Io { source, .. } => Self::Io { part, path, source: Arc::new(source) },
            JournalError::Poisoned => Self::Poisoned { part, path },
            JournalError::Superseded { by } => Self::NotLeading { by },
            JournalError::Damaged { reason: Damage::UnknownVersion(_), .. } => {
                Self::Format { part, path, detail: error.to_string() }
            }
            JournalError::DiskFull { .. } => {
                let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Self::Io { part, path, source: Arc::new(source) }
            }
            other => Self::Damaged { part, path, detail: other.to_string() },
        }
    }
}

/// Names the leader, if it is known.
fn said(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" ({by} is)") }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn error_names_the_part_its_directory_and_the_remedy() {
        let damaged = || Fault::Damaged("a list".to_owned());
        let format = || Fault::Format("version 9".to_owned());
        let refused = || Fault::Io(Error::from(ErrorKind::PermissionDenied));
        for (part, fault, texts) in [
            (
                DatabaseKind::Archive,
                damaged(),
                [
                    "the archive in /data is damaged (a list)",
                    "delete that directory",
                    "rebuilt from the journal",
                ],
            ),
            (
                DatabaseKind::Store,
                damaged(),
                [
                    "the store in /data is damaged (a list)",
                    "do not change that directory",
                    "restore it from a backup",
                ],
            ),
            (
                DatabaseKind::Archive,
                format(),
                ["the archive in /data has a format", "(version 9)", "or delete that directory"],
            ),
            (
                DatabaseKind::Store,
                format(),
                ["the store in /data has a format", "(version 9)", "; use the version that wrote it"],
            ),
            (
                DatabaseKind::Archive,
                refused(),
                ["the archive in /data cannot be", "permission denied", "free space"],
            ),
            (
                DatabaseKind::Store,
                Fault::InUse,
                ["the store in /data", "in use by another process", "stop that one"],
            ),
            (
                DatabaseKind::Archive,
                Fault::Poisoned,
                ["the archive in /data", "an earlier failure", "restart the hub"],
            ),
        ] {
            let said = TablesError::of_fault(part, Path::new("/data"), fault).to_string();
            assert!(texts.iter().all(|text| said.contains(text)), "{said}");
        }
        let store = TablesError::of_fault(DatabaseKind::Store, Path::new("/data"), damaged()).to_string();
        assert!(!store.contains("delete"), "a store has no other copy: {store}");
    }
}

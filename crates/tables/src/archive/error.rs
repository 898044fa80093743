//! What can go wrong, and what to do about it.

use std::path::PathBuf;

/// An archive operation that failed. The archive is derived from the journal, so no error here loses a transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The files do not hold what was written to them.
    #[error(
        "the archive in {path} is damaged ({detail}); it is derived data: stop the hub, delete that directory and start \
         again, and the archive is rebuilt from the journal"
    )]
    Damaged {
        /// The archive's directory.
        path: PathBuf,
        /// What the store found.
        detail: String,
    },
    /// The directory was written by another version of the store.
    #[error(
        "the archive in {path} has a format this version cannot read ({detail}); use the version that wrote it, or delete \
         that directory and the archive is rebuilt from the journal"
    )]
    Format {
        /// The archive's directory.
        path: PathBuf,
        /// The format that was found.
        detail: String,
    },
    /// Another process has the archive open.
    #[error("the archive in {path} is in use by another process; stop that one first")]
    InUse {
        /// The archive's directory.
        path: PathBuf,
    },
    /// The operating system refused a read or a write.
    #[error("the archive in {path} cannot be read or written: {source}; check permissions and free space")]
    Io {
        /// The archive's directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// An earlier write failed, so what the store has on disk is unknown until it is opened again.
    #[error("the archive in {path} refuses writes after an earlier failure; restart the hub to reopen it")]
    Poisoned {
        /// The archive's directory.
        path: PathBuf,
    },
    /// A value exceeds [`crate::archive::VALUE_BYTES_MAX`]; nothing of the batch was stored.
    #[error(
        "a value of {bytes} bytes exceeds the archive's limit of {bytes_max}; nothing of the batch was stored"
    )]
    ValueTooLarge {
        /// The value's size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

//! Errors of the journal and the snapshots.

use std::io;

use crate::disk::says_full;

/// The reason why an operation on the journal or on the snapshots failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system reported an error. A writer that met it is poisoned.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// The attempted operation: `read`, `write`, `sync` and so on.
        operation: &'static str,
        /// The file, relative to the data directory.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk is full. Nothing of the batch was acknowledged and the writer is sound: the same batch can be appended
    /// again when there is space.
    #[error(
        "no space on the disk for {file}: free some space or enlarge the volume; the write can then be repeated"
    )]
    DiskFull {
        /// The file, relative to the data directory.
        file: String,
    },
    /// An earlier disk failure stopped the writer. Nothing was attempted.
    #[error("the journal stopped at an earlier disk failure; check the disk, then restart")]
    Poisoned,
    /// Another node now appends to this log. Nothing of the batch was recorded.
    #[error("the hub {by} appends to this journal now; nothing was recorded here: send commands there")]
    Superseded {
        /// The name of that node.
        by: String,
    },
    /// A file does not contain the data that was written. Nothing was changed.
    #[error(
        "{file} is damaged at byte {offset}: {reason}; nothing was overwritten, restore the file from a backup"
    )]
    Damaged {
        /// The file, relative to the data directory.
        file: String,
        /// Offset of the damage, in bytes from the start of the file.
        offset: u64,
        reason: Damage,
    },
    /// The journal does not contain the record: it is not written yet, or retention deleted its segment.
    #[error("the journal holds no record {seq}; its oldest is {oldest}")]
    NoSuchRecord {
        /// The requested sequence number.
        seq: u64,
        /// The oldest sequence number in the journal; 0 if it is empty.
        oldest: u64,
    },
}

/// The kind of damage of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header of a segment or a snapshot is unreadable or contradicts the file's name.
    #[error("its file header is not valid")]
    FileHeader,
    /// The file has a format version that this software cannot read.
    #[error("it has format version {0}, which this version cannot read")]
    UnknownVersion(u32),
    /// The file's length differs from the length in its header.
    #[error("it is {found} bytes long instead of {expected}")]
    Length {
        /// The length according to the header, in bytes.
        expected: u64,
        /// The length of the file, in bytes.
        found: u64,
    },
    /// The data at the position of a frame header is not a frame header.
    #[error("the frame header is not valid")]
    FrameHeader,
    /// The content of a frame or a snapshot does not match its checksum.
    #[error("the checksum does not match")]
    Checksum,
    /// A frame does not continue its predecessor's chain.
    #[error("the chain to the preceding frame is broken")]
    Chain,
    /// The file belongs to another journal.
    #[error("it belongs to another journal")]
    Foreign,
    /// A frame has the wrong sequence number.
    #[error("record {expected} is expected, {found} found")]
    Sequence {
        /// The sequence number that is expected here.
        expected: u64,
        found: u64,
    },
    /// Record times do not strictly increase.
    #[error("a record is not later than its predecessor")]
    Time,
    /// The checksum is correct, but the content is invalid.
    #[error("the frame's content is malformed")]
    Malformed,
    /// There is data where only zeros are allowed.
    #[error("there is data after the end")]
    DataAfterEnd,
    /// A frame is missing or unreadable although a later frame exists, so the lost frame had been acknowledged.
    #[error("a frame is unreadable although later ones follow it")]
    FrameLost,
    /// The file that should contain this record is missing.
    #[error("record {0} is missing")]
    Missing(u64),
}

impl JournalError {
    /// An error of a failed operation: [`Self::DiskFull`] if the disk is full, otherwise [`Self::Io`].
    pub fn io(operation: &'static str, file: &str, source: io::Error) -> Self {
        if says_full(&source) {
            Self::DiskFull { file: file.to_owned() }
        } else {
            Self::Io { operation, file: file.to_owned(), source }
        }
    }

    /// An error of a failed sync. It is never treated as a full disk, because the state of the data on disk is then
    /// unknown.
    pub(crate) fn sync(file: &str, source: io::Error) -> Self {
        Self::Io { operation: "sync", file: file.to_owned(), source }
    }

    /// Whether a file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn damaged(file: &str, offset: u64, reason: Damage) -> Self {
        Self::Damaged { file: file.to_owned(), offset, reason }
    }
}

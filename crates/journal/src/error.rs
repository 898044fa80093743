//! What can go wrong with the journal and the snapshots.

use std::io;

use crate::disk::says_full;

/// Why an operation on the journal or on the snapshots failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system reported a failure. A writer that met one is poisoned.
    #[error("cannot {operation} {file}: {source}")]
    Io {
        /// What was attempted: `read`, `write`, `sync` and so on.
        operation: &'static str,
        /// The file, relative to the data directory.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room. Nothing of the batch was acknowledged and the writer is sound: the same batch can be appended
    /// again once there is room.
    #[error(
        "no room on the disk for {file}: free some space or enlarge the volume; the write can then be repeated"
    )]
    DiskFull {
        /// The file, relative to the data directory.
        file: String,
    },
    /// An earlier disk failure stopped the writer. Nothing was tried.
    #[error("the journal stopped at an earlier disk failure; check the disk, then restart")]
    Poisoned,
    /// Another node appends to this log now. Nothing of the batch was recorded.
    #[error("the hub {by} appends to this journal now; nothing was recorded here: send commands there")]
    Superseded {
        /// That node's name.
        by: String,
    },
    /// A file does not hold what was written. Nothing was changed.
    #[error(
        "{file} is damaged at byte {offset}: {reason}; nothing was overwritten, restore the file from a backup"
    )]
    Damaged {
        /// The file, relative to the data directory.
        file: String,
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// What is wrong there.
        reason: Damage,
    },
    /// The journal does not hold the record: it is not written yet, or its segment was deleted by retention.
    #[error("the journal holds no record {seq}; its oldest is {oldest}")]
    NoSuchRecord {
        /// The sequence number asked for.
        seq: u64,
        /// The oldest sequence number present; 0 when there is none.
        oldest: u64,
    },
}

/// What is wrong with a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The header of a segment or a snapshot is unreadable, or contradicts the file's name.
    #[error("its file header is not valid")]
    FileHeader,
    /// The file was written by a version of this software with another format.
    #[error("it has format version {0}, which this version cannot read")]
    UnknownVersion(u32),
    /// The file is not as long as its header says.
    #[error("it is {found} bytes long instead of {expected}")]
    Length {
        /// The length according to the header, in bytes.
        expected: u64,
        /// The length of the file, in bytes.
        found: u64,
    },
    /// There is something else where a frame header must be.
    #[error("there is no valid frame header")]
    FrameHeader,
    /// The content of a frame or a snapshot does not match its checksum.
    #[error("the checksum does not match")]
    Checksum,
    /// A frame does not continue its predecessor.
    #[error("the chain to the preceding frame is broken")]
    Chain,
    /// The file belongs to another journal.
    #[error("it belongs to another journal")]
    Foreign,
    /// A frame has the wrong sequence number.
    #[error("record {expected} is expected, {found} found")]
    Sequence {
        /// The sequence number that must come here.
        expected: u64,
        /// The one that is there.
        found: u64,
    },
    /// Times do not strictly increase.
    #[error("a record is not later than its predecessor")]
    Time,
    /// The checksum is right, but the content makes no sense.
    #[error("the frame's content is malformed")]
    Malformed,
    /// There is data where only zeros are possible.
    #[error("there is data after the end")]
    DataAfterEnd,
    /// A frame is missing or unreadable, although a later one was written, so it had been acknowledged.
    #[error("a frame is unreadable although later ones follow it")]
    FrameLost,
    /// The file that must hold this record is missing.
    #[error("record {0} is missing")]
    Missing(u64),
}

impl JournalError {
    /// A failed operation; no room is told from breakage.
    pub fn io(operation: &'static str, file: &str, source: io::Error) -> Self {
        if says_full(&source) {
            Self::DiskFull { file: file.to_owned() }
        } else {
            Self::Io { operation, file: file.to_owned(), source }
        }
    }

    /// A failed sync. Never taken for a mere lack of room: what the system kept of the data is then unknown.
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

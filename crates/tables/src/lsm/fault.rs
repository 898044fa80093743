//! Errors of an embedded store that its owners distinguish.

use std::io::{Error, ErrorKind};

/// A failed operation of the embedded store.
#[derive(Debug)]
pub enum Fault {
    /// Another process has it open.
    InUse,
    /// The store rejects writes after an earlier failure.
    Poisoned,
    Io(Error),
    /// Another version wrote it.
    Format(String),
    /// Its data is not as it was written.
    Damaged(String),
}

impl From<fjall::Error> for Fault {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Locked => Self::InUse,
            fjall::Error::Poisoned => Self::Poisoned,
            fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => Self::Io(source),
            fjall::Error::InvalidVersion(_) => Self::Format(error.to_string()),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl Fault {
    /// At opening, a file that is missing, unexpected or too short is damage rather than an error of the system.
    pub(crate) fn at_opening(self) -> Self {
        use ErrorKind::{AlreadyExists, InvalidData, IsADirectory, NotADirectory, NotFound, UnexpectedEof};
        match self {
            Self::Io(source) => match source.kind() {
                AlreadyExists | InvalidData | IsADirectory | NotADirectory | NotFound | UnexpectedEof => {
                    Self::Damaged(source.to_string())
                }
                _ => Self::Io(source),
            },
            other => other,
        }
    }
}

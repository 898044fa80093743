//! Recorded streams: the requests about transfers that a hub took, or that one was made up to take, in order.
//!
//! A stream is what an isolated stage is fed with. It is read from a file
//! ([`Stream::read`]), taken from a hub's journal ([`Stream::record`]) or made up ([`Stream::generate`]).

pub(super) mod decode;
mod file;
mod generate;
mod record;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use upesi_types::{Timestamp, TransferId};

pub use file::FORMAT_VERSION;
pub use generate::{BODY_BYTES_MIN, GenerateOptions};
pub use record::{RecordOptions, Skipped};

/// Most messages of a stream. A million of the usual size take 1.3 GB of memory.
pub const MESSAGES_MAX: usize = 10_000_000;
/// Most DFSPs of a stream.
pub const DFSPS_MAX: usize = 1_000;

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// `POST /transfers`.
    Prepare,
    /// `PUT /transfers/{ID}` with a fulfilment.
    Fulfil,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: MessageKind,
    pub time: Timestamp,
    pub id: TransferId,
    /// Header block: `name: value\r\n` lines, names in lower case, without hop-by-hop headers.
    pub headers: Bytes,
    pub body: Bytes,
}

/// What a stream tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    pub origin: String,
    /// The DFSPs that take part, in the order in which a hub is to register them.
    pub dfsps: Vec<String>,
    pub currencies: Vec<String>,
    pub prepares: u64,
    pub fulfils: u64,
}

/// A stream in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    pub header: StreamHeader,
    pub messages: Vec<Message>,
}

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} is no sound recorded stream: {reason}; record or generate it again")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} has stream format {found}; this upesi reads up to {FORMAT_VERSION}")]
    Version {
        /// Which file.
        path: PathBuf,
        found: u32,
    },
    /// A message cannot be understood.
    #[error("message {index} of the stream cannot be understood: {reason}")]
    Message { index: usize, reason: String },
    #[error("the stream holds {found} {what}, and {needed} are needed")]
    TooShort { what: &'static str, found: usize, needed: usize },
    #[error(transparent)]
    Journal(#[from] upesi_engine::FollowError),
    #[error(transparent)]
    Data(#[from] upesi_journal::DataDirectoryError),
    #[error("{0}")]
    Options(&'static str),
}

impl StreamError {
    /// The file that does not exist, if that is what is wrong.
    pub fn missing(&self) -> Option<&PathBuf> {
        match self {
            Self::Io { path, source } if source.kind() == std::io::ErrorKind::NotFound => Some(path),
            _ => None,
        }
    }
}

impl Stream {
    /// Recounts what the header says.
    fn recount(&mut self) {
        let prepares = self.messages.iter().filter(|message| message.kind == MessageKind::Prepare).count();
        self.header.prepares = prepares as u64;
        self.header.fulfils = (self.messages.len() - prepares) as u64;
    }

    /// Adds what was recorded of another hub behind what there is.
    pub(super) fn append(&mut self, other: Self) {
        if self.header.origin.is_empty() {
            self.header.origin = other.header.origin;
        }
        for (names, more) in [
            (&mut self.header.dfsps, other.header.dfsps),
            (&mut self.header.currencies, other.header.currencies),
        ] {
            for name in more {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        self.messages.extend(other.messages);
        self.recount();
    }

    /// The messages of one kind, in order.
    pub fn of_kind(&self, kind: MessageKind) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

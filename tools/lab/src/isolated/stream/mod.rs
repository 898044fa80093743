//! Recorded streams: the requests about transfers that a hub took, or that one was made up to take, in order.
//!
//! A stream is what an isolated stage is fed with. It is read from a file
//! ([`Stream::read`]), taken from a hub's journal ([`Stream::record`]) or made up ([`Stream::generate`]).

mod file;
mod generate;
mod record;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use upesi_engine::Payload;
use upesi_fspiop::body::{TransferState, parse_fulfil, parse_prepare};
use upesi_fspiop::fingerprint;
use upesi_fspiop::headers::Block;
use upesi_ledger::Command;
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, Prepare};
use upesi_types::{FspId, Timestamp, TransferId};

pub use file::FORMAT_VERSION;
pub use generate::{BODY_BYTES_MIN, GenerateOptions};
pub use record::{RecordOptions, Skipped};

/// Most messages of a stream. A million of the usual size take 1.3 GB of memory.
pub const MESSAGES_MAX: usize = 10_000_000;
pub const DFSPS_MAX: usize = 1_000;

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

    pub fn of_kind(&self, kind: MessageKind) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// A request as the engine takes it.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// What it asks for.
    pub command: Command,
    pub payload: Payload,
}

impl Stream {
    /// The first `count` messages of a kind as commands.
    pub(crate) fn decode(&self, kind: MessageKind, count: usize) -> Result<Vec<Ready>, StreamError> {
        let found = self.of_kind(kind).count();
        if found < count {
            let what = match kind {
                MessageKind::Prepare => "prepares",
                MessageKind::Fulfil => "fulfils",
            };
            return Err(StreamError::TooShort { what, found, needed: count });
        }
        all_ready(self.of_kind(kind).take(count))
    }

    /// The first `count` fulfils as commands, behind the prepares of their transfers.
    pub(crate) fn decode_fulfilled(&self, count: usize) -> Result<(Vec<Ready>, Vec<Ready>), StreamError> {
        let fulfils = self.decode(MessageKind::Fulfil, count)?;
        let ids: HashSet<_> =
            self.of_kind(MessageKind::Fulfil).take(count).map(|message| message.id).collect();
        let prepares = self.of_kind(MessageKind::Prepare).filter(|message| ids.contains(&message.id));
        let prepares = all_ready(prepares)?;
        if prepares.len() < count {
            let found = prepares.len();
            return Err(StreamError::TooShort { what: "prepares of its fulfils", found, needed: count });
        }
        Ok((prepares, fulfils))
    }
}

fn all_ready<'stream>(messages: impl Iterator<Item = &'stream Message>) -> Result<Vec<Ready>, StreamError> {
    let ready = |(index, message)| ready(message).map_err(|reason| StreamError::Message { index, reason });
    messages.enumerate().map(ready).collect()
}

fn ready(message: &Message) -> Result<Ready, String> {
    let Message { kind, headers, body, .. } = message;
    let source = name_of(headers, "fspiop-source").ok_or("it has no FSPIOP-Source")?;
    let command = match kind {
        MessageKind::Prepare => prepare(source, name_of(headers, "fspiop-destination"), body)?,
        MessageKind::Fulfil => fulfil(message, source, name_of(headers, "fspiop-destination"))?,
    };
    Ok(Ready { command, payload: Payload { headers: headers.clone(), body: body.clone() } })
}

fn name_of(headers: &[u8], header: &str) -> Option<FspId> {
    FspId::parse(str::from_utf8(Block(headers).find(header)?).ok()?)
}

fn prepare(source: FspId, destination: Option<FspId>, body: &[u8]) -> Result<Command, String> {
    let message = parse_prepare(body).map_err(|error| error.to_string())?;
    let amount = message.amount.map_err(|refused| format!("the amount {} is refused", refused.text))?;
    Ok(Command::Prepare(Prepare {
        id: message.transfer_id,
        source,
        destination,
        payer: message.payer,
        payee: message.payee,
        amount: Ok(amount),
        currency: message.currency,
        condition: message.condition,
        expires_at: message.expiration,
        fingerprint: fingerprint(body),
        extensions: message.extensions.map(String::into_boxed_str),
    }))
}

fn fulfil(message: &Message, source: FspId, destination: Option<FspId>) -> Result<Command, String> {
    let parsed = parse_fulfil(&message.body).map_err(|error| error.to_string())?;
    Ok(Command::Fulfil(Fulfil {
        transfer: message.id.into(),
        source,
        destination,
        state: match parsed.transfer_state {
            TransferState::Received => FulfilState::Received,
            TransferState::Reserved => FulfilState::Reserved,
            TransferState::Committed => FulfilState::Committed,
            TransferState::Aborted => FulfilState::Aborted,
        },
        may_reserve: true,
        fulfilment: parsed.fulfilment.map_or(Fulfilment::Missing, Fulfilment::Preimage),
        fingerprint: fingerprint(&message.body),
        extensions: parsed.extensions.map(String::into_boxed_str),
    }))
}

//! The file of a recorded stream.
//!
//! All numbers are little-endian. The file starts with `UPSTREAM`, the format's version (u32) and the length (u32) of
//! the header, a JSON object, which follows. Then come the messages, and at the end the CRC32C (u32) of everything
//! before. A message consists of these fields, in this order:
//!
//! - its kind: 1 for a prepare, 2 for a fulfil
//! - the time of its acceptance in nanoseconds since 1970 (i64)
//! - the 17 bytes of its transfer's id
//! - the lengths of headers and body (u32 each)
//! - the headers and the body

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, Bytes, TryGetError};
use crc32c::{crc32c, crc32c_append};
use upesi_engine::{DecodedRecord, follow_from_oldest};
use upesi_fspiop::body::{parse_fulfil, parse_prepare};
use upesi_journal::{DataDirectory, EmbeddedLog};
use upesi_ledger::{Event, Record, Transfer, TransferState};
use upesi_types::{Timestamp, TransferId};

use super::{EXPIRES_MS, MESSAGES_MAX, Message, MessageKind, Stream, StreamError, StreamHeader};

/// Version of the file format. Files of another version are rejected.
pub const FORMAT_VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"UPSTREAM";

impl Stream {
    /// Writes the file. Fails with the system's error.
    pub fn write(&self, path: &Path) -> Result<(), StreamError> {
        let failed = |source| StreamError::Io { path: path.to_owned(), source };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        self.write_to(&mut out).and_then(|()| out.flush()).map_err(failed)
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        // Cannot fail: the header consists of plain values.
        let header = serde_json::to_vec(&self.header).unwrap_or_default();
        let mut sum = 0;
        let mut put = |bytes: &[u8]| {
            sum = crc32c_append(sum, bytes);
            out.write_all(bytes)
        };
        put(MAGIC)?;
        put(&FORMAT_VERSION.to_le_bytes())?;
        put(&length(&header)?.to_le_bytes())?;
        put(&header)?;
        for message in &self.messages {
            put(&[1 + message.kind as u8])?;
            put(&message.time.as_ns().to_le_bytes())?;
            put(&message.id.to_bytes())?;
            put(&length(&message.headers)?.to_le_bytes())?;
            put(&length(&message.body)?.to_le_bytes())?;
            put(&message.headers)?;
            put(&message.body)?;
        }
        out.write_all(&sum.to_le_bytes())
    }

    /// Reads and checks a whole file. Fails if it cannot be read, is damaged, or has another version.
    pub fn read(path: &Path) -> Result<Self, StreamError> {
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|source| StreamError::Io { path: path.to_owned(), source })?;
        parse(Bytes::from(bytes)).map_err(|fault| match fault {
            Fault::Version(found) => StreamError::Version { path: path.to_owned(), found },
            Fault::Damage(reason) => StreamError::Damaged { path: path.to_owned(), reason },
        })
    }
}

enum Fault {
    Version(u32),
    Damage(String),
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Damage(reason.to_owned())
    }
}

fn length(bytes: &[u8]) -> std::io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| std::io::Error::other("too long for a recorded stream"))
}

/// Takes this many bytes from the start.
fn take(rest: &mut Bytes, count: usize) -> Result<Bytes, Fault> {
    if count > rest.len() { Err("it is truncated".into()) } else { Ok(rest.split_to(count)) }
}

impl From<TryGetError> for Fault {
    fn from(_: TryGetError) -> Self {
        "it is truncated".into()
    }
}

fn parse(bytes: Bytes) -> Result<Stream, Fault> {
    let mut rest = bytes.clone();
    if take(&mut rest, MAGIC.len())? != MAGIC[..] {
        return Err("it does not begin with UPSTREAM".into());
    }
    let version = rest.try_get_u32_le()?;
    if version != FORMAT_VERSION {
        return Err(Fault::Version(version));
    }
    let sum = rest.split_off(rest.len().saturating_sub(4));
    if sum != crc32c(&bytes[..bytes.len() - sum.len()]).to_le_bytes()[..] {
        return Err("its checksum is wrong".into());
    }
    let header_bytes = rest.try_get_u32_le()? as usize;
    let header: StreamHeader = serde_json::from_slice(&take(&mut rest, header_bytes)?)
        .map_err(|error| Fault::Damage(error.to_string()))?;
    let mut messages = Vec::new();
    while !rest.is_empty() && messages.len() < MESSAGES_MAX {
        messages.push(parse_message(&mut rest)?);
    }
    if messages.len() as u64 != header.prepares.saturating_add(header.fulfils) || !rest.is_empty() {
        return Err("its messages do not agree with its header".into());
    }
    Ok(Stream { header, messages })
}

fn parse_message(rest: &mut Bytes) -> Result<Message, Fault> {
    let kind = match rest.try_get_u8()? {
        1 => MessageKind::Prepare,
        2 => MessageKind::Fulfil,
        _ => return Err("a message has an unknown kind".into()),
    };
    let time = Timestamp::from_ns(rest.try_get_i64_le()?);
    let mut id = [0; 17];
    rest.try_copy_to_slice(&mut id)?;
    let id = TransferId::from_bytes(&id).ok_or("a message has a malformed transfer id")?;
    let (headers_bytes, body_bytes) = (rest.try_get_u32_le()? as usize, rest.try_get_u32_le()? as usize);
    let (headers, body) = (take(rest, headers_bytes)?, take(rest, body_bytes)?);
    Ok(Message { kind, time, id, headers, body })
}

// Streams that are extracted from a hub's journal.

/// The source of a recording, and its limit.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The hub's data directory. A running hub may be using it: everything written so far is recorded.
    pub data: PathBuf,
    /// Maximum number of messages; the rest of the journal is left out.
    pub messages_max: usize,
    pub fulfils: bool,
}

/// Numbers of skipped entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedCounts {
    /// Rejected prepares, aborts and operators' commands, which cannot be replayed.
    pub others: u64,
    /// Prepares and fulfils whose request is not in the journal, or whose expiration cannot be changed.
    pub unreadable: u64,
    /// Fulfils of transfers that were prepared before the start of the recording.
    pub orphans: u64,
}

struct Recorder {
    stream: Stream,
    prepared: HashSet<TransferId>,
    skipped: SkippedCounts,
    first_expiry: Option<Timestamp>,
    with_fulfils: bool,
}

impl Stream {
    /// Extracts the accepted prepares, and the fulfils that committed them, from a journal. Aborts and rejected
    /// requests are left out, so that a replay reserves and commits everything.
    ///
    /// Two parts of the bodies are changed, because a replay comes later. Expirations are moved to 2099 with the same
    /// distances, and `completedTimestamp` is removed from fulfils. Signatures of such bodies would no longer be valid.
    /// Fails if the directory or its journal cannot be read.
    pub fn record(options: &RecordOptions) -> Result<(Self, SkippedCounts), StreamError> {
        if !(1..=MESSAGES_MAX).contains(&options.messages_max) {
            return Err(StreamError::Options("record 1 to 10,000,000 messages"));
        }
        let directory = DataDirectory::open_for_reading(&options.data)?;
        let disk = directory.disk();
        let mut records = follow_from_oldest(&EmbeddedLog::for_reading(&disk))?;
        let header = StreamHeader {
            origin: format!("recorded from {}", options.data.display()),
            ..StreamHeader::default()
        };
        let mut recorder = Recorder {
            stream: Self { header, messages: Vec::new() },
            prepared: HashSet::new(),
            skipped: SkippedCounts::default(),
            first_expiry: None,
            with_fulfils: options.fulfils,
        };
        while recorder.stream.messages.len() < options.messages_max {
            let Some(DecodedRecord { time, record, .. }) = records.next()? else { break };
            recorder.take(time, &record);
        }
        let Recorder { mut stream, skipped, .. } = recorder;
        stream.recount();
        Ok((stream, skipped))
    }
}

impl Recorder {
    fn take(&mut self, time: Timestamp, record: &Record<'_>) {
        for event in &record.events {
            match event {
                Event::TransferPrepared(transfer) if transfer.state == TransferState::Reserved => {
                    self.prepare(time, transfer, record);
                }
                Event::TransferCommitted { id, .. } if self.with_fulfils => self.fulfil(time, *id, record),
                _ => self.skipped.others += 1,
            }
        }
    }

    fn prepare(&mut self, time: Timestamp, transfer: &Transfer, record: &Record<'_>) {
        let first = *self.first_expiry.get_or_insert(transfer.expires_at);
        let expiration = Timestamp::from_ms(EXPIRES_MS).plus_ms(transfer.expires_at.ms_since(first).max(0));
        let Some(body) = lasting(record.payload.body, expiration) else {
            self.skipped.unreadable += 1;
            return;
        };
        // From the body, since the start of the journal may be later than the creation of these participants.
        if let Ok(message) = parse_prepare(&body) {
            for name in [message.payer, message.payee] {
                add(&mut self.stream.header.dfsps, name.as_str());
            }
            add(&mut self.stream.header.currencies, message.currency.as_str());
        }
        self.prepared.insert(transfer.id);
        self.push(MessageKind::Prepare, time, transfer.id, record, body);
    }

    fn fulfil(&mut self, time: Timestamp, id: TransferId, record: &Record<'_>) {
        if !self.prepared.contains(&id) {
            self.skipped.orphans += 1;
            return;
        }
        match undated(record.payload.body) {
            Some(body) => self.push(MessageKind::Fulfil, time, id, record, body),
            None => self.skipped.unreadable += 1,
        }
    }

    fn push(&mut self, kind: MessageKind, time: Timestamp, id: TransferId, record: &Record<'_>, body: Bytes) {
        let headers = Bytes::copy_from_slice(record.payload.headers);
        self.stream.messages.push(Message { kind, time, id, headers, body });
    }
}

pub(super) fn add(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|present| present == text) {
        list.push(text.to_owned());
    }
}

/// The body of a prepare with another expiration; `None` if it cannot be replaced byte for byte.
pub(super) fn lasting(body: &[u8], expiration: Timestamp) -> Option<Bytes> {
    let text = str::from_utf8(body).ok()?;
    let (before, rest) = text.split_once("\"expiration\"")?;
    let colon = rest.find('"')?;
    let (gap, value) = rest.split_at(colon + 1);
    let after = &value[value.find('"')?..];
    let changed = Bytes::from(format!("{before}\"expiration\"{gap}{expiration}{after}"));
    let is_right = parse_prepare(&changed).is_ok_and(|message| message.expiration == expiration);
    is_right.then_some(changed)
}

/// The body of a fulfil without the completion time, because hubs reject old completion times.
pub(super) fn undated(body: &[u8]) -> Option<Bytes> {
    let parsed = parse_fulfil(body).ok()?;
    if parsed.completed_timestamp.is_none() {
        return Some(Bytes::copy_from_slice(body));
    }
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    members.remove("completedTimestamp");
    serde_json::to_vec(&members).ok().map(Bytes::from)
}

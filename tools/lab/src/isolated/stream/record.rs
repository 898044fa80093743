//! Streams taken from a hub's journal.

use std::collections::HashSet;
use std::path::PathBuf;

use bytes::Bytes;
use upesi_engine::{Followed, follow_from_oldest};
use upesi_fspiop::body::{parse_fulfil, parse_prepare};
use upesi_journal::{DataDirectory, EmbeddedLog};
use upesi_ledger::{Event, Record, Transfer, TransferState};
use upesi_types::{Timestamp, TransferId};

use super::generate::EXPIRES_MS;
use super::{MESSAGES_MAX, Message, MessageKind, Stream, StreamError, StreamHeader};

#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The hub's data directory. A running hub may be using it: what it has written so far is recorded.
    pub data: PathBuf,
    /// Messages at most; the rest of the journal is left out.
    pub messages_max: usize,
    pub fulfils: bool,
}

/// What was recorded, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Refused prepares, aborts and operators' commands: there is nothing of theirs to replay.
    pub others: u64,
    /// Prepares and fulfils whose request the journal does not hold, or that cannot be made to last.
    pub unreadable: u64,
    /// Fulfils of transfers that were prepared before the recording begins.
    pub orphans: u64,
}

struct Recorder {
    stream: Stream,
    prepared: HashSet<TransferId>,
    skipped: Skipped,
    first_expiry: Option<Timestamp>,
    with_fulfils: bool,
}

impl Stream {
    /// Takes the accepted prepares, and the fulfils that committed them, out of a journal. Aborts and refused
    /// requests are left out, so that a replay reserves and commits everything.
    ///
    /// Two things of the bodies are changed, because a replay comes later: expirations are moved to 2099, keeping
    /// their distances, and `completedTimestamp` is taken off fulfils. Signatures over such bodies would no longer
    /// hold. Fails when the directory or its journal cannot be read.
    pub fn record(options: &RecordOptions) -> Result<(Self, Skipped), StreamError> {
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
            skipped: Skipped::default(),
            first_expiry: None,
            with_fulfils: options.fulfils,
        };
        while recorder.stream.messages.len() < options.messages_max {
            let Some(Followed { time, record, .. }) = records.next()? else { break };
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
        // From the body, since the journal may have begun after these participants joined.
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

fn add(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|present| present == text) {
        list.push(text.to_owned());
    }
}

/// The body of a prepare with another expiration; `None` where that cannot be done byte for byte.
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

/// The body of a fulfil without the instant of completion, which hubs refuse once it is minutes old.
pub(super) fn undated(body: &[u8]) -> Option<Bytes> {
    let parsed = parse_fulfil(body).ok()?;
    if parsed.completed_timestamp.is_none() {
        return Some(Bytes::copy_from_slice(body));
    }
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    members.remove("completedTimestamp");
    serde_json::to_vec(&members).ok().map(Bytes::from)
}

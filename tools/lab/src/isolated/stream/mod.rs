//! Recorded or generated streams: requests about transfers, in the order of their acceptance by a hub.
//!
//! A stream is the input of an isolated stage. It is read from a file ([`Stream::read`]), extracted from a hub's
//! journal ([`Stream::record`]) or generated ([`Stream::generate`]).

mod file;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
pub use file::{FORMAT_VERSION, RecordOptions, SkippedCounts};
use serde::{Deserialize, Serialize};
use upesi_engine::Payload;
use upesi_gateway::{GatewayConfig, TrustEveryone, read_request};
use upesi_http::{Full, Method, Request, header_block};
use upesi_ledger::Command;
use upesi_sim::{id_of, mix};
use upesi_transfers::into_command;
use upesi_types::{Timestamp, TransferId};

use crate::plan::stage::message::MessageKind;
use crate::plan::stage::source::{BODY_BYTES_MIN, DFSPS_MAX};

/// Maximum number of messages in a stream. A million of the usual size take 1.3 GB of memory.
pub const MESSAGES_MAX: usize = 10_000_000;

/// A request of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: MessageKind,
    pub time: Timestamp,
    pub id: TransferId,
    /// Header block: `name: value\r
    /// ` lines, names in lower case, without hop-by-hop headers.
    pub headers: Bytes,
    pub body: Bytes,
}

/// The header of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    pub origin: String,
    /// The participating DFSPs, in the order of their registration.
    pub dfsps: Vec<String>,
    pub currencies: Vec<String>,
    pub prepares: u64,
    pub fulfils: u64,
}

/// Requests in the order of their acceptance, and their header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    pub header: StreamHeader,
    pub messages: Vec<Message>,
}

/// The reason why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a valid recorded stream: {reason}; record or generate it again")]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "{path} has stream format {found}; this upesi reads {FORMAT_VERSION}: record or generate it again"
    )]
    Version { path: PathBuf, found: u32 },
    #[error("message {index} of the stream is not valid: {reason}")]
    Message { index: usize, reason: String },
    #[error("the stream holds {found} {what}, and {needed} are needed")]
    TooShort { what: String, found: usize, needed: usize },
    #[error(transparent)]
    Journal(#[from] upesi_engine::FollowError),
    #[error(transparent)]
    Data(#[from] upesi_journal::DataDirectoryError),
    #[error("{0}")]
    Options(&'static str),
}

impl StreamError {
    /// The file that does not exist, if that is the error.
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

    /// Appends the recording of another hub.
    pub(super) fn append(&mut self, other: Self) {
        if self.header.origin.is_empty() {
            self.header.origin = other.header.origin;
        }
        for (names, more) in [
            (&mut self.header.dfsps, other.header.dfsps),
            (&mut self.header.currencies, other.header.currencies),
        ] {
            more.iter().for_each(|name| file::add(names, name));
        }
        self.messages.extend(other.messages);
        self.recount();
    }

    pub fn of_kind(&self, kind: MessageKind) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// A request in the form that the engine accepts.
#[derive(Clone, Debug)]
pub(crate) struct ReadyRequest {
    pub command: Command,
    pub payload: Payload,
}

impl Stream {
    /// The first `count` messages of a kind.
    pub(super) fn first(
        &self,
        kind: MessageKind,
        count: usize,
    ) -> Result<impl Iterator<Item = &Message>, StreamError> {
        let found = self.of_kind(kind).count();
        if found < count {
            return Err(StreamError::TooShort { what: format!("{}s", kind.name()), found, needed: count });
        }
        Ok(self.of_kind(kind).take(count))
    }

    /// The first `count` messages of a kind as commands.
    pub(crate) fn decode(&self, kind: MessageKind, count: usize) -> Result<Vec<ReadyRequest>, StreamError> {
        all_ready(self.first(kind, count)?)
    }

    /// The prepares that must be reserved before the first `count` messages of a kind.
    pub(super) fn prepares_before(
        &self,
        kind: MessageKind,
        count: usize,
    ) -> Result<Vec<ReadyRequest>, StreamError> {
        let ids: HashSet<_> = self.first(kind, count)?.map(|message| message.id).collect();
        if kind == MessageKind::Prepare {
            return Ok(Vec::new());
        }
        let prepares = self.of_kind(MessageKind::Prepare).filter(|message| ids.contains(&message.id));
        let prepares = all_ready(prepares)?;
        if prepares.len() < count {
            let found = prepares.len();
            let what = "prepares of its fulfils".to_owned();
            return Err(StreamError::TooShort { what, found, needed: count });
        }
        Ok(prepares)
    }
}

fn all_ready<'stream>(
    messages: impl Iterator<Item = &'stream Message>,
) -> Result<Vec<ReadyRequest>, StreamError> {
    let config = GatewayConfig::default();
    let ready = |(index, message): (usize, &Message)| {
        message.read(&config).map_err(|reason| StreamError::Message { index, reason })
    };
    messages.enumerate().map(ready).collect()
}

impl Message {
    /// The HTTP request of the message.
    pub(super) fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let headers = header_block::from_block(&self.headers).map_err(|error| error.to_string())?;
        let (method, path) = match self.kind {
            MessageKind::Prepare => (Method::POST, "/transfers".to_owned()),
            MessageKind::Fulfil => (Method::PUT, format!("/transfers/{}", self.id)),
        };
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| "the path is not a URI".to_owned())?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The command that a hub without authentication reads from it.
    fn read(&self, config: &GatewayConfig) -> Result<ReadyRequest, String> {
        let (parts, _) = self.request()?.into_parts();
        let now = || self.time.into();
        let request = read_request(&parts, self.body.clone(), config, &TrustEveryone, now);
        let (command, payload) = request.and_then(into_command).map_err(|error| error.to_string())?;
        Ok(ReadyRequest { command, payload })
    }
}

// Generated streams. The same seed generates the same stream.

/// Maximum length, in bytes: the longest packet has 32 KiB.
const BODY_BYTES_MAX: usize = 32 * 1024;
/// A pair that public test tools send. Every transfer of a generated stream is fulfilled with it.
const CONDITION: &str = "GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM";
const FULFILMENT: &str = "UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA";
/// 2026-01-01. The time of the first message; later ones follow at intervals of milliseconds.
const FIRST_MS: i64 = 1_767_225_600_000;
/// 2099-01-01. Generated and recorded prepares expire from this time on, so that streams never become outdated.
const EXPIRES_MS: i64 = 4_070_908_800_000;
const CURRENCY: &str = "XXX";

/// The options of a generated stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    pub transfers: usize,
    /// Number of DFSPs, `dfsp-1` and so on. Each pays another one in turn.
    pub dfsps: usize,
    /// Whether each prepare is later followed by its fulfil.
    pub fulfils: bool,
    /// Length of a prepare's body in bytes; the packet is padded to it.
    pub body_bytes: usize,
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { transfers: 5_000, dfsps: 2, fulfils: false, body_bytes: 860, seed: 1 }
    }
}

impl Stream {
    /// Generates a stream. Prepares come first, then all their fulfils. Fails if options are out of range.
    pub fn generate(options: &GenerateOptions) -> Result<Self, StreamError> {
        let GenerateOptions { transfers, dfsps, fulfils, body_bytes, .. } = *options;
        if !(1..=MESSAGES_MAX / 2).contains(&transfers) {
            return Err(StreamError::Options("give 1 to 5,000,000 transfers"));
        }
        if !(2..=DFSPS_MAX).contains(&dfsps) {
            return Err(StreamError::Options("give 2 to 1,000 DFSPs"));
        }
        if !(BODY_BYTES_MIN..=BODY_BYTES_MAX).contains(&body_bytes) {
            return Err(StreamError::Options("give bodies of 480 to 32,768 bytes"));
        }
        let header = StreamHeader {
            origin: format!("generated with seed {}", options.seed),
            dfsps: (1..=dfsps).map(|number| format!("dfsp-{number}")).collect(),
            currencies: vec![CURRENCY.to_owned()],
            ..StreamHeader::default()
        };
        let mut messages = Vec::with_capacity(transfers * if fulfils { 2 } else { 1 });
        messages.extend((0..transfers).map(|number| made_prepare(options, number)));
        if fulfils {
            messages.extend((0..transfers).map(|number| made_fulfil(options, number)));
        }
        let mut stream = Self { header, messages };
        stream.recount();
        Ok(stream)
    }
}

/// Payer and payee of a transfer, as indexes.
fn pair(options: &GenerateOptions, number: usize) -> (usize, usize) {
    let payer = number % options.dfsps;
    let drawn = mix(options.seed ^ mix(number as u64)) % (options.dfsps as u64 - 1);
    (payer, (payer + 1 + drawn as usize) % options.dfsps)
}

fn transfer_id(options: &GenerateOptions, number: usize) -> TransferId {
    let high = mix(options.seed.rotate_left(32) ^ number as u64);
    id_of(high, mix(high ^ options.seed))
}

fn made_prepare(options: &GenerateOptions, number: usize) -> Message {
    let (payer, payee) = pair(options, number);
    let (id, time) = (transfer_id(options, number), Timestamp::from_ms(FIRST_MS + number as i64));
    let expiration = Timestamp::from_ms(EXPIRES_MS + number as i64);
    let mut body = format!(
        "{{\"transferId\":\"{id}\",\"payerFsp\":\"dfsp-{}\",\"payeeFsp\":\"dfsp-{}\",\
         \"amount\":{{\"currency\":\"{CURRENCY}\",\"amount\":\"2\"}},\"condition\":\"{CONDITION}\",\
         \"expiration\":\"{expiration}\",\"ilpPacket\":\"",
        payer + 1,
        payee + 1,
    );
    let end = "\"}";
    let packet_bytes = options.body_bytes.saturating_sub(body.len() + end.len()).max(1);
    push_packet(&mut body, packet_bytes, options.seed ^ number as u64);
    body.push_str(end);
    Message {
        kind: MessageKind::Prepare,
        time,
        id,
        headers: headers(time, payer, payee, number, true),
        body: body.into(),
    }
}

fn made_fulfil(options: &GenerateOptions, number: usize) -> Message {
    let (payer, payee) = pair(options, number);
    let time = Timestamp::from_ms(FIRST_MS + (options.transfers + number) as i64);
    let body = format!("{{\"fulfilment\":\"{FULFILMENT}\",\"transferState\":\"COMMITTED\"}}");
    Message {
        kind: MessageKind::Fulfil,
        time,
        id: transfer_id(options, number),
        headers: headers(time, payee, payer, number, false),
        body: body.into(),
    }
}

/// Characters of a packet. They are as hard to compress as real ones.
fn push_packet(body: &mut String, count: usize, seed: u64) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut left, mut word) = (count, seed);
    while left > 0 {
        word = mix(word);
        for place in 0..left.min(10) {
            body.push(char::from(DIGITS[(word >> (6 * place)) as usize & 63]));
        }
        left -= left.min(10);
    }
}

fn headers(time: Timestamp, source: usize, destination: usize, number: usize, is_prepare: bool) -> Bytes {
    const MEDIA_TYPE: &str = "application/vnd.interoperability.transfers+json;version=1.1";
    let mut block = String::with_capacity(420);
    // Writing into a String does not fail.
    let _ = write!(block, "content-type: {MEDIA_TYPE}\r\ndate: {}\r\n", time.http_date());
    let _ = write!(
        block,
        "fspiop-source: dfsp-{}\r\nfspiop-destination: dfsp-{}\r\n",
        source + 1,
        destination + 1
    );
    if is_prepare {
        let _ = write!(block, "accept: {MEDIA_TYPE}\r\n");
    }
    let trace = mix(number as u64);
    let _ = write!(block, "traceparent: 00-{trace:016x}{:016x}-{:016x}-01\r\n", mix(trace), mix(!trace) | 1);
    let _ = write!(block, "tracestate: tx_end2end_start_ts={}\r\n", time.as_ms());
    block.into()
}

/// Streams: generated, written, read, recorded.
#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytes::Bytes;
    use upesi_fspiop::body::parse_prepare;
    use upesi_ledger::Command;
    use upesi_types::Timestamp;

    use super::file::{lasting, undated};
    use super::*;

    fn small(seed: u64) -> GenerateOptions {
        GenerateOptions { transfers: 300, dfsps: 5, fulfils: true, seed, ..GenerateOptions::default() }
    }

    #[test]
    fn generated_stream_depends_on_the_seed() {
        let stream = Stream::generate(&small(7)).unwrap();
        assert_eq!(stream, Stream::generate(&small(7)).unwrap());
        assert_ne!(stream, Stream::generate(&small(8)).unwrap());
        assert_eq!((stream.header.prepares, stream.header.fulfils), (300, 300));
        let ids: std::collections::BTreeSet<_> =
            stream.of_kind(MessageKind::Prepare).map(|message| message.id).collect();
        assert_eq!(ids.len(), 300, "every transfer has an id of its own");
        assert!(stream.of_kind(MessageKind::Prepare).all(|message| message.body.len() == 860));
    }

    #[test]
    fn generated_messages_are_accepted_by_a_hub() {
        let stream = Stream::generate(&small(1)).unwrap();
        let prepares = stream.decode(MessageKind::Prepare, 300).unwrap();
        let mut payers = [0; 5];
        for ready in &prepares {
            let Command::Prepare(prepare) = &ready.command else { panic!("not a prepare") };
            assert_eq!(prepare.source, prepare.payer);
            assert_ne!(prepare.payer, prepare.payee);
            assert!(
                prepare.condition.is_some() && prepare.expires_at > Timestamp::from_ms(4_000_000_000_000)
            );
            let payer = stream.header.dfsps.iter().position(|name| name == prepare.payer.as_str());
            payers[payer.unwrap()] += 1;
        }
        assert_eq!(payers, [60; 5]);
        assert_eq!(stream.decode(MessageKind::Fulfil, 300).unwrap().len(), 300);
        let error = stream.decode(MessageKind::Fulfil, 301).unwrap_err();
        assert_eq!(error.to_string(), "the stream holds 300 fulfils, and 301 are needed");
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        let good = small(1);
        for options in [
            GenerateOptions { transfers: 0, ..good },
            GenerateOptions { transfers: MESSAGES_MAX, ..good },
            GenerateOptions { dfsps: 1, ..good },
            GenerateOptions { dfsps: DFSPS_MAX + 1, ..good },
            GenerateOptions { body_bytes: BODY_BYTES_MIN - 1, ..good },
            GenerateOptions { body_bytes: 40_000, ..good },
        ] {
            assert!(matches!(Stream::generate(&options), Err(StreamError::Options(_))), "{options:?}");
        }
        for body_bytes in [BODY_BYTES_MIN, 32_768] {
            let stream = Stream::generate(&GenerateOptions { body_bytes, dfsps: DFSPS_MAX, ..good }).unwrap();
            assert!(stream.of_kind(MessageKind::Prepare).all(|message| message.body.len() == body_bytes));
            stream.decode(MessageKind::Prepare, 300).unwrap();
        }
    }

    #[test]
    fn streams_of_several_hubs_are_joined() {
        let mut both = Stream::default();
        both.append(Stream::generate(&GenerateOptions { dfsps: 2, ..small(1) }).unwrap());
        both.append(Stream::generate(&GenerateOptions { dfsps: 4, fulfils: false, ..small(2) }).unwrap());
        assert_eq!((both.header.prepares, both.header.fulfils), (600, 300));
        assert_eq!(both.header.dfsps, ["dfsp-1", "dfsp-2", "dfsp-3", "dfsp-4"]);
        assert_eq!((both.header.origin.as_str(), both.header.currencies.len()), ("generated with seed 1", 1));
        assert_eq!(both.decode(MessageKind::Prepare, 600).unwrap().len(), 600);
    }

    fn written(stream: &Stream, path: &Path) -> Vec<u8> {
        stream.write(path).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn file_returns_the_written_stream() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stream");
        let options = GenerateOptions { body_bytes: 5_000, ..small(3) };
        for stream in [Stream::generate(&options).unwrap(), Stream::default()] {
            written(&stream, &path);
            assert_eq!(Stream::read(&path).unwrap(), stream);
        }
        let missing = Stream::read(&directory.path().join("none")).unwrap_err();
        assert!(missing.missing().is_some());
    }

    #[test]
    fn damaged_file_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stream");
        let stream = Stream::generate(&GenerateOptions { transfers: 3, fulfils: false, ..small(4) }).unwrap();
        let sound = written(&stream, &path);
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Stream::read(&path)
        };
        for at in (0..sound.len()).step_by(7) {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            assert!(read(&damaged).is_err(), "byte {at} is changed");
            assert!(matches!(read(&sound[..at]), Err(StreamError::Damaged { .. })), "cut at {at}");
        }
        assert!(matches!(read(&[&sound[..], b"x"].concat()), Err(StreamError::Damaged { .. })), "too long");
        for version in [1, 3] {
            let mut other = sound.clone();
            other[8] = version;
            let error = read(&other).unwrap_err();
            assert!(
                matches!(error, StreamError::Version { found, .. } if found == u32::from(version)),
                "{error}"
            );
        }
        assert_eq!(read(&sound).unwrap(), stream);
    }

    #[test]
    fn recorded_bodies_change_in_one_member() {
        let at = Timestamp::parse_iso("2099-01-01T00:00:00.500Z").unwrap();
        let stream = Stream::generate(&small(1)).unwrap();
        let body = &stream.messages[0].body;
        let changed = lasting(body, at).unwrap();
        assert_eq!(parse_prepare(&changed).unwrap().expiration, at);
        assert_eq!(changed.len(), body.len());
        assert_eq!(changed.iter().zip(&body[..]).filter(|(new, old)| new != old).count(), 1);
        assert_eq!(lasting(b"{}", at), None);
        assert_eq!(lasting(b"{\"expiration\":7}", at), None);
        assert_eq!(lasting(&[0xff], at), None);

        let fulfil = stream.messages[300].body.clone();
        assert_eq!(undated(&fulfil), Some(fulfil.clone()));
        let dated = String::from_utf8(fulfil.to_vec()).unwrap();
        let dated = dated.replace("{", "{\"completedTimestamp\":\"2026-01-01T00:00:00.000Z\",");
        assert_eq!(undated(dated.as_bytes()), Some(fulfil));
        assert_eq!(undated(b"[]"), None::<Bytes>);
    }
}

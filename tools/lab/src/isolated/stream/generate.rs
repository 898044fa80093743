//! Made-up streams: the same for the same seed, in any number.

use std::fmt::Write as _;

use bytes::Bytes;
use upesi_sim::mix;
use upesi_types::{Timestamp, TransferId};

use super::{DFSPS_MAX, MESSAGES_MAX, Message, MessageKind, Stream, StreamError, StreamHeader};

/// The shortest body of a generated prepare, in bytes: the members that every prepare must have, and little packet.
pub const BODY_BYTES_MIN: usize = 480;
/// The longest, in bytes: the longest packet is 32 KiB.
const BODY_BYTES_MAX: usize = 32 * 1024;
/// A pair that public test tools send: what any transfer of a generated stream is fulfilled with.
const CONDITION: &str = "GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM";
const FULFILMENT: &str = "UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA";
/// 2026-01-01. The instant of the first message; later ones follow in milliseconds.
const FIRST_MS: i64 = 1_767_225_600_000;
/// 2099-01-01. Generated and recorded prepares expire from then on, so that streams never grow old.
pub(super) const EXPIRES_MS: i64 = 4_070_908_800_000;
const CURRENCY: &str = "XXX";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    pub transfers: usize,
    /// Between how many DFSPs, `dfsp-1` and so on. Each pays another one in turn.
    pub dfsps: usize,
    /// Whether each prepare is followed, later, by its fulfil.
    pub fulfils: bool,
    /// Length of a prepare's body in bytes; the packet fills it up.
    pub body_bytes: usize,
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { transfers: 5_000, dfsps: 2, fulfils: false, body_bytes: 860, seed: 1 }
    }
}

impl Stream {
    /// Makes a stream up. Prepares come first, their fulfils after all of them. Errors: options out of range.
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
        messages.extend((0..transfers).map(|number| prepare(options, number)));
        if fulfils {
            messages.extend((0..transfers).map(|number| fulfil(options, number)));
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

fn id_of(options: &GenerateOptions, number: usize) -> TransferId {
    let high = mix(options.seed.rotate_left(32) ^ number as u64);
    let low = mix(high ^ options.seed);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    TransferId::from_random_bytes(bytes)
}

fn prepare(options: &GenerateOptions, number: usize) -> Message {
    let (payer, payee) = pair(options, number);
    let (id, time) = (id_of(options, number), Timestamp::from_ms(FIRST_MS + number as i64));
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

fn fulfil(options: &GenerateOptions, number: usize) -> Message {
    let (payer, payee) = pair(options, number);
    let time = Timestamp::from_ms(FIRST_MS + (options.transfers + number) as i64);
    let body = format!("{{\"fulfilment\":\"{FULFILMENT}\",\"transferState\":\"COMMITTED\"}}");
    Message {
        kind: MessageKind::Fulfil,
        time,
        id: id_of(options, number),
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

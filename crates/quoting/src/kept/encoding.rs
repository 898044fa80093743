//! Encoding of entries. Integers are big-endian.

use upesi_types::{FspId, Timestamp};

use super::{KeptMessage, MessageToKeep};
use crate::duplicates::Fingerprint;

/// First byte of every message, for later versions.
const FORMAT: u8 = 1;

/// The head of a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) began_at_ms: i64,
    /// The end of time without an expiration.
    pub(super) wanted_until_ns: i64,
    /// The DFSP whose answers and errors are valid: the receiver of the request or, if no request is stored, the first
    /// one to send one.
    pub(super) payee: Option<FspId>,
}

impl Head {
    pub(super) fn wanted_until(self) -> Option<Timestamp> {
        (self.wanted_until_ns != i64::MAX).then(|| Timestamp::from_ns(self.wanted_until_ns))
    }

    /// Two integers, followed by the name.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut value = pair(self.began_at_ms, self.wanted_until_ns).to_vec();
        value.extend_from_slice(self.payee.as_ref().map_or("", FspId::as_str).as_bytes());
        value
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let (began_at_ms, wanted_until_ns) = split_pair(value)?;
        let payee = str::from_utf8(value.get(16..)?).ok().and_then(FspId::parse);
        Some(Self { began_at_ms, wanted_until_ns, payee })
    }
}

/// Number of quotes, and the time of the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) quotes: u64,
    pub(super) last_ms: i64,
}

impl Counts {
    pub(super) fn encode(self) -> [u8; 16] {
        pair(self.quotes as i64, self.last_ms)
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let (quotes, last_ms) = split_pair(value)?;
        Some(Self { quotes: quotes as u64, last_ms })
    }
}

fn pair(first: i64, second: i64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..].copy_from_slice(&second.to_be_bytes());
    bytes
}

fn split_pair(value: &[u8]) -> Option<(i64, i64)> {
    let (first, rest) = value.split_first_chunk::<8>()?;
    let (second, _) = rest.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*first), i64::from_be_bytes(*second)))
}

/// Format, fingerprint, time in ns, source, destination, headers, body; names and headers are preceded by their
/// lengths.
pub(super) fn encode_message(message: &MessageToKeep) -> Vec<u8> {
    let mut value = Vec::with_capacity(100 + message.headers.len() + message.body.len());
    value.push(FORMAT);
    value.extend_from_slice(&message.fingerprint);
    value.extend_from_slice(&message.at.as_ns().to_be_bytes());
    let destination = message.destination.as_ref().map_or("", FspId::as_str);
    for name in [message.source.as_str(), destination] {
        value.push(name.len() as u8);
        value.extend_from_slice(name.as_bytes());
    }
    value.extend_from_slice(&(message.headers.len() as u32).to_be_bytes());
    value.extend_from_slice(&message.headers);
    value.extend_from_slice(&message.body);
    value
}

/// The fingerprint of a stored message.
pub(super) fn fingerprint_of(value: &[u8]) -> Option<Fingerprint> {
    let (format, rest) = value.split_first()?;
    rest.first_chunk().copied().filter(|_| *format == FORMAT)
}

pub(super) fn decode_message(value: &[u8]) -> Option<KeptMessage> {
    fingerprint_of(value)?;
    let (at, rest) = value.get(17..)?.split_first_chunk::<8>()?;
    let (source, rest) = split_name(rest)?;
    let (destination, rest) = split_name(rest)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (headers, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(KeptMessage {
        at: Timestamp::from_ns(i64::from_be_bytes(*at)),
        source: FspId::parse(source)?,
        destination: FspId::parse(destination),
        headers: headers.to_vec(),
        body: body.to_vec(),
    })
}

fn split_name(value: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = value.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((str::from_utf8(name).ok()?, rest))
}

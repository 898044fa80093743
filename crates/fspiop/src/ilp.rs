//! ILP packets, conditions and fulfilments as FSPIOP uses them (FSPIOP API v1.1 §6.5).
//!
//! A packet is opaque to the hub. Operators can display its content, and simulated DFSPs create packets. Two kinds are
//! in use:
//!
//! ```text
//! v1: 0x01 length { amount u64, length account, length data, 0x00 }
//! v4: 0x0c length { amount u64, expiry YYYYMMDDHHMMSSmmm, condition [32], length address, length data }
//! ```
//!
//! In both, `data` is the base64url text of the transaction object's JSON, and amounts are in the smallest unit of the
//! currency. A length below 128 is one byte; a larger length is `0x80 + n` followed by `n` bytes, big-endian.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use upesi_types::Timestamp;

use crate::byte_writer::ByteWriter;

const TYPE_V1: u8 = 0x01;
const TYPE_V4: u8 = 0x0c;
const AMOUNT_BYTES: usize = 8;
const EXPIRY_BYTES: usize = 17;
const CONDITION_BYTES: usize = 32;
const ADDRESS: &[u8] = b"g.mojaloop";

/// The reason why a packet contains no readable transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IlpError {
    /// The packet is not base64url.
    #[error("the ILP packet is not base64url")]
    PacketEncoding,
    /// The first byte is neither 0x01 nor 0x0c.
    #[error("the ILP packet is of unknown type {0}")]
    UnknownType(u8),
    /// The packet ends inside a field, or a length is too large.
    #[error("the ILP packet is cut short")]
    CutShort,
    /// The data field is not base64url text of UTF-8.
    #[error("the data of the ILP packet is not base64url text")]
    DataEncoding,
}

/// The JSON text of the transaction object inside a packet. Padding at the end of the packet is tolerated.
pub fn decode_transaction(packet_base64url: &str) -> Result<String, IlpError> {
    let text = packet_base64url.trim_end_matches('=');
    let packet = URL_SAFE_NO_PAD.decode(text).map_err(|_| IlpError::PacketEncoding)?;
    let (&kind, rest) = packet.split_first().ok_or(IlpError::CutShort)?;
    let fixed = match kind {
        TYPE_V1 => AMOUNT_BYTES,
        TYPE_V4 => AMOUNT_BYTES + EXPIRY_BYTES + CONDITION_BYTES,
        other => return Err(IlpError::UnknownType(other)),
    };
    let (body, _) = split_prefixed(rest).ok_or(IlpError::CutShort)?;
    let fields = body.get(fixed..).ok_or(IlpError::CutShort)?;
    let (_account, fields) = split_prefixed(fields).ok_or(IlpError::CutShort)?;
    let (data, _) = split_prefixed(fields).ok_or(IlpError::CutShort)?;
    let json = URL_SAFE_NO_PAD.decode(data.trim_ascii()).map_err(|_| IlpError::DataEncoding)?;
    String::from_utf8(json).map_err(|_| IlpError::DataEncoding)
}

/// Splits a length-prefixed field off the front.
fn split_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return rest.split_at_checked(usize::from(first));
    }
    let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
    let length = length.iter().try_fold(0_usize, |sum, &byte| {
        let shifted = sum.checked_mul(256)?;
        shifted.checked_add(usize::from(byte))
    })?;
    rest.split_at_checked(length)
}

fn push_prefixed(out: &mut Vec<u8>, field: &[u8]) {
    let length = field.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 + significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(field);
}

/// Creates a v4 packet as base64url text. `amount` is in the currency's smallest unit. The same arguments give the same
/// text.
pub fn encode_packet_v4(
    amount: u64,
    expiry: Timestamp,
    condition: &[u8; 32],
    transaction_json: &str,
) -> String {
    let mut body = Vec::with_capacity(128 + transaction_json.len() * 4 / 3);
    body.extend_from_slice(&amount.to_be_bytes());
    let mut expiry_text = Vec::with_capacity(24);
    let _ = write!(ByteWriter(&mut expiry_text), "{expiry}");
    body.extend(expiry_text.iter().filter(|byte| byte.is_ascii_digit()));
    body.extend_from_slice(condition);
    push_prefixed(&mut body, ADDRESS);
    push_prefixed(&mut body, URL_SAFE_NO_PAD.encode(transaction_json).as_bytes());
    envelope(TYPE_V4, &body)
}

/// Creates a v1 packet as base64url text. `account` has the form `g.greenbank.msisdn.26097`; `amount` is in the
/// currency's smallest unit.
pub fn encode_packet_v1(amount: u64, account: &str, transaction_json: &str) -> String {
    let mut body = Vec::with_capacity(64 + transaction_json.len() * 4 / 3);
    body.extend_from_slice(&amount.to_be_bytes());
    push_prefixed(&mut body, account.as_bytes());
    push_prefixed(&mut body, URL_SAFE_NO_PAD.encode(transaction_json).as_bytes());
    body.push(0);
    envelope(TYPE_V1, &body)
}

fn envelope(kind: u8, body: &[u8]) -> String {
    let mut packet = Vec::with_capacity(body.len() + 4);
    packet.push(kind);
    push_prefixed(&mut packet, body);
    URL_SAFE_NO_PAD.encode(packet)
}

/// The fulfilment for a transaction in v4: a keyed hash of its JSON text.
pub fn fulfilment_v4(secret: &[u8], transaction_json: &str) -> [u8; 32] {
    keyed_hash(secret, STANDARD.encode(transaction_json).as_bytes())
}

/// The fulfilment for a packet in v1: a keyed hash of its base64url text.
pub fn fulfilment_v1(secret: &[u8], packet_base64url: &str) -> [u8; 32] {
    keyed_hash(secret, packet_base64url.as_bytes())
}

/// HMAC-SHA256 with the base64 text of the secret as key.
fn keyed_hash(secret: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC accepts keys of any length, so the default is never used.
    let key = STANDARD.encode(secret);
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { return [0; 32] };
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The condition of a fulfilment: its SHA-256.
pub fn condition_of(fulfilment: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(fulfilment).into()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{decode_octets, encode_octets};

    const TRANSACTION: &str = r#"{"amount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T00:00:00.000Z","payee":{"partyIdInfo":{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097"}},"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11"}"#;
    const SECRET: &[u8] = b"worked-example-secret";

    const FULFILMENT_V4: &str = "-fcT-Kg4v1399VKeIKs7CCgndX3Vn_EWfaRahghA7Ys";
    const CONDITION_V4: &str = "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0";
    const PACKET_V4: &str = "DIIBeQAAAAAAAATiMjAzMDAxMDEwMDAwMDAwMDA5qZ8ZVext3aTw-IFyYKjnIWNkOKqmuH5hWPxgKGWyfQpnLm1vamFsb29wggEyZXlKaGJXOTFiblFpT25zaVlXMXZkVzUwSWpvaU1USXVOU0lzSW1OMWNuSmxibU41SWpvaVZWTkVJbjBzSW1WNGNHbHlZWFJwYjI0aU9pSXlNRE13TFRBeExUQXhWREF3T2pBd09qQXdMakF3TUZvaUxDSndZWGxsWlNJNmV5SndZWEowZVVsa1NXNW1ieUk2ZXlKbWMzQkpaQ0k2SW1keVpXVnVZbUZ1YXlJc0luQmhjblI1U1dSVWVYQmxJam9pVFZOSlUwUk9JaXdpY0dGeWRIbEpaR1Z1ZEdsbWFXVnlJam9pTWpZd09UY2lmWDBzSW5GMWIzUmxTV1FpT2lJMlpqTm1aamxrTkMweVpqQmlMVFJpWWpJdE9XUXpZUzB3WmpObU1XTTJZVGRpTVRFaWZR";
    const FULFILMENT_V1: &str = "Bj0DR6oOvMhn56Ntf0aT3kClnF9CvMFlI0ieVwT--vI";
    const CONDITION_V1: &str = "LbTDqu8FEDWEafl94lFBmNTVesEZTx7qrXI8qv-v1eY";
    const PACKET_V1: &str = "AYIBVwAAAAAAAATiGGcuZ3JlZW5iYW5rLm1zaXNkbi4yNjA5N4IBMmV5SmhiVzkxYm5RaU9uc2lZVzF2ZFc1MElqb2lNVEl1TlNJc0ltTjFjbkpsYm1ONUlqb2lWVk5FSW4wc0ltVjRjR2x5WVhScGIyNGlPaUl5TURNd0xUQXhMVEF4VkRBd09qQXdPakF3TGpBd01Gb2lMQ0p3WVhsbFpTSTZleUp3WVhKMGVVbGtTVzVtYnlJNmV5Sm1jM0JKWkNJNkltZHlaV1Z1WW1GdWF5SXNJbkJoY25SNVNXUlVlWEJsSWpvaVRWTkpVMFJPSWl3aWNHRnlkSGxKWkdWdWRHbG1hV1Z5SWpvaU1qWXdPVGNpZlgwc0luRjFiM1JsU1dRaU9pSTJaak5tWmpsa05DMHlaakJpTFRSaVlqSXRPV1F6WVMwd1pqTm1NV00yWVRkaU1URWlmUQA";

    fn text_of(octets: &[u8; 32]) -> String {
        String::from_utf8(encode_octets(octets).to_vec()).unwrap()
    }

    #[test]
    fn ilp_v4_matches_the_worked_example() {
        let fulfilment = fulfilment_v4(SECRET, TRANSACTION);
        assert_eq!(text_of(&fulfilment), FULFILMENT_V4);
        let condition = condition_of(&fulfilment);
        assert_eq!(text_of(&condition), CONDITION_V4);
        let expiry = Timestamp::parse_iso("2030-01-01T00:00:00.000Z").unwrap();
        assert_eq!(encode_packet_v4(1250, expiry, &condition, TRANSACTION), PACKET_V4);
    }

    #[test]
    fn ilp_v1_matches_the_worked_example() {
        let packet = encode_packet_v1(1250, "g.greenbank.msisdn.26097", TRANSACTION);
        assert_eq!(packet, PACKET_V1);
        let fulfilment = fulfilment_v1(SECRET, &packet);
        assert_eq!(text_of(&fulfilment), FULFILMENT_V1);
        assert_eq!(text_of(&condition_of(&fulfilment)), CONDITION_V1);
    }

    #[test]
    fn both_packet_types_contain_their_transaction() {
        for packet in [PACKET_V4, PACKET_V1] {
            assert_eq!(decode_transaction(packet).as_deref(), Ok(TRANSACTION));
            assert_eq!(decode_transaction(&(packet.to_string() + "==")).as_deref(), Ok(TRANSACTION));
        }
    }

    #[test]
    fn public_condition_and_fulfilment_pairs_match() {
        for (fulfilment, condition) in [
            ("UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA", "GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM"),
            ("V-IalzIzy-zxy0SrlY1Ku2OE9aS4KgGZ0W-Zq5_BeC0", "GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA"),
        ] {
            assert_eq!(text_of(&condition_of(&decode_octets(fulfilment).unwrap())), condition);
        }
    }

    #[test]
    fn length_prefixes_round_trip() {
        for length in [0, 1, 96, 127, 128, 255, 256, 20_000, 70_000] {
            let json = "j".repeat(length);
            let packet = encode_packet_v4(1, Timestamp::EPOCH, &[7; 32], &json);
            assert_eq!(decode_transaction(&packet), Ok(json.clone()), "{length}");
            let packet = encode_packet_v1(1, "g.a", &json);
            assert_eq!(decode_transaction(&packet), Ok(json), "{length}");
        }
    }

    #[test]
    fn invalid_packets_have_distinct_errors() {
        let packet = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let with_data = |data: &[u8]| {
            let mut body = [0_u8; 8].to_vec();
            push_prefixed(&mut body, b"g.a");
            push_prefixed(&mut body, data);
            body.push(0);
            envelope(TYPE_V1, &body)
        };
        for (text, error) in [
            ("".to_string(), IlpError::CutShort),
            ("*".to_string(), IlpError::PacketEncoding),
            ("AYIBg+==".to_string(), IlpError::PacketEncoding),
            (packet(&[0x02, 0]), IlpError::UnknownType(2)),
            (packet(&[0x01]), IlpError::CutShort),
            (packet(&[0x01, 0x80]), IlpError::CutShort),
            (packet(&[0x01, 0x05, 1, 2]), IlpError::CutShort),
            (packet(&[0x01, 0x88, 255, 255, 255, 255, 255, 255, 255, 255]), IlpError::CutShort),
            (packet(&[0x01, 0x89, 255, 255, 255, 255, 255, 255, 255, 255, 255]), IlpError::CutShort),
            (packet(&[0x0c, 0x02, 1, 2]), IlpError::CutShort),
            (with_data(b"+not url+"), IlpError::DataEncoding),
            (with_data(b"_w"), IlpError::DataEncoding),
        ] {
            assert_eq!(decode_transaction(&text), Err(error), "{text}");
        }
        for length in 0..PACKET_V1.len() - 2 {
            assert!(decode_transaction(&PACKET_V1[..length]).is_err(), "{length}");
        }
    }
}

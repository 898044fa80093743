//! ILP packets, conditions and fulfilments as FSPIOP uses them (FSPIOP API v1.1 §6.5).
//!
//! To the hub a packet is opaque; an operator may look into one, and simulated DFSPs make them. Two kinds are in use:
//!
//! ```text
//! v1: 0x01 length { amount u64, length account, length data, 0x00 }
//! v4: 0x0c length { amount u64, expiry YYYYMMDDHHMMSSmmm, condition [32], length address, length data }
//! ```
//!
//! In both, `data` is the base64url text of the transaction object's JSON, and amounts count the smallest unit of the
//! currency. A length is one byte below 128, else `0x80 + n` and `n` bytes, big-endian.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use upesi_types::Timestamp;

use crate::render::ByteWriter;

const TYPE_V1: u8 = 0x01;
const TYPE_V4: u8 = 0x0c;
const AMOUNT_BYTES: usize = 8;
const EXPIRY_BYTES: usize = 17;
const CONDITION_BYTES: usize = 32;
const ADDRESS: &[u8] = b"g.mojaloop";

/// Why a packet shows no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IlpError {
    /// The packet is not base64url.
    #[error("the ILP packet is not base64url")]
    PacketEncoding,
    /// The first byte is neither 0x01 nor 0x0c.
    #[error("the ILP packet is of unknown type {0}")]
    UnknownType(u8),
    /// It ends inside a field, or a length does not fit.
    #[error("the ILP packet is cut short")]
    CutShort,
    /// The data field is not the base64url text of UTF-8.
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

/// A v4 packet as base64url text. `amount` counts the currency's smallest unit; the text comes out the same for the
/// same arguments.
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

/// A v1 packet as base64url text. `account` is like `g.greenbank.msisdn.26097`; `amount` counts the currency's
/// smallest unit.
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

/// The fulfilment that belongs to a transaction in v4: a keyed hash of its JSON text.
pub fn fulfilment_v4(secret: &[u8], transaction_json: &str) -> [u8; 32] {
    keyed_hash(secret, STANDARD.encode(transaction_json).as_bytes())
}

/// The fulfilment that belongs to a packet in v1: a keyed hash of its base64url text.
pub fn fulfilment_v1(secret: &[u8], packet_base64url: &str) -> [u8; 32] {
    keyed_hash(secret, packet_base64url.as_bytes())
}

/// HMAC-SHA256 under the ASCII of the secret's base64 text.
fn keyed_hash(secret: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC takes keys of any length, so this default never comes into use.
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
mod tests;

//! Writes the bodies of messages that the hub creates. They are deterministic and compact, and the members of every
//! object are sorted by name, so that a signature remains valid for verifiers that sort first.

mod bulk;
mod party;

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use upesi_types::error_code::DESCRIPTION_CHARS_MAX;
use upesi_types::{ErrorCode, FspId, Money, Timestamp, TransferId};

pub use self::bulk::{
    BulkItemOutcome, BulkRequest, BulkRequestItem, BulkState, write_bulk_request, write_bulk_state,
};
pub use self::party::{
    BatchResult, PartyEntry, write_batch_result, write_fsp_id, write_party_list, write_providers,
};
use crate::byte_writer::{ByteWriter, EXTENSION_ITEMS_MAX};
use crate::{Version, encode_octets};

/// The content of the extension list in a message that the hub creates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extensions<'a> {
    /// Items of a DFSP's message, as the JSON array that the parsers of [`crate::body`] return.
    pub items: Option<&'a str>,
    /// The reason why a transfer failed, from [`cause_text`]. It becomes the last item, with the key `cause`. If there
    /// are already sixteen items, it replaces the last one.
    pub cause: Option<&'a str>,
}

/// The text of a `cause` extension: `4001: Payer FSP insufficient liquidity`, cut at 128 characters.
pub fn cause_text(code: ErrorCode, description: &str) -> String {
    let text = format!("{code}: {description}");
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => String::from(&text[..end]),
        None => text,
    }
}

/// Appends the body of a `PUT` or `PATCH /transfers/{ID}`.
pub fn write_transfer_state(
    out: &mut Vec<u8>,
    completed: Option<Timestamp>,
    state: &str,
    fulfilment: Option<&[u8; 32]>,
    extensions: Extensions<'_>,
) {
    out.push(b'{');
    write_completed(out, completed);
    write_extension_list(out, extensions);
    write_fulfilment(out, fulfilment);
    out.extend_from_slice(b"\"transferState\":");
    ByteWriter(out).text(state);
    out.push(b'}');
}

/// Appends the body of a `PUT` or `PATCH /fxTransfers/{ID}`.
pub fn write_fx_transfer_state(
    out: &mut Vec<u8>,
    completed: Option<Timestamp>,
    state: &str,
    fulfilment: Option<&[u8; 32]>,
    extensions: Extensions<'_>,
) {
    out.push(b'{');
    write_completed(out, completed);
    out.extend_from_slice(b"\"conversionState\":");
    ByteWriter(out).text(state);
    out.push(b',');
    write_extension_list(out, extensions);
    write_fulfilment(out, fulfilment);
    out.pop();
    out.push(b'}');
}

/// Appends the `completedTimestamp` member with a comma after it, or nothing.
fn write_completed(out: &mut Vec<u8>, completed: Option<Timestamp>) {
    if let Some(completed) = completed {
        let _ = write!(ByteWriter(out), "\"completedTimestamp\":\"{completed}\",");
    }
}

/// Appends the `fulfilment` member with a comma after it, or nothing.
fn write_fulfilment(out: &mut Vec<u8>, fulfilment: Option<&[u8; 32]>) {
    if let Some(fulfilment) = fulfilment {
        out.extend_from_slice(b"\"fulfilment\":\"");
        out.extend_from_slice(&encode_octets(fulfilment));
        out.extend_from_slice(b"\",");
    }
}

/// Appends the `extensionList` member with a comma after it, or nothing.
fn write_extension_list(out: &mut Vec<u8>, extensions: Extensions<'_>) {
    let inner =
        extensions.items.and_then(|items| items.strip_prefix('[')?.strip_suffix(']')).unwrap_or_default();
    if inner.is_empty() && extensions.cause.is_none() {
        return;
    }
    out.extend_from_slice(b"\"extensionList\":{\"extension\":[");
    match extensions.cause {
        None => out.extend_from_slice(inner.as_bytes()),
        Some(cause) => {
            let inner = leave_room_for_one(inner);
            out.extend_from_slice(inner.as_bytes());
            if !inner.is_empty() {
                out.push(b',');
            }
            ByteWriter(out).extension("cause", cause);
        }
    }
    out.extend_from_slice(b"]},");
}

/// Returns all items except the last one of a full list, or all items of a shorter list. An item always begins with
/// these bytes. A text inside an item never contains them, because its quotes are escaped.
fn leave_room_for_one(items: &str) -> &str {
    const ITEM: &str = "{\"key\":\"";
    let mut starts = items.match_indices(ITEM).map(|(at, _)| at);
    match starts.nth(EXTENSION_ITEMS_MAX - 1) {
        Some(last) => items[..last].trim_end_matches(','),
        None => items,
    }
}

/// Appends an `errorInformation` object; the description is cut at 128 characters.
pub fn write_error(out: &mut Vec<u8>, code: ErrorCode, description: &str) {
    write_error_information(out, code, description, |_| {});
}

/// Appends the `errorInformation` object of a version error. Its extension list names the accepted versions, with the
/// major number as key and the minor number as value.
pub(crate) fn write_version_error(
    out: &mut Vec<u8>,
    code: ErrorCode,
    description: &str,
    versions: &[Version],
) {
    write_error_information(out, code, description, |out| {
        for (index, version) in versions.iter().enumerate() {
            let open = if index == 0 { ",\"extensionList\":{\"extension\":[" } else { "," };
            let _ = write!(
                ByteWriter(out),
                "{open}{{\"key\":\"{}\",\"value\":\"{}\"}}",
                version.major,
                version.minor
            );
        }
        if !versions.is_empty() {
            out.extend_from_slice(b"]}");
        }
    });
}

fn write_error_information(
    out: &mut Vec<u8>,
    code: ErrorCode,
    description: &str,
    write_list: impl FnOnce(&mut Vec<u8>),
) {
    out.push(b'{');
    write_error_members(out, code, description, write_list);
    out.push(b'}');
}

/// Appends the `errorInformation` member without a comma.
fn write_error_members(
    out: &mut Vec<u8>,
    code: ErrorCode,
    description: &str,
    write_list: impl FnOnce(&mut Vec<u8>),
) {
    let end = description.char_indices().nth(DESCRIPTION_CHARS_MAX).map_or(description.len(), |(end, _)| end);
    let _ = write!(ByteWriter(out), "\"errorInformation\":{{\"errorCode\":\"{code}\",\"errorDescription\":");
    ByteWriter(out).text(&description[..end]);
    write_list(out);
    out.push(b'}');
}

/// The fields of a `POST /transfers` from a DFSP.
#[derive(Clone, Copy, Debug)]
pub struct Prepare<'a> {
    pub transfer_id: TransferId,
    pub payer: FspId,
    pub payee: FspId,
    /// The amount and currency.
    pub money: Money,
    /// The ILP packet, base64url.
    pub ilp_packet: &'a str,
    /// SHA-256 of the fulfilment.
    pub condition: &'a [u8; 32],
    /// Time when the transfer expires.
    pub expiration: Timestamp,
}

/// Appends the body of a `POST /transfers`, for simulated DFSPs and tests.
pub fn write_prepare(out: &mut Vec<u8>, prepare: &Prepare<'_>) {
    let Money { amount, currency } = prepare.money;
    let _ = write!(
        ByteWriter(out),
        "{{\"amount\":{{\"amount\":\"{amount}\",\"currency\":\"{currency}\"}},\"condition\":\""
    );
    out.extend_from_slice(&encode_octets(prepare.condition));
    let _ = write!(ByteWriter(out), "\",\"expiration\":\"{}\",\"ilpPacket\":", prepare.expiration);
    ByteWriter(out).text(prepare.ilp_packet);
    out.extend_from_slice(b",\"payeeFsp\":");
    ByteWriter(out).text(prepare.payee.as_str());
    out.extend_from_slice(b",\"payerFsp\":");
    ByteWriter(out).text(prepare.payer.as_str());
    let _ = write!(ByteWriter(out), ",\"transferId\":\"{}\"}}", prepare.transfer_id);
}

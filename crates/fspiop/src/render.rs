//! Writes the bodies of messages that the hub creates. They are deterministic and compact, and the members of every
//! object are sorted by name, so that a signature remains valid for verifiers that sort first.

#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::fmt::Write;

use upesi_types::error_code::DESCRIPTION_CHARS_MAX;
use upesi_types::{Amount, Currency, ErrorCode, FspId, Money, Timestamp, TransferId};

use crate::body::EXTENSION_ITEMS_MAX;
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
pub fn write_conversion_state(
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
    /// Identifies the transfer.
    pub transfer_id: TransferId,
    /// The payer DFSP.
    pub payer: FspId,
    /// The payee DFSP.
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

/// Writes text to a byte buffer; this cannot fail.
pub(crate) struct ByteWriter<'v>(pub(crate) &'v mut Vec<u8>);

impl Write for ByteWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl ByteWriter<'_> {
    /// Writes a JSON string. Quotes, backslashes and control characters are escaped, all other characters are
    /// unchanged.
    pub(crate) fn text(&mut self, text: &str) {
        self.0.push(b'"');
        let bytes = text.as_bytes();
        let mut run = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.0.extend_from_slice(&bytes[run..at]);
            run = at + 1;
            match byte {
                b'"' => self.0.extend_from_slice(b"\\\""),
                b'\\' => self.0.extend_from_slice(b"\\\\"),
                b'\n' => self.0.extend_from_slice(b"\\n"),
                b'\r' => self.0.extend_from_slice(b"\\r"),
                b'\t' => self.0.extend_from_slice(b"\\t"),
                _ => {
                    let _ = write!(self, "\\u{byte:04x}");
                }
            }
        }
        self.0.extend_from_slice(&bytes[run..]);
        self.0.push(b'"');
    }

    /// Writes one item of an extension list.
    pub(crate) fn extension(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(b"{\"key\":");
        self.text(key);
        self.0.extend_from_slice(b",\"value\":");
        self.text(value);
        self.0.push(b'}');
    }
}

// Bodies about bulk transfers.

/// The fields of a `POST /bulkTransfers`, except its items.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequest<'a> {
    /// Identifies the bulk transfer.
    pub id: &'a str,
    /// Identifies the bulk quote on which it is based.
    pub quote: TransferId,
    /// The payer DFSP.
    pub payer: FspId,
    /// The payee DFSP.
    pub payee: FspId,
    /// Time when the items expire.
    pub expires_at: Timestamp,
    /// Items of the extension list, as in [`Extensions::items`].
    pub extensions: Option<&'a str>,
}

/// One transfer of a `POST /bulkTransfers`.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequestItem<'a> {
    /// Identifies the transfer.
    pub id: TransferId,
    /// The amount; its text if no ledger can represent it.
    pub amount: Result<Amount, &'a str>,
    /// The currency.
    pub currency: Currency,
    /// The ILP packet, base64url.
    pub ilp_packet: &'a str,
    /// SHA-256 of the fulfilment.
    pub condition: [u8; 32],
    /// Items of the extension list, as in [`Extensions::items`].
    pub extensions: Option<&'a str>,
}

/// Appends the body of the `POST /bulkTransfers` that the hub creates with the reserved items.
pub fn write_bulk_request<'a>(
    out: &mut Vec<u8>,
    request: &BulkRequest<'_>,
    items: impl IntoIterator<Item = BulkRequestItem<'a>>,
) {
    let _ = write!(ByteWriter(out), "{{\"bulkQuoteId\":\"{}\",\"bulkTransferId\":", request.quote);
    ByteWriter(out).text(request.id);
    let _ = write!(ByteWriter(out), ",\"expiration\":\"{}\",", request.expires_at);
    write_extension_list(out, extensions(request.extensions));
    out.extend_from_slice(b"\"individualTransfers\":[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(out, &item);
    }
    out.extend_from_slice(b"],\"payeeFsp\":");
    ByteWriter(out).text(request.payee.as_str());
    out.extend_from_slice(b",\"payerFsp\":");
    ByteWriter(out).text(request.payer.as_str());
    out.push(b'}');
}

fn write_item(out: &mut Vec<u8>, item: &BulkRequestItem<'_>) {
    out.extend_from_slice(b"{\"condition\":\"");
    out.extend_from_slice(&encode_octets(&item.condition));
    out.extend_from_slice(b"\",");
    write_extension_list(out, extensions(item.extensions));
    out.extend_from_slice(b"\"ilpPacket\":");
    ByteWriter(out).text(item.ilp_packet);
    out.extend_from_slice(b",\"transferAmount\":{\"amount\":\"");
    let _ = match &item.amount {
        Ok(amount) => write!(ByteWriter(out), "{amount}"),
        Err(text) => write!(ByteWriter(out), "{text}"),
    };
    let (currency, id) = (item.currency, item.id);
    let _ = write!(ByteWriter(out), "\",\"currency\":\"{currency}\"}},\"transferId\":\"{id}\"}}");
}

/// The fields of a `PUT /bulkTransfers/{ID}`, except its results.
#[derive(Clone, Copy, Debug)]
pub struct BulkState<'a> {
    /// The state of the bulk transfer.
    pub state: &'a str,
    /// Time when it became final; `None` before.
    pub completed_at: Option<Timestamp>,
    /// Items of the extension list, as in [`Extensions::items`].
    pub extensions: Option<&'a str>,
}

/// The outcome of one transfer in a `PUT /bulkTransfers/{ID}`.
#[derive(Clone, Debug)]
pub enum BulkItemOutcome<'a> {
    /// The transfer is not final. Its result is only its id.
    Open,
    /// The transfer was committed.
    Fulfilled {
        /// Preimage of the condition.
        fulfilment: &'a [u8; 32],
        /// Items of the extension list, as in [`Extensions::items`].
        extensions: Option<&'a str>,
    },
    /// The transfer was rejected or aborted.
    Failed {
        /// The code of the error.
        code: ErrorCode,
        /// The description of the error; it is cut at 128 characters.
        description: Cow<'a, str>,
    },
}

/// Appends the body of a `PUT /bulkTransfers/{ID}`, with the outcome of each transfer.
pub fn write_bulk_state<'a>(
    out: &mut Vec<u8>,
    state: &BulkState<'_>,
    outcomes: impl IntoIterator<Item = (TransferId, BulkItemOutcome<'a>)>,
) {
    out.extend_from_slice(b"{\"bulkTransferState\":");
    ByteWriter(out).text(state.state);
    if let Some(completed) = state.completed_at {
        let _ = write!(ByteWriter(out), ",\"completedTimestamp\":\"{completed}\"");
    }
    out.push(b',');
    write_extension_list(out, extensions(state.extensions));
    out.pop();
    let mut has_results = false;
    for (id, outcome) in outcomes {
        out.extend_from_slice(if has_results { b"," } else { b",\"individualTransferResults\":[" });
        write_outcome(out, id, &outcome);
        has_results = true;
    }
    out.extend_from_slice(if has_results { b"]}" } else { b"}" });
}

fn write_outcome(out: &mut Vec<u8>, id: TransferId, outcome: &BulkItemOutcome<'_>) {
    out.push(b'{');
    match outcome {
        BulkItemOutcome::Open => {}
        BulkItemOutcome::Failed { code, description } => {
            write_error_members(out, *code, description, |_| {});
            out.push(b',');
        }
        BulkItemOutcome::Fulfilled { fulfilment, extensions: items } => {
            write_extension_list(out, extensions(*items));
            out.extend_from_slice(b"\"fulfilment\":\"");
            out.extend_from_slice(&encode_octets(fulfilment));
            out.extend_from_slice(b"\",");
        }
    }
    let _ = write!(ByteWriter(out), "\"transferId\":\"{id}\"}}");
}

const fn extensions(items: Option<&str>) -> Extensions<'_> {
    Extensions { items, cause: None }
}

// Bodies that name a party's DFSP (FSPIOP API v1.1 §6.2.4), or the providers of a service.

/// A party in a body that the hub creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyEntry<'a> {
    /// The type of the identifier, such as `MSISDN`.
    pub kind: &'a str,
    /// The identifier, decoded.
    pub identifier: &'a str,
    /// Distinguishes parties under one identifier, decoded.
    pub sub_id: Option<&'a str>,
    /// The DFSP that serves the party; `None` if the request named none.
    pub fsp: Option<&'a str>,
}

/// The result for one party of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchResult<'a> {
    /// The party as requested.
    pub party: PartyEntry<'a>,
    /// Code and description (at most 128 characters), if the party could not be registered.
    pub error: Option<(ErrorCode, &'a str)>,
}

/// Appends the body of the callback that answers `GET` and `DELETE /participants/…`: `{"fspId":"greenbank"}`.
pub fn write_fsp_id(out: &mut Vec<u8>, fsp: &str) {
    out.extend_from_slice(b"{\"fspId\":");
    ByteWriter(out).text(fsp);
    out.push(b'}');
}

/// Appends the body of the callback that answers `POST` and `PUT /participants/{Type}/{ID}[/{SubId}]`.
pub fn write_party_list<'a>(
    out: &mut Vec<u8>,
    currency: Option<Currency>,
    parties: impl IntoIterator<Item = PartyEntry<'a>>,
) {
    write_list(out, currency, parties, write_entry);
}

/// Appends the body of the callback that answers `POST /participants`.
pub fn write_batch_result<'a>(
    out: &mut Vec<u8>,
    currency: Option<Currency>,
    results: impl IntoIterator<Item = BatchResult<'a>>,
) {
    write_list(out, currency, results, |out, result| {
        out.push(b'{');
        if let Some((code, description)) = result.error {
            write_error_members(out, code, description, |_| {});
            out.push(b',');
        }
        out.extend_from_slice(b"\"partyId\":");
        write_entry(out, result.party);
        out.push(b'}');
    });
}

fn write_list<T>(
    out: &mut Vec<u8>,
    currency: Option<Currency>,
    items: impl IntoIterator<Item = T>,
    write_item: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'{');
    if let Some(currency) = currency {
        out.extend_from_slice(b"\"currency\":\"");
        out.extend_from_slice(currency.as_str().as_bytes());
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"\"partyList\":[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(out, item);
    }
    out.extend_from_slice(b"]}");
}

fn write_entry(out: &mut Vec<u8>, party: PartyEntry<'_>) {
    out.push(b'{');
    if let Some(fsp) = party.fsp {
        out.extend_from_slice(b"\"fspId\":");
        ByteWriter(out).text(fsp);
        out.push(b',');
    }
    out.extend_from_slice(b"\"partyIdType\":");
    ByteWriter(out).text(party.kind);
    out.extend_from_slice(b",\"partyIdentifier\":");
    ByteWriter(out).text(party.identifier);
    if let Some(sub_id) = party.sub_id {
        out.extend_from_slice(b",\"partySubIdOrType\":");
        ByteWriter(out).text(sub_id);
    }
    out.push(b'}');
}

/// Appends the body of the callback that answers `GET /services/FXP…` (FSPIOP API v2.0): `{"providers":["fxmaker"]}`.
pub fn write_providers<'a>(out: &mut Vec<u8>, providers: impl IntoIterator<Item = &'a str>) {
    out.extend_from_slice(b"{\"providers\":[");
    for (index, provider) in providers.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        ByteWriter(out).text(provider);
    }
    out.extend_from_slice(b"]}");
}

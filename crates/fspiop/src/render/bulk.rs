//! Bodies about bulk transfers.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt::Write;

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId};

use super::{Extensions, write_error_members, write_extension_list};
use crate::byte_writer::ByteWriter;
use crate::encode_octets;

/// The fields of a `POST /bulkTransfers`, except its items.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequest<'a> {
    /// Identifies the bulk transfer.
    pub id: &'a str,
    /// Identifies the bulk quote that it executes.
    pub quote: TransferId,
    pub payer: FspId,
    pub payee: FspId,
    /// Time when the items expire.
    pub expires_at: Timestamp,
    /// Items of the extension list, as in [`Extensions::items`].
    pub extensions: Option<&'a str>,
}

/// One transfer of a `POST /bulkTransfers`.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequestItem<'a> {
    pub id: TransferId,
    /// The amount; its text if no ledger can represent it.
    pub amount: Result<Amount, &'a str>,
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

//! Bodies about bulks.

use alloc::vec::Vec;
use core::fmt::Write as _;

use upesi_ledger::{AskedItem, BulkRequest, BulkView, ItemOutcome};
use upesi_types::TransferId;

use super::{ByteWriter, Extensions, write_error_members, write_extension_list};
use crate::encode_octets;
use crate::refusal;

/// Appends the body of the `POST /bulkTransfers` that a hub makes of the items that it has reserved.
pub fn write_bulk_request(out: &mut Vec<u8>, id: &str, request: &BulkRequest) {
    let _ = write!(ByteWriter(out), "{{\"bulkQuoteId\":\"{}\",\"bulkTransferId\":", request.quote);
    ByteWriter(out).text(id);
    let _ = write!(ByteWriter(out), ",\"expiration\":\"{}\",", request.expires_at);
    write_extension_list(out, extensions(request.extensions.as_deref()));
    out.extend_from_slice(b"\"individualTransfers\":[");
    for (index, item) in request.items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(out, item);
    }
    out.extend_from_slice(b"],\"payeeFsp\":");
    ByteWriter(out).text(request.payee.as_str());
    out.extend_from_slice(b",\"payerFsp\":");
    ByteWriter(out).text(request.payer.as_str());
    out.push(b'}');
}

fn write_item(out: &mut Vec<u8>, (id, item): &(TransferId, AskedItem)) {
    out.extend_from_slice(b"{\"condition\":\"");
    out.extend_from_slice(&encode_octets(&item.condition.unwrap_or_default()));
    out.extend_from_slice(b"\",");
    write_extension_list(out, extensions(item.extensions.as_deref()));
    out.extend_from_slice(b"\"ilpPacket\":");
    ByteWriter(out).text(&item.ilp_packet);
    out.extend_from_slice(b",\"transferAmount\":{\"amount\":\"");
    let _ = match &item.amount {
        Ok(amount) => write!(ByteWriter(out), "{amount}"),
        Err((_, text)) => write!(ByteWriter(out), "{text}"),
    };
    let _ = write!(ByteWriter(out), "\",\"currency\":\"{}\"}},\"transferId\":\"{id}\"}}", item.currency);
}

/// Appends the body of a `PUT /bulkTransfers/{ID}`. An item that is not final has its id only.
pub fn write_bulk_state(out: &mut Vec<u8>, view: &BulkView) {
    out.extend_from_slice(b"{\"bulkTransferState\":");
    ByteWriter(out).text(view.state.as_str());
    if let Some(completed) = view.completed_at {
        let _ = write!(ByteWriter(out), ",\"completedTimestamp\":\"{completed}\"");
    }
    out.push(b',');
    write_extension_list(out, extensions(view.extensions.as_deref()));
    out.pop();
    for (index, (id, outcome)) in view.items.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b",\"individualTransferResults\":[" } else { b"," });
        write_outcome(out, *id, outcome);
    }
    out.extend_from_slice(if view.items.is_empty() { b"}" } else { b"]}" });
}

fn write_outcome(out: &mut Vec<u8>, id: TransferId, outcome: &ItemOutcome) {
    out.push(b'{');
    match outcome {
        ItemOutcome::Open => {}
        ItemOutcome::Failed(cause) => {
            let (code, description) = refusal::cause(cause);
            write_error_members(out, code, &description, |_| {});
            out.push(b',');
        }
        ItemOutcome::Fulfilled { fulfilment, extensions: items } => {
            write_extension_list(out, extensions(items.as_deref()));
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

//! Bodies that name a party's DFSP (FSPIOP API v1.1 §6.2.4), or the providers of a service.

use alloc::vec::Vec;

use upesi_types::{Currency, ErrorCode};

use super::write_error_members;
use crate::byte_writer::ByteWriter;

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

//! The bodies of the oracle HTTP interface.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use upesi_delivery::relayed::ErrorInformation;
use upesi_http::Bytes;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{BatchInquiry, BatchOutcome, OracleFailure, OracleRequest};
use upesi_parties::party::{DirectoryEntry, Owner};

/// Maximum number of entries of an answer that are read; no party has that many accounts.
pub const OWNERS_MAX: usize = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    fsp_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<&'a str>,
}

/// The body of a registration or change. It contains the sub id, which is not in the path.
pub(super) fn registration(inquiry: &OracleRequest<'_>, owner: FspId) -> Bytes {
    let sub_id = inquiry.party.sub_id_text();
    to_json(&Registration {
        fsp_id: owner.as_str(),
        currency: inquiry.currency.as_ref().map(Currency::as_str),
        party_sub_id_or_type: sub_id.as_deref(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Batch<'a> {
    request_id: &'a str,
    party_list: Vec<PartyId<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyId<'a> {
    #[serde(borrow)]
    party_id_type: Cow<'a, str>,
    #[serde(borrow)]
    party_identifier: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fsp_id: Option<Cow<'a, str>>,
}

/// The body of a batch.
pub(super) fn batch(batch: &BatchInquiry<'_>) -> Bytes {
    let party = |entry: &'_ DirectoryEntry| PartyId {
        party_id_type: entry.kind.as_str().into(),
        party_identifier: entry.id.to_string().into(),
        party_sub_id_or_type: entry.sub_id.as_deref().map(|sub_id| sub_id.to_owned().into()),
        fsp_id: Some(entry.fsp.as_str().to_owned().into()),
    };
    to_json(&Batch {
        request_id: batch.request_id,
        party_list: batch.entries.iter().map(party).collect(),
        currency: batch.currency.as_ref().map(Currency::as_str),
    })
}

fn to_json(body: &impl Serialize) -> Bytes {
    // Serialization of texts and lists cannot fail.
    serde_json::to_vec(body).unwrap_or_default().into()
}

fn garbage(error: &serde_json::Error) -> OracleFailure {
    OracleFailure::NotUnderstood { reason: error.to_string() }
}

#[derive(Deserialize)]
struct PartyList<T> {
    #[serde(rename = "partyList")]
    list: Vec<T>,
}

#[derive(Deserialize)]
struct FoundOwner<'a> {
    #[serde(borrow, rename = "fspId")]
    fsp: Cow<'a, str>,
    #[serde(borrow, default)]
    currency: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "partySubIdOrType")]
    sub_id: Option<Cow<'a, str>>,
}

/// Reads the answer to a lookup, at most [`OWNERS_MAX`] entries of it. Entries whose name is not a valid DFSP name are
/// ignored.
///
/// Errors: the body is not an oracle's answer.
pub fn read_owners(body: &[u8]) -> Result<Vec<Owner>, OracleFailure> {
    let found: PartyList<FoundOwner<'_>> = serde_json::from_slice(body).map_err(|error| garbage(&error))?;
    let owner = |found: FoundOwner<'_>| {
        Some(Owner {
            fsp: FspId::parse(&found.fsp)?,
            currency: found.currency.as_deref().and_then(Currency::parse),
            sub_id: found.sub_id.filter(|sub_id| !sub_id.is_empty()).map(Into::into),
        })
    };
    Ok(found.list.into_iter().take(OWNERS_MAX).filter_map(owner).collect())
}

#[derive(Deserialize)]
struct BatchResult<'a> {
    #[serde(borrow, rename = "partyId")]
    party: PartyId<'a>,
    #[serde(borrow, default, rename = "errorInformation")]
    error: Option<BatchError<'a>>,
}

#[derive(Deserialize)]
struct BatchError<'a> {
    #[serde(borrow, rename = "errorCode")]
    code: Cow<'a, str>,
    #[serde(borrow, default, rename = "errorDescription")]
    description: Cow<'a, str>,
}

/// Reads the answer to a batch: the outcome of each entry, in their order. An entry that it does not name was not
/// registered (3003).
///
/// Errors: the body is not an oracle's answer.
pub fn read_batch(body: &[u8], entries: &[DirectoryEntry]) -> Result<BatchOutcome, OracleFailure> {
    let read: PartyList<BatchResult<'_>> = serde_json::from_slice(body).map_err(|error| garbage(&error))?;
    let mut named = HashMap::with_capacity(read.list.len());
    for result in &read.list {
        let party = &result.party;
        let key = (&*party.party_id_type, &*party.party_identifier, party.party_sub_id_or_type.as_deref());
        named.insert(key, &result.error);
    }
    let refused = |error: &BatchError<'_>| {
        let error = ErrorInformation::from_wire(&error.code, &error.description);
        error.unwrap_or_else(|| ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, ""))
    };
    let outcome =
        |entry: &DirectoryEntry| match named.get(&(entry.kind.as_str(), &*entry.id, entry.sub_id.as_deref()))
        {
            Some(None) => Ok(()),
            Some(Some(error)) => Err(refused(error)),
            None => Err(ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, "")),
        };
    Ok(entries.iter().map(outcome).collect())
}

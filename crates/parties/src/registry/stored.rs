//! Storage of an oracle: by its number, as readable JSON.

use serde::{Deserialize, Serialize};
use upesi_types::{Currency, Timestamp};

use super::OracleSpec;
use super::oracles::Oracle;
use crate::party::PartyIdType;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored<'a> {
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    currency: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    url: std::borrow::Cow<'a, str>,
    is_default: bool,
    created_at_ms: i64,
    is_active: bool,
}

pub(super) fn oracle_key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

pub(super) fn encode_oracle(oracle: &Oracle) -> Vec<u8> {
    let stored = Stored {
        kind: oracle.spec.kind.as_str().into(),
        currency: oracle.spec.currency.as_ref().map(|currency| currency.as_str().into()),
        url: (&*oracle.spec.url).into(),
        is_default: oracle.spec.is_default,
        created_at_ms: oracle.created_at.as_ms(),
        is_active: oracle.is_active,
    };
    // Serialization of texts, numbers and flags cannot fail.
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// Decodes an oracle; `None` if [`encode_oracle`] did not create it.
pub(super) fn decode_oracle(oracle_key: &[u8], value: &[u8]) -> Option<Oracle> {
    let id = u32::from_be_bytes(oracle_key.try_into().ok()?);
    let stored: Stored<'_> = serde_json::from_slice(value).ok()?;
    let currency = match &stored.currency {
        Some(text) => Some(Currency::parse(text)?),
        None => None,
    };
    let spec = OracleSpec {
        kind: PartyIdType::parse(&stored.kind)?,
        currency,
        url: stored.url.into(),
        is_default: stored.is_default,
    };
    let created_at = Timestamp::from_ms(stored.created_at_ms);
    Some(Oracle { id, spec, created_at, is_active: stored.is_active })
}

//! Stored quotes as operators see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use upesi_fspiop::Resource;
use upesi_fspiop::headers::Block;
use upesi_tables::TablesError;
use upesi_types::{FspId, Timestamp, TransferId};

use crate::json::Instant;

/// A stored quote for operators.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuoteView {
    resource: &'static str,
    id: String,
    began_date: Instant,
    wanted_until: Option<Instant>,
    pub request: Option<MessageView>,
    /// The answer with the terms.
    pub response: Option<MessageView>,
    /// The last error about it, from a DFSP or from the hub.
    pub error: Option<MessageView>,
}

/// A message of a stored quote.
#[derive(Clone, Debug, Serialize)]
pub struct MessageView {
    at: Instant,
    source: String,
    destination: Option<String>,
    headers: BTreeMap<String, String>,
    /// Byte for byte, so that its signature can be verified; `None` if it is not text.
    body: Option<String>,
}

impl QuoteView {
    /// A quote without messages yet.
    pub fn new(
        resource: Resource,
        id: TransferId,
        began_at: Timestamp,
        wanted_until: Option<Timestamp>,
    ) -> Self {
        Self {
            resource: resource.as_str(),
            id: id.to_string(),
            began_date: Instant(began_at),
            wanted_until: wanted_until.map(Instant),
            request: None,
            response: None,
            error: None,
        }
    }
}

impl MessageView {
    /// A message with its header block, `name: value` lines, and its body as received.
    pub fn new(
        at: Timestamp,
        source: FspId,
        destination: Option<FspId>,
        header_block: &[u8],
        body: Vec<u8>,
    ) -> Self {
        let mut headers = BTreeMap::<String, String>::new();
        // Header blocks never contain credentials.
        for (name, value) in Block(header_block).iter() {
            let value = String::from_utf8_lossy(value);
            let name = String::from_utf8_lossy(name).into_owned();
            let values = headers.entry(name).or_default();
            if !values.is_empty() {
                values.push_str(", ");
            }
            values.push_str(&value);
        }
        Self {
            at: Instant(at),
            source: source.to_string(),
            destination: destination.map(|name| name.to_string()),
            headers,
            body: String::from_utf8(body).ok(),
        }
    }
}

/// Finds a stored quote by its id.
pub type FindQuote = Arc<dyn Fn(&str) -> Result<Option<QuoteView>, TablesError> + Send + Sync>;

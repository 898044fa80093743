//! `GET /quotes/{id}`: a kept quote as operators see it.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_fspiop::headers::Block;
use upesi_quoting::{KeptMessage, KeptQuote};
use upesi_types::ErrorCode;

use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::Segments;
use crate::json::{Instant, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QuoteView {
    /// `quotes`, `bulkQuotes` or `fxQuotes`.
    resource: &'static str,
    id: String,
    began_date: Instant,
    wanted_until: Option<Instant>,
    request: Option<MessageView>,
    response: Option<MessageView>,
    error: Option<MessageView>,
}

#[derive(Serialize)]
struct MessageView {
    at: Instant,
    source: String,
    destination: Option<String>,
    headers: BTreeMap<String, String>,
    /// Byte for byte, so that its signature can be verified; `None` where it is no text.
    body: Option<String>,
}

pub(crate) async fn get(
    State(context): State<AdminContext>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let find = context
        .quotes
        .as_ref()
        .ok_or_else(|| not_kept("This hub keeps no quotes, as quotes.persist is off".to_owned()))?;
    match find(&id)? {
        Some(quote) => ok(&QuoteView::of(quote)),
        None => Err(not_kept(format!("No quote {id} is kept"))),
    }
}

fn not_kept(detail: String) -> ApiError {
    ApiError { status: StatusCode::NOT_FOUND, ..ApiError::new(ErrorCode::QUOTE_NOT_FOUND, &detail) }
}

impl QuoteView {
    fn of(quote: KeptQuote) -> Self {
        Self {
            resource: quote.resource.as_str(),
            id: quote.id.to_string(),
            began_date: Instant(quote.began_at),
            wanted_until: quote.wanted_until.map(Instant),
            request: quote.request.map(MessageView::of),
            response: quote.response.map(MessageView::of),
            error: quote.error.map(MessageView::of),
        }
    }
}

impl MessageView {
    fn of(message: KeptMessage) -> Self {
        let mut headers = BTreeMap::<String, String>::new();
        // Credentials never come into a header block.
        for (name, value) in Block(&message.headers).iter() {
            let value = String::from_utf8_lossy(value);
            let name = String::from_utf8_lossy(name).into_owned();
            let values = headers.entry(name).or_default();
            if !values.is_empty() {
                values.push_str(", ");
            }
            values.push_str(&value);
        }
        Self {
            at: Instant(message.at),
            source: message.source.to_string(),
            destination: message.destination.map(|name| name.to_string()),
            headers,
            body: String::from_utf8(message.body).ok(),
        }
    }
}

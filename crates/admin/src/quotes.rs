//! `GET /quotes/{id}`: a stored quote for operators.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::call::Segments;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::ok;
use crate::stored_quote::FindQuote;

pub(crate) async fn get(
    State(quotes): State<Option<FindQuote>>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let find = quotes.ok_or_else(|| {
        not_kept(ErrorName::QuotesOff, "This hub does not store quotes, because quotes.persist is off")
    })?;
    match find(&id)? {
        Some(quote) => ok(&quote),
        None => Err(not_kept(ErrorName::QuoteNotFound, &format!("The hub has no quote {id}"))),
    }
}

fn not_kept(name: ErrorName, detail: &str) -> ApiError {
    ApiError { status: StatusCode::NOT_FOUND, ..ApiError::new(name, detail) }
}

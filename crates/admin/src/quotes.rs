//! `GET /quotes/{id}`: a stored quote for operators.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use upesi_types::ErrorCode;

use super::call::Segments;
use crate::error::ApiError;
use crate::json::ok;
use crate::stored_quote::FindQuote;

pub(crate) async fn get(
    State(quotes): State<Option<FindQuote>>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let find =
        quotes.ok_or_else(|| not_kept("This hub keeps no quotes, as quotes.persist is off".to_owned()))?;
    match find(&id)? {
        Some(quote) => ok(&quote),
        None => Err(not_kept(format!("No quote {id} is kept"))),
    }
}

fn not_kept(detail: String) -> ApiError {
    ApiError { status: StatusCode::NOT_FOUND, ..ApiError::new(ErrorCode::QUOTE_NOT_FOUND, &detail) }
}

//! `GET /quotes/{id}`: a stored quote for operators.

use axum::http::StatusCode;
use axum::response::Response;

use super::call::Segments;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::ok;

pub(crate) async fn get(Call(context): Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    let find = context.quotes.as_ref().ok_or_else(|| {
        not_kept(ErrorName::QuotesOff, "This hub keeps no quotes, as quotes.persist is off")
    })?;
    match find(&id)? {
        Some(quote) => ok(&quote),
        None => Err(not_kept(ErrorName::QuoteNotFound, &format!("No quote {id} is kept"))),
    }
}

fn not_kept(name: ErrorName, detail: &str) -> ApiError {
    ApiError { status: StatusCode::NOT_FOUND, ..ApiError::new(name, detail) }
}

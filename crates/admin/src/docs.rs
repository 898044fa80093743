//! `/openapi.yaml` and `/docs`: this API, described.

use axum::body::Body;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use upesi_apidocs::Surface;

use crate::error::ApiError;

pub(crate) async fn get(uri: Uri, headers: HeaderMap) -> Response {
    match Surface::Admin.file(uri.path()) {
        Some(file) => file.answer(&headers).map(Body::from),
        None => ApiError::unknown_path().into_response(),
    }
}

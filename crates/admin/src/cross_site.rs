//! What a page in an operator's browser may make it send: nothing, unless the page is this port's own.

use axum::http::HeaderValue;
use axum::http::header::{HOST, ORIGIN};
use upesi_http::{HeaderMap, Method, Request, StatusCode};
use upesi_types::ErrorCode;

use crate::error::ApiError;

/// Refuses a request that a page of another site caused. Programs that are no browsers send neither header. A link from
/// elsewhere to a page of this port is followed: that shows something and changes nothing.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), ApiError> {
    let headers = request.headers();
    let is_foreign =
        is_of_another_site(headers) || headers.get_all(ORIGIN).iter().any(|one| !is_own(one, headers));
    if is_foreign && !(request.method() == Method::GET && is_navigation(headers)) {
        let error = ApiError::new(ErrorCode::CLIENT, "A page of another site caused this request");
        return Err(ApiError { status: StatusCode::FORBIDDEN, ..error });
    }
    Ok(())
}

/// By what the browser says of the site: no page can change that.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let known = |value: &HeaderValue| value == "same-origin" || value == "none";
    headers.get_all("sec-fetch-site").iter().any(|value| !known(value))
}

/// Whether an origin is the host that the request names, by whatever scheme: one of TLS may end before this port.
fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Some((scheme, host)) = origin.to_str().ok().and_then(|text| text.split_once("://")) else {
        return false;
    };
    let named = headers.get(HOST).and_then(|value| value.to_str().ok());
    matches!(scheme, "http" | "https") && named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|value| value == "navigate") && !headers.contains_key(ORIGIN)
}

//! Answers: empty successes, error objects, and the texts of the operational endpoints.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use upesi_fspiop::SyncError;
use upesi_http::server::Refusal;
use upesi_http::{BodyError, Full};
use upesi_types::ErrorCode;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// An answer is valid only at its time. Mojaloop sends the same header.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Value of `Retry-After` in seconds, unless the sender's rate limit demands a longer wait.
pub(crate) const RETRY_AFTER_S: u64 = 1;
const SOON: HeaderValue = HeaderValue::from_static("1");

pub(crate) type Answer = Response<Full<Bytes>>;

/// A success. FSPIOP answers are empty; results follow by callback.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    answer
}

fn with_body(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    answer
}

pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    with_body(status, JSON, body)
}

pub(crate) fn plain_text(body: &'static str) -> Answer {
    with_body(StatusCode::OK, PLAIN_TEXT, Bytes::from_static(body.as_bytes()))
}

/// An error object (FSPIOP API v1.1 §7.6).
pub(crate) fn refusal(error: &SyncError) -> Answer {
    refusal_with_body(error, error.to_body())
}

/// An error object whose body is already rendered.
pub(crate) fn refusal_with_body(error: &SyncError, body: impl Into<Bytes>) -> Answer {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(status, body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        answer.headers_mut().insert(RETRY_AFTER, SOON);
    }
    if status == StatusCode::REQUEST_TIMEOUT {
        // The rest of the body may still arrive, and cannot be distinguished from the next request.
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Rejects the method. `Allow` lists the methods of the path.
pub(crate) fn refusal_with_allow(error: &SyncError, allow: Option<&str>) -> Answer {
    let mut answer = refusal(error);
    if let Some(allow) = allow.and_then(|allow| HeaderValue::from_str(allow).ok()) {
        answer.headers_mut().insert(ALLOW, allow);
    }
    answer
}

/// Error 2005 with status 503.
pub(crate) fn busy() -> SyncError {
    SyncError::new(ErrorCode::SERVER_BUSY, "try again later")
}

/// The error for a request that violates HTTP.
pub(crate) fn forbidden_by_http(refusal: &Refusal) -> SyncError {
    let status = refusal.status.as_u16();
    SyncError { status, ..SyncError::new(ErrorCode::MALFORMED_SYNTAX, refusal.reason) }
}

/// The error for a body that could not be read.
pub(crate) fn unreadable_body(error: BodyError, body_bytes_max: usize) -> SyncError {
    match error {
        BodyError::TooLarge => SyncError::payload_too_large(body_bytes_max),
        BodyError::TimedOut => SyncError {
            status: StatusCode::REQUEST_TIMEOUT.as_u16(),
            ..SyncError::new(ErrorCode::SERVER_TIMED_OUT, "the request body was not received in time")
        },
        BodyError::Broken => {
            SyncError::new(ErrorCode::MALFORMED_SYNTAX, "the request body ended before it was complete")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_503_have_retry_after() {
        for (code, status) in
            [(ErrorCode::SERVER_BUSY, 503), (ErrorCode::UNAVAILABLE, 503), (ErrorCode::INTERNAL, 500)]
        {
            let answer = refusal(&SyncError::new(code, ""));
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers()[CONTENT_TYPE], "application/json; charset=utf-8");
            assert_eq!(answer.headers().contains_key(RETRY_AFTER), status == 503);
        }
    }

    #[test]
    fn unreadable_bodies_map_to_statuses() {
        for (error, status, code, closes) in [
            (BodyError::TooLarge, 400, 3104, false),
            (BodyError::TimedOut, 408, 2004, true),
            (BodyError::Broken, 400, 3101, false),
        ] {
            let error = unreadable_body(error, 10);
            assert_eq!((error.status, error.code.number()), (status, code));
            assert_eq!(refusal(&error).headers().contains_key(CONNECTION), closes);
        }
    }
}

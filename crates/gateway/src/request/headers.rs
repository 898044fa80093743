//! The headers of a request, read by the protocol's rules and stored as a block.

use bytes::Bytes;
use http::HeaderMap;
use upesi_fspiop::SyncError;
use upesi_fspiop::headers::HeaderLookup;
use upesi_http::{body, header_block};
use upesi_types::ErrorCode;

/// Headers that determine decisions of the hub. A second one could make two readers of a request see different
/// requests, so it is rejected, even if both have the same value.
const SINGLE: [&str; 10] = [
    "content-type",
    "date",
    "fspiop-source",
    "fspiop-destination",
    "fspiop-proxy",
    "fspiop-uri",
    "fspiop-http-method",
    "fspiop-signature",
    "traceparent",
    "x-client-id",
];

/// Bodies up to this size are copied next to their headers. A body is a slice of the connection's buffer: the copy
/// frees the buffer, and uses only the memory that the request needs. Above this size the copy would cost more than it
/// saves.
const COPIED_BODY_BYTES_MAX: usize = 16 * 1024;

pub(crate) struct Lookup<'a>(pub(crate) &'a HeaderMap);

impl HeaderLookup for Lookup<'_> {
    fn get_all<'a>(&'a self, lower_case_name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.get_all(lower_case_name).iter().map(http::HeaderValue::as_bytes)
    }
}

/// Rejects a header of [`SINGLE`] that occurs more than once: 400 with 3101. All other headers may repeat and are
/// forwarded.
pub(super) fn refuse_repeated(headers: &HeaderMap) -> Result<(), SyncError> {
    if headers.keys_len() == headers.len() {
        return Ok(());
    }
    let repeated = SINGLE.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some());
    match repeated {
        None => Ok(()),
        Some(name) => {
            let detail = format!("/header/{name} must occur only once");
            Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail))
        }
    }
}

/// Rejects a body in a coding other than `identity`: 400 with 3101. The hub reads bodies and forwards them unchanged,
/// so it would have to decode each body that the receiver decodes again.
pub(crate) fn refuse_encoded(headers: &HeaderMap) -> Result<(), SyncError> {
    match body::is_encoded(headers) {
        true => Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, "/header/content-encoding must be identity")),
        false => Ok(()),
    }
}

/// A request's header block and its exact body, in one allocation if that is cheap.
pub(super) fn beside_headers(headers: &HeaderMap, body: Bytes) -> (Bytes, Bytes) {
    let copied = if body.len() <= COPIED_BODY_BYTES_MAX { body.len() } else { 0 };
    let mut bytes = Vec::with_capacity(block_bytes(headers) + copied);
    header_block::to_block(headers, &mut bytes);
    let block_end = bytes.len();
    if copied == 0 {
        return (Bytes::from(bytes), body);
    }
    bytes.extend_from_slice(&body);
    let mut block = Bytes::from(bytes);
    let body = block.split_off(block_end);
    (block, body)
}

/// The exact length of the block.
fn block_bytes(headers: &HeaderMap) -> usize {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| name.as_str().len() + value.len() + 4;
    header_block::passed_on(headers).map(line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn repeated_single_value_headers_are_rejected() {
        for name in SINGLE {
            let error = refuse_repeated(&headers(&[(name, "a"), ("host", "h"), (name, "a")])).unwrap_err();
            assert_eq!((error.status, error.code), (400, ErrorCode::MALFORMED_SYNTAX), "{name}");
            assert!(error.description.contains(name), "{}", error.description);
            assert_eq!(refuse_repeated(&headers(&[(name, "a"), ("x-a", "1"), ("x-a", "2")])), Ok(()));
        }
    }

    #[test]
    fn payload_has_the_header_block_and_the_exact_body() {
        let headers = headers(&[
            ("host", "hub"),
            ("fspiop-source", "greenbank"),
            ("content-length", "7"),
            ("x-twice", "1"),
            ("x-twice", ""),
        ]);
        let mut block = Vec::new();
        header_block::to_block(&headers, &mut block);
        assert_eq!(block.len(), block_bytes(&headers));
        for length in [0, 1, COPIED_BODY_BYTES_MAX, COPIED_BODY_BYTES_MAX + 1] {
            let body = Bytes::from(vec![b'x'; length]);
            assert_eq!(beside_headers(&headers, body.clone()), (Bytes::from(block.clone()), body));
        }
    }
}

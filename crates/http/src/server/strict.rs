//! Rejects requests that hyper accepts although HTTP forbids them.

use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version};

use super::HEADERS_MAX;

/// Reason why HTTP forbids a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 417, 431 or 501.
    pub status: StatusCode,
    /// Description of the fault.
    pub reason: &'static str,
}

const fn refuse(status: StatusCode, reason: &'static str) -> Option<Refusal> {
    Some(Refusal { status, reason })
}

/// Rejects a request without exactly one valid `Host` (RFC 9112 §3.2), with a transfer coding other than `chunked`
/// alone (§6.1: 501, or 400 if it is chunked twice), or with an expectation other than `100-continue` (RFC 9110
/// §10.1.1).
pub(super) fn refusal_of<B>(request: &Request<B>) -> Option<Refusal> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return refuse(StatusCode::BAD_REQUEST, "Host must occur only once"),
        (Some(host), None) if !is_host(host.as_bytes()) => {
            return refuse(StatusCode::BAD_REQUEST, "Host must be a host and perhaps a port");
        }
        (None, _) if request.version() >= Version::HTTP_11 => {
            return refuse(StatusCode::BAD_REQUEST, "Host is required");
        }
        _ => {}
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(coding), None) if is_text(coding.as_bytes(), "chunked") => {}
        _ => {
            let mut all = headers
                .get_all(TRANSFER_ENCODING)
                .iter()
                .flat_map(|line| line.as_bytes().split(|&b| b == b','));
            let is_twice = all.all(|coding| is_text(coding, "chunked"));
            let status = if is_twice { StatusCode::BAD_REQUEST } else { StatusCode::NOT_IMPLEMENTED };
            return refuse(status, "Transfer-Encoding must be chunked, and nothing else");
        }
    }
    if request.version() >= Version::HTTP_11
        && headers.get_all(EXPECT).iter().any(|expected| !is_text(expected.as_bytes(), "100-continue"))
    {
        return refuse(StatusCode::EXPECTATION_FAILED, "Expect may be 100-continue only");
    }
    None
}

/// Converts an HTTP/2 request to the form of HTTP/1.1, with a path as its target and its authority as `Host`, or
/// rejects it. It must have one authority (RFC 9113 §8.3.1), one length, and at most the headers of HTTP/1.1, and must
/// not open a tunnel. The library has already rejected headers that concern a connection.
pub(super) fn normalise<B>(request: &mut Request<B>) -> Option<Refusal> {
    // An HTTP/1.1 request would also have these two headers.
    let besides = [HOST, CONTENT_LENGTH].iter().filter(|name| !request.headers().contains_key(*name)).count();
    if request.headers().len() + besides > HEADERS_MAX {
        return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has too many headers");
    }
    if request.method() == Method::CONNECT {
        return refuse(StatusCode::NOT_IMPLEMENTED, "CONNECT is not served");
    }
    if request.uri().scheme_str().is_some_and(|scheme| !matches!(scheme, "https" | "http")) {
        return refuse(StatusCode::BAD_REQUEST, ":scheme must be https or http");
    }
    if request.headers().get_all(CONTENT_LENGTH).iter().count() > 1 {
        return refuse(StatusCode::BAD_REQUEST, "Content-Length must occur only once");
    }
    if let Some(authority) = request.uri().authority() {
        let authority = authority.as_str();
        match request.headers().get(HOST) {
            Some(host) if !is_text(host.as_bytes(), authority) => {
                return refuse(StatusCode::BAD_REQUEST, "Host must equal :authority");
            }
            Some(_) => {}
            None => {
                let Ok(host) = HeaderValue::from_str(authority) else {
                    return refuse(StatusCode::BAD_REQUEST, ":authority must be a host and perhaps a port");
                };
                request.headers_mut().insert(HOST, host);
            }
        }
    }
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    refusal_of(request)
}

fn is_text(value: &[u8], text: &str) -> bool {
    value.trim_ascii().eq_ignore_ascii_case(text.as_bytes())
}

/// `uri-host [ ":" port ]` of an `http` URI, with a host that is not empty (RFC 9110 §4.2.1, §7.2).
fn is_host(value: &[u8]) -> bool {
    let (host, after) = match value {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|&byte| byte == b']') else { return false };
            let is_literal = rest[..end]
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b":.-_~!$&'()*+,;=".contains(byte));
            (if is_literal { &rest[..end] } else { &[] }, &rest[end + 1..])
        }
        _ => {
            let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
            let is_name = value[..end]
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte));
            (if is_name { &value[..end] } else { &[] }, &value[end..])
        }
    };
    let is_port = match after {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    !host.is_empty() && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_header_is_a_host_with_an_optional_port() {
        for (host, sound) in [
            ("hub", true),
            ("hub.example:4000", true),
            ("127.0.0.1:65535", true),
            ("[::1]", true),
            ("[::1]:4000", true),
            ("hub:", true),
            ("a_b-c~d%20!", true),
            ("", false),
            (":4000", false),
            ("hub:port", false),
            ("hub:123456", false),
            ("hub:1:2", false),
            ("hub/path", false),
            ("me@hub", false),
            ("hub hub", false),
            ("hub,hub", true),
            ("[::1", false),
            ("[]", false),
            ("[::1]x", false),
            ("::1", false),
            ("h\u{fc}b", false),
        ] {
            assert_eq!(is_host(host.as_bytes()), sound, "{host}");
        }
    }
}

//! Header blocks: the headers of a message as bytes, stored beside its body.
//!
//! A block repeats `name: value\r\n`, with names in lower case, in the order of the message. It leaves out headers that
//! concern only one connection or one side of it, and headers that the next sender computes.

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue};

macro_rules! not_passed_on {
    ($($name:literal),*) => {
        /// Names that are never part of a block. They concern a single hop (RFC 9110 §7.6.1), are computed by each
        /// sender, or are credentials for the receiver of the message only. Others describe the client's side and were
        /// added before the hub, by a gateway of the client or of the hub. Also left out are the name of the client's
        /// software, headers about its own response (coding, language, range, conditions), and the headers that
        /// `Connection` names.
        pub const NOT_PASSED_ON: &[&str] = &[$($name),*];

        /// Whether a header (name in lower case) is left out of all blocks.
        pub fn is_not_passed_on(name: &str) -> bool {
            matches!(name, $($name)|*)
        }
    };
}

not_passed_on!(
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "content-length",
    "connection",
    "proxy-connection",
    "transfer-encoding",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "x-api-key",
    "x-client-id",
    "x-forwarded-for",
    "x-real-ip",
    "forwarded",
    "user-agent",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "range",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since"
);

/// The headers of FSPIOP API v1.1 §3.2.1 that HTTP itself does not define, and the headers of W3C Trace Context. All
/// are static names, so that reading a block does not allocate them.
const KNOWN: [HeaderName; 9] = [
    HeaderName::from_static("fspiop-source"),
    HeaderName::from_static("fspiop-destination"),
    HeaderName::from_static("fspiop-uri"),
    HeaderName::from_static("fspiop-http-method"),
    HeaderName::from_static("fspiop-signature"),
    HeaderName::from_static("fspiop-encryption"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("fspiop-proxy"),
];

/// The block does not consist of lines of the form `name: value\r\n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header block is malformed at byte {at}")]
pub struct HeaderBlockError {
    /// Offset of the line that could not be read.
    pub at: usize,
}

/// The headers of a message that belong to its block.
pub fn passed_on(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    // Nearly all messages with this header name only fields that are left out anyway.
    let names_more = headers.get_all(CONNECTION).iter().any(|value| names_fields(value.as_bytes()));
    headers.iter().filter(move |(name, _)| {
        let is_of_one_hop = names_more && is_named_by_connection(headers, name.as_str());
        !is_of_one_hop && !is_not_passed_on(name.as_str())
    })
}

/// Whether a value of `Connection` names fields, in addition to options of the connection.
fn names_fields(value: &[u8]) -> bool {
    !value.eq_ignore_ascii_case(b"keep-alive") && !value.eq_ignore_ascii_case(b"close")
}

/// Whether `Connection` lists this header as one for the next hop only (RFC 9110 §7.6.1).
fn is_named_by_connection(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut options = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

/// Appends the forwarded headers of a message to `block`.
pub fn to_block(headers: &HeaderMap, block: &mut Vec<u8>) {
    for (name, value) in passed_on(headers) {
        append(block, name.as_str(), value.as_bytes());
    }
}

/// Appends one header. The name must be in lower case; neither part may contain a line break.
pub fn append(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    block.reserve(name.len() + value.len() + 4);
    block.extend_from_slice(name.as_bytes());
    block.extend_from_slice(b": ");
    block.extend_from_slice(value);
    block.extend_from_slice(b"\r\n");
}

/// Reads a block into a map whose values are slices of the block, not copies.
pub fn from_block(block: &Bytes) -> Result<HeaderMap, HeaderBlockError> {
    let mut headers = HeaderMap::with_capacity(16);
    for (name, value) in lines(block) {
        let (name, value) = (name?, value);
        let name = header_name(&block[name.start..name.end]).ok_or(HeaderBlockError { at: name.start })?;
        let at = value.start;
        let value =
            HeaderValue::from_maybe_shared(block.slice(value)).map_err(|_| HeaderBlockError { at })?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// The value of the first header with this name (in lower case), without parsing the rest into a map. `None` also if
/// the block is malformed before it.
pub fn find<'block>(block: &'block [u8], name: &str) -> Option<&'block [u8]> {
    for (found, value) in lines(block) {
        let found = found.ok()?;
        if &block[found] == name.as_bytes() {
            return Some(&block[value]);
        }
    }
    None
}

fn header_name(name: &[u8]) -> Option<HeaderName> {
    if let Some(known) = KNOWN.iter().find(|known| known.as_str().as_bytes() == name) {
        return Some(known.clone());
    }
    // This also accepts upper case, which a block must not contain; the map would fold it silently.
    HeaderName::from_bytes(name).ok().filter(|read| read.as_str().as_bytes() == name)
}

type Range = std::ops::Range<usize>;

fn lines(block: &[u8]) -> impl Iterator<Item = (Result<Range, HeaderBlockError>, Range)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= block.len() {
            return None;
        }
        let rest = &block[at..];
        let start = at;
        let line = memchr::memchr(b'\r', rest).filter(|&end| rest.get(end + 1) == Some(&b'\n'));
        let colon = line.and_then(|end| memchr::memchr(b':', &rest[..end]));
        match (line, colon) {
            (Some(end), Some(colon)) if rest[colon + 1..end].first() == Some(&b' ') => {
                at = start + end + 2;
                Some((Ok(start..start + colon), start + colon + 2..start + end))
            }
            _ => {
                at = block.len();
                Some((Err(HeaderBlockError { at: start }), start..start))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_contains_all_headers_except_those_of_one_hop() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("fspiop-source", "greenbank"),
            ("content-type", "application/vnd.interoperability.transfers+json;version=1.1"),
            ("accept", "a"),
            ("accept", "b"),
            ("x-own", "caf\u{e9}"),
            ("empty", ""),
        ] {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        let mut with_hops = headers.clone();
        for name in NOT_PASSED_ON {
            with_hops.insert(*name, HeaderValue::from_static("x"));
        }
        let mut block = Vec::new();
        to_block(&with_hops, &mut block);
        let block = Bytes::from(block);
        assert_eq!(from_block(&block).unwrap(), headers);
        // Headers about the response to one DFSP must not change the response to another.
        for name in ["user-agent", "accept-encoding", "range", "if-none-match", "if-match", "if-range"] {
            assert_eq!(find(&block, name), None, "{name}");
        }
        assert_eq!(find(&block, "fspiop-source"), Some(&b"greenbank"[..]));
        assert_eq!(find(&block, "accept"), Some(&b"a"[..]));
        assert_eq!(find(&block, "empty"), Some(&b""[..]));
        assert_eq!(find(&block, "host"), None);
    }

    #[test]
    fn headers_named_by_connection_are_not_forwarded() {
        for (connections, left) in [
            (&[][..], "x-a x-b date"),
            (&["keep-alive"], "x-a x-b date"),
            (&["Close"], "x-a x-b date"),
            (&["X-A"], "x-b date"),
            (&["keep-alive, x-a ,X-B"], "date"),
            (&["close", "x-b"], "x-a date"),
            (&["", " ,date"], "x-a x-b"),
            (&["x"], "x-a x-b date"),
        ] {
            let mut headers = HeaderMap::new();
            for name in ["x-a", "x-b", "date", "x-real-ip"] {
                headers.append(name, HeaderValue::from_static("v"));
            }
            for connection in connections {
                headers.append(CONNECTION, HeaderValue::from_static(connection));
            }
            let names: Vec<_> = passed_on(&headers).map(|(name, _)| name.as_str()).collect();
            assert_eq!(names.join(" "), left, "{connections:?}");
        }
    }

    #[test]
    fn values_are_slices_of_the_block() {
        let block = Bytes::from_static(b"date: today\r\n");
        let headers = from_block(&block).unwrap();
        assert_eq!(headers["date"].as_bytes().as_ptr(), block[6..].as_ptr());
    }

    #[test]
    fn malformed_block_error_has_the_position() {
        for (block, at) in [
            (&b"date: today"[..], 0),
            (b"date: today\n", 0),
            (b"date today\r\n", 0),
            (b"date:today\r\n", 0),
            (b"a: b\r\nDate: today\r\n", 6),
            (b"a: b\r\n: today\r\n", 6),
            (b"a: b\r\n\r\n", 6),
            (b"a: \x00\r\n", 3),
        ] {
            assert_eq!(from_block(&Bytes::copy_from_slice(block)), Err(HeaderBlockError { at }), "{block:?}");
        }
        assert!(from_block(&Bytes::new()).unwrap().is_empty());
    }
}

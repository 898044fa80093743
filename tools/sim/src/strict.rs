//! A strict adapter's checks of a message's head. They follow the API's tables of headers (FSPIOP API v1.1 §3.2) and
//! not the hub's code: the hub must not send a message to a DFSP that it would reject from one.

use upesi_http::{HeaderMap, Method, StatusCode, header};
use upesi_types::{ErrorCode, Timestamp};

use crate::message::{self, Family};

/// Maximum length of a DFSP's name, in characters.
const NAME_CHARS_MAX: usize = 32;

/// The reason why an adapter rejects a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdapterRejection {
    pub code: ErrorCode,
    pub header: &'static str,
}

impl AdapterRejection {
    fn missing(header: &'static str) -> Self {
        Self { code: ErrorCode::MISSING_ELEMENT, header }
    }

    fn malformed(header: &'static str) -> Self {
        Self { code: ErrorCode::MALFORMED_SYNTAX, header }
    }

    /// The adapter's answer.
    pub fn answer(self) -> (StatusCode, String) {
        let description = format!("{} - {}", self.code.text().unwrap_or_default(), self.header);
        let code = self.code.number();
        let error = serde_json::json!({"errorInformation": {"errorCode": format!("{code:04}"), "errorDescription": description}});
        (StatusCode::BAD_REQUEST, error.to_string())
    }
}

/// Whether a hub only forwards a family's messages, so that each must name its receiver.
fn needs_destination(family: Family) -> bool {
    matches!(
        family,
        Family::Quotes
            | Family::BulkQuotes
            | Family::FxQuotes
            | Family::TransactionRequests
            | Family::Authorizations
    )
}

/// Checks a head; `path` follows the DFSP's base path, with its slash.
pub(crate) fn check(
    method: &Method,
    family: Family,
    path: &str,
    headers: &HeaderMap,
) -> Result<(), AdapterRejection> {
    let text = |name: &'static str| match headers.get(name) {
        None => Ok(None),
        Some(value) => value.to_str().map(Some).map_err(|_| AdapterRejection::malformed(name)),
    };
    let needed = |name: &'static str| text(name)?.ok_or_else(|| AdapterRejection::missing(name));
    let accept = header::ACCEPT.as_str();
    match *method {
        Method::GET | Method::POST | Method::DELETE if !is_accept(needed(accept)?, family) => {
            return Err(AdapterRejection::malformed(accept));
        }
        // Callbacks have no `Accept`.
        Method::PUT if headers.contains_key(accept) => return Err(AdapterRejection::malformed(accept)),
        _ => {}
    }
    let date = header::DATE.as_str();
    let is_strict =
        |text: &str| Timestamp::parse_http_date(text).is_some_and(|at| at.http_date().to_string() == text);
    if !is_strict(needed(date)?) {
        return Err(AdapterRejection::malformed(date));
    }
    let content_type = header::CONTENT_TYPE.as_str();
    if !is_media_type(needed(content_type)?, family, true) {
        return Err(AdapterRejection::malformed(content_type));
    }
    let is_name = |text: &str| (1..=NAME_CHARS_MAX).contains(&text.chars().count());
    if !is_name(needed("fspiop-source")?) {
        return Err(AdapterRejection::malformed("fspiop-source"));
    }
    match text("fspiop-destination")? {
        None if needs_destination(family) => return Err(AdapterRejection::missing("fspiop-destination")),
        Some(name) if !is_name(name) => return Err(AdapterRejection::malformed("fspiop-destination")),
        _ => {}
    }
    if text("fspiop-http-method")?.is_some_and(|named| !named.eq_ignore_ascii_case(method.as_str())) {
        return Err(AdapterRejection::malformed("fspiop-http-method"));
    }
    // A hub's own base path may come before it.
    if text("fspiop-uri")?.is_some_and(|uri| !uri.ends_with(path)) {
        return Err(AdapterRejection::malformed("fspiop-uri"));
    }
    if let Some(signature) = text("fspiop-signature")? {
        for name in ["fspiop-uri", "fspiop-http-method"] {
            needed(name)?;
        }
        if !is_signature(signature) {
            return Err(AdapterRejection::malformed("fspiop-signature"));
        }
    }
    let traceparent = headers.get(message::TRACEPARENT);
    if traceparent.is_some_and(|value| !value.to_str().is_ok_and(is_traceparent)) {
        return Err(AdapterRejection::malformed("traceparent"));
    }
    Ok(())
}

fn is_signature(text: &str) -> bool {
    let object: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    ["signature", "protectedHeader"].iter().all(|name| object[*name].is_string())
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_id = |id: &str, digits: usize| {
        id.len() == digits
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && id.bytes().any(|byte| byte != b'0')
    };
    matches!(&parts[..], [version, trace, span, flags, ..]
        if version.len() == 2 && is_id(trace, 32) && is_id(span, 16) && flags.len() == 2)
}

fn is_accept(text: &str, family: Family) -> bool {
    text.split(',').map(str::trim).all(|one| is_media_type(one, family, false))
}

/// Checks `application/vnd.interoperability.FAMILY+json;version=MAJOR.MINOR`. In `Accept`, the minor version may be
/// absent.
fn is_media_type(text: &str, family: Family, has_minor: bool) -> bool {
    let rest = text.strip_prefix("application/vnd.interoperability.");
    let rest = rest.and_then(|rest| rest.strip_prefix(family.as_str())?.strip_prefix("+json"));
    let version =
        rest.and_then(|rest| rest.trim_start().strip_prefix(';')?.trim_start().strip_prefix("version="));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    version.is_some_and(|version| match version.split_once('.') {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => !has_minor && is_number(version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    /// Judges a valid message's head with changes: `-name` removes a header, `name=value` sets it.
    fn judge(method: Method, family: Family, changes: &[&str]) -> Result<(), AdapterRejection> {
        let media = format!("application/vnd.interoperability.{}+json;version=1.1", family.as_str());
        let path = match method {
            Method::POST => format!("/{}", family.as_str()),
            _ => format!("/{}/{ID}", family.as_str()),
        };
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            headers.insert(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        };
        set("content-type", &media);
        if method != Method::PUT && method != Method::PATCH {
            set("accept", &media);
        }
        set("date", "Tue, 01 Apr 2031 12:00:00 GMT");
        set("fspiop-source", "Hub");
        set("fspiop-destination", "greenbank");
        set("fspiop-http-method", method.as_str());
        set("fspiop-uri", &path);
        set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
        for change in changes {
            match change.strip_prefix('-') {
                Some(name) => drop(headers.remove(name)),
                None => {
                    let (name, value) = change.split_once('=').unwrap();
                    let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
                    headers.insert(name, value.replace('@', &media).parse().unwrap());
                }
            }
        }
        check(&method, family, &path, &headers)
    }

    /// Every resource, every method that the hub sends and every header of the tables.
    #[test]
    fn header_of_the_tables_is_required_for_each_resource() {
        for family in Family::ALL.iter().copied() {
            for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                let what = format!("{method} {}", family.as_str());
                let refused = |changes: &[&str]| judge(method.clone(), family, changes).err();
                assert_eq!(refused(&[]), None, "{what}");
                for header in ["content-type", "date", "fspiop-source"] {
                    assert_eq!(
                        refused(&[&format!("-{header}")]),
                        Some(AdapterRejection::missing(header)),
                        "{what}"
                    );
                    assert_eq!(
                        refused(&[&format!("{header}=")]),
                        Some(AdapterRejection::malformed(header)),
                        "{what}"
                    );
                }
                let destination =
                    needs_destination(family).then(|| AdapterRejection::missing("fspiop-destination"));
                assert_eq!(refused(&["-fspiop-destination"]), destination, "{what}");
                let accept = match method {
                    Method::GET | Method::POST | Method::DELETE => Some(AdapterRejection::missing("accept")),
                    _ => None,
                };
                assert_eq!(refused(&["-accept"]), accept, "{what}");
                let is_put = method == Method::PUT;
                assert_eq!(
                    refused(&["accept=@"]),
                    is_put.then(|| AdapterRejection::malformed("accept")),
                    "{what}"
                );
                for (change, header) in [
                    ("content-type=application/json", "content-type"),
                    ("content-type=application/vnd.interoperability.other+json;version=1.1", "content-type"),
                    ("content-type=@;charset=utf-8", "content-type"),
                    ("date=Wed, 01 Apr 2031 12:00:00 GMT", "date"),
                    ("date=Tue, 1 Apr 2031 12:00:00 GMT", "date"),
                    ("fspiop-source=a234567890b234567890c234567890d23", "fspiop-source"),
                    ("fspiop-destination=", "fspiop-destination"),
                    ("fspiop-http-method=BREW", "fspiop-http-method"),
                    ("fspiop-uri=/elsewhere", "fspiop-uri"),
                    ("fspiop-signature=unsigned", "fspiop-signature"),
                    ("traceparent=00-0-0-00", "traceparent"),
                ] {
                    assert_eq!(
                        refused(&[change]),
                        Some(AdapterRejection::malformed(header)),
                        "{what} {change}"
                    );
                }
                let signature = r#"fspiop-signature={"signature":"a","protectedHeader":"b"}"#;
                assert_eq!(refused(&[signature]), None, "{what}");
                for header in ["fspiop-uri", "fspiop-http-method"] {
                    let unnamed = refused(&[signature, &format!("-{header}")]);
                    assert_eq!(unnamed, Some(AdapterRejection::missing(header)), "{what}");
                    assert_eq!(refused(&[&format!("-{header}")]), None, "{what} without a signature");
                }
            }
        }
    }

    #[test]
    fn minor_version_is_optional_only_in_accept() {
        for (text, in_content_type, in_accept) in [
            ("version=1.1", true, true),
            (" version=2.0", true, true),
            ("version=1", false, true),
            ("version=", false, false),
            ("version=one", false, false),
        ] {
            let value = format!("application/vnd.interoperability.quotes+json;{text}");
            assert_eq!(is_media_type(&value, Family::Quotes, true), in_content_type, "{text}");
            assert_eq!(is_accept(&value, Family::Quotes), in_accept, "{text}");
        }
    }

    #[test]
    fn rejection_is_an_error_object_of_the_api() {
        let (status, body) = AdapterRejection::missing("accept").answer();
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let expected = r#"{"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - accept"}}"#;
        assert_eq!(body, expected);
    }
}

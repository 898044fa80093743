//! The checks of a request's headers. Of several failures, the first in the order of the checks is reported.
//!
//! [`check_headers`] runs before the body is read, [`check_parties`] after it. As in other hubs, the error for a
//! request with an invalid body and no source is therefore about the body. Only the first failure is reported.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{ErrorCode, FspId, Timestamp};

use super::HeaderLookup;
use super::media_type::{
    MediaTypeResult, accepts_anything, judge_accept, judge_content_type, write_content_type,
};
use crate::{Method, Resource, SyncError, Version, Versions};

const NAME_CHARS_MAX: usize = 32;

/// The hub's requirements for the headers of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRules {
    /// The versions that the hub supports.
    pub versions: Versions,
    /// Whether requests without a body (`GET`, `DELETE`) also need a `Content-Type`, as the standard requires (FSPIOP
    /// API v1.1 §3.2.1.1). A payee rejects a forwarded `GET` without it.
    pub content_type_required: bool,
}

impl Default for HeaderRules {
    /// The default versions, and `Content-Type` in every request.
    fn default() -> Self {
        Self { versions: Versions::default(), content_type_required: true }
    }
}

/// The result of the header checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedHeaders {
    /// The version of the message. `None` only for a `GET` or `DELETE` without `Content-Type`, if that is allowed.
    pub content_type: Option<Version>,
    /// The time when the request was sent, according to the sender. Its age is not checked.
    pub date: Timestamp,
}

/// The sender and receiver of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, unless it is the hub. Never `None` if [`check_parties`] requires it.
    pub destination: Option<FspId>,
    /// Whether an inter-scheme proxy forwarded the request (`FSPIOP-Proxy`).
    pub proxied: bool,
}

/// Checks `X-Client-Id`, `Accept`, `Date` and `Content-Type`, in that order.
///
/// Errors: 400 with 3100, 3101 or 3102, 406 with 3001. An `Accept` without a version allows any version; other hubs are
/// stricter, but no client depends on that rejection. `PUT` and `PATCH` need no `Accept` (FSPIOP API v1.1 §3.2.1), so
/// `*/*` is allowed there, because HTTP libraries send it by default. [`check_no_accept`] checks the `Accept` of a
/// `PUT` in quoting.
pub fn check_headers(
    method: Method,
    resource: Resource,
    headers: &impl HeaderLookup,
    rules: &HeaderRules,
) -> Result<CheckedHeaders, SyncError> {
    check_client(headers)?;
    check_accept(method, resource, headers, &rules.versions)?;
    let date = check_date(headers)?;
    let content_type = check_content_type(method, resource, headers, rules)?;
    Ok(CheckedHeaders { content_type, date })
}

/// Checks `X-Client-Id`, the authenticated client according to the gateway in front of the hub. It must be the proxy of
/// a forwarded request, and otherwise the source. Without the header nothing is compared.
fn check_client(headers: &impl HeaderLookup) -> Result<(), SyncError> {
    let Some(client) = headers.get("x-client-id") else { return Ok(()) };
    let source = headers.get("fspiop-source");
    let refusal = match headers.get("fspiop-proxy") {
        Some(proxy) if proxy != client || Some(proxy) == source => {
            "Invalid fspiop-proxy header: it must be the x-client-id, and not the source"
        }
        None if source != Some(client) => "Invalid fspiop-source header: it must be the x-client-id",
        _ => return Ok(()),
    };
    Err(SyncError::new(ErrorCode::VALIDATION, refusal))
}

fn check_accept(
    method: Method,
    resource: Resource,
    headers: &impl HeaderLookup,
    versions: &Versions,
) -> Result<(), SyncError> {
    if resource.is_quoting() && method == Method::Put {
        return Ok(());
    }
    if headers.get("accept").is_none() {
        // Two texts, because test suites expect one on GET and the other on POST.
        let detail = match method {
            Method::Put | Method::Patch => return Ok(()),
            Method::Post => "/header must have required property 'accept'",
            Method::Get | Method::Delete => "Accept is required",
        };
        return Err(wanted(ErrorCode::MISSING_ELEMENT, detail, resource, versions));
    }
    if matches!(method, Method::Put | Method::Patch) && accepts_anything(headers.get_all("accept")) {
        return Ok(());
    }
    match judge_accept(headers.get_all("accept"), resource, versions) {
        MediaTypeResult::Accepted(()) => Ok(()),
        MediaTypeResult::Malformed if headers.get("accept").is_some_and(is_iso20022) => {
            Err(no_iso20022("accept"))
        }
        MediaTypeResult::Malformed => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Invalid accept header", resource, versions))
        }
        MediaTypeResult::Unsupported => Err(SyncError::unsupported_version(
            "The Client requested an unsupported version, see extension list for supported version(s).",
            versions,
        )),
    }
}

fn check_date(headers: &impl HeaderLookup) -> Result<Timestamp, SyncError> {
    let Some(date) = headers.get("date") else {
        return Err(SyncError::new(ErrorCode::MISSING_ELEMENT, "Missing required date header"));
    };
    core::str::from_utf8(date).ok().and_then(Timestamp::parse_http_date).ok_or_else(|| {
        let detail = "Invalid date header: write it like Tue, 01 Apr 2031 10:00:00 GMT";
        SyncError::new(ErrorCode::MALFORMED_SYNTAX, detail)
    })
}

fn check_content_type(
    method: Method,
    resource: Resource,
    headers: &impl HeaderLookup,
    HeaderRules { versions, content_type_required }: &HeaderRules,
) -> Result<Option<Version>, SyncError> {
    let Some(content_type) = headers.get("content-type") else {
        return match method {
            Method::Get | Method::Delete if !content_type_required => Ok(None),
            _ => Err(wanted(ErrorCode::MISSING_ELEMENT, "Content-type is required", resource, versions)),
        };
    };
    let content_type = core::str::from_utf8(content_type).unwrap_or_default();
    match judge_content_type(content_type, resource, versions) {
        MediaTypeResult::Accepted(version) => Ok(Some(version)),
        MediaTypeResult::Malformed if is_iso20022(content_type.as_bytes()) => {
            Err(no_iso20022("content-type"))
        }
        MediaTypeResult::Malformed if resource.is_payment_request() && !is_json(content_type) => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Unsupported Media Type", resource, versions))
        }
        MediaTypeResult::Malformed => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Invalid content-type header", resource, versions))
        }
        MediaTypeResult::Unsupported => Err(SyncError::unsupported_version(
            "Client supplied a protocol version which is not supported by the server",
            versions,
        )),
    }
}

/// Whether a header contains a media type of the API's ISO 20022 messages, which other hubs support.
fn is_iso20022(value: &[u8]) -> bool {
    const ISO20022: &[u8] = b"application/vnd.interoperability.iso20022.";
    value.windows(ISO20022.len()).any(|part| part.eq_ignore_ascii_case(ISO20022))
}

fn no_iso20022(header: &str) -> SyncError {
    let detail = format!("Invalid {header} header: this hub does not speak ISO 20022");
    SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail)
}

/// An error that names the media type to send. The version is left out if the description has no space for it.
fn wanted(code: ErrorCode, detail: &str, resource: Resource, versions: &Versions) -> SyncError {
    let mut media_type = Vec::new();
    write_content_type(&mut media_type, resource, versions.hub_made_of(resource));
    let media_type = core::str::from_utf8(&media_type).unwrap_or_default();
    let bare = media_type.split(';').next().unwrap_or_default();
    let details = [media_type, bare].map(|wanted| format!("{detail}: {wanted}"));
    let fits = |text: &&String| !code.describe(text).ends_with('…');
    SyncError::new(code, details.iter().find(fits).map_or(detail, String::as_str))
}

/// Whether a media type is JSON, whatever its parameters are.
fn is_json(media_type: &str) -> bool {
    let essence = media_type.split_once(';').map_or(media_type, |(essence, _)| essence).trim_end();
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// Checks the schema of `FSPIOP-Source` and `FSPIOP-Destination`. Call it after the body's schema is checked. All kinds
/// of quotes, transaction requests and authorizations are only forwarded, so they must have a destination. The hub is
/// not a DFSP: a request to the hub has no destination, and the hub cannot be a source.
///
/// Errors, with status 400:
/// - 3102 for a missing source or required destination
/// - 3100 for a name that is not 1 to 32 printable ASCII characters
/// - 3101 if the source is the hub
pub fn check_parties(
    resource: Resource,
    headers: &impl HeaderLookup,
    hub: &FspId,
) -> Result<Parties, SyncError> {
    let Some(source) = headers.get("fspiop-source") else { return Err(missing("fspiop-source")) };
    let source = parse_name("fspiop-source", source)?;
    if source.eq_ignore_case(hub) {
        let detail = format!("invalid fspiop-source header: '{source}' is the hub");
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail));
    }
    let named = headers.get("fspiop-destination").map(|name| parse_name("fspiop-destination", name));
    let destination = match named.transpose()?.filter(|destination| !destination.eq_ignore_case(hub)) {
        Some(destination) => Some(destination),
        None if resource.is_quoting() || resource.is_payment_request() => {
            return Err(missing("fspiop-destination"));
        }
        None => None,
    };
    Ok(Parties { source, destination, proxied: headers.get("fspiop-proxy").is_some() })
}

fn missing(header: &str) -> SyncError {
    let detail = format!("/header must have required property '{header}'");
    SyncError::new(ErrorCode::MISSING_ELEMENT, &detail)
}

/// Rejects an `Accept` on a callback, unless it is `*/*`, which HTTP libraries send by default. Other hubs check it
/// only in `PUT` callbacks of quoting, after their 200 response. The rejection is sent as an error callback.
///
/// Errors: 3100.
pub fn check_no_accept(headers: &impl HeaderLookup) -> Result<(), SyncError> {
    match headers.get("accept") {
        None => Ok(()),
        Some(_) if accepts_anything(headers.get_all("accept")) => Ok(()),
        Some(_) => {
            let detail = "accept header must not be sent in callbacks";
            Err(SyncError::new(ErrorCode::VALIDATION, detail))
        }
    }
}

fn parse_name(header: &str, name: &[u8]) -> Result<FspId, SyncError> {
    let parsed = core::str::from_utf8(name).ok().and_then(FspId::parse);
    parsed.ok_or_else(|| {
        let characters = name.iter().filter(|byte| (**byte as i8) >= -0x40).count();
        let violation = match characters {
            0 => "must NOT have fewer than 1 characters",
            1..=NAME_CHARS_MAX => "must match pattern: 1 to 32 printable ASCII characters",
            _ => "must NOT have more than 32 characters",
        };
        SyncError::new(ErrorCode::VALIDATION, &format!("/header/{header} {violation}"))
    })
}

#[cfg(test)]
mod tests;

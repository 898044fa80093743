//! The checks of a request's headers, in the order in which their failures are reported.
//!
//! [`check_headers`] comes before the body is looked at, [`check_parties`] after it: a request with a bad body and no
//! source is told about the body, as other hubs do. Only the first failure is reported.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use upesi_types::{ErrorCode, FspId, Timestamp};

use super::HeaderLookup;
use super::media_type::{Verdict, accepts_anything, judge_accept, judge_content_type, write_content_type};
use crate::{Method, Resource, SyncError, Version, Versions};

const NAME_CHARS_MAX: usize = 32;

/// What a hub demands of the headers of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRules {
    /// The versions that it speaks.
    pub versions: Versions,
    /// Whether requests without a body (`GET`, `DELETE`) need a `Content-Type` too, as the standard has it (FSPIOP API
    /// v1.1 §3.2.1.1): a payee refuses a `GET` that is passed on without.
    pub content_type_required: bool,
}

impl Default for HeaderRules {
    /// The default versions, and `Content-Type` in every request.
    fn default() -> Self {
        Self { versions: Versions::default(), content_type_required: true }
    }
}

/// What the header checks found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedHeaders {
    /// The version of the message; `None` only where a `GET` or `DELETE` came without `Content-Type` and may.
    pub content_type: Option<Version>,
    /// When the sender says it sent the request; its age is not checked.
    pub date: Timestamp,
}

/// Who a request is from and for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// `FSPIOP-Destination`, unless it is the hub; never `None` where [`check_parties`] requires it.
    pub destination: Option<FspId>,
    /// Whether an inter-scheme proxy passed the request on (`FSPIOP-Proxy`).
    pub proxied: bool,
}

/// Checks `X-Client-Id`, `Accept`, `Date` and `Content-Type`, in that order.
///
/// Errors: 400 with 3100, 3101 or 3102, 406 with 3001. An `Accept` without a version asks for any version; that is
/// stricter elsewhere, but nothing depends on the refusal. `PUT` and `PATCH` need no `Accept` (FSPIOP API v1.1 §3.2.1),
/// so `*/*` passes there: HTTP libraries send it by default. The `Accept` of a `PUT` in quoting is left to
/// [`check_no_accept`].
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

/// The gateway in front of the hub tells in `X-Client-Id` who is really connected. That must be the proxy, if there is
/// one, and else the source. Without the header nothing is compared.
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
        // Two texts, because test suites look for one on GET and for the other on POST.
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
        Verdict::Accepted(()) => Ok(()),
        Verdict::Malformed if headers.get("accept").is_some_and(is_iso20022) => Err(no_iso20022("accept")),
        Verdict::Malformed => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Invalid accept header", resource, versions))
        }
        Verdict::Unsupported => Err(SyncError::unsupported_version(
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
        Verdict::Accepted(version) => Ok(Some(version)),
        Verdict::Malformed if is_iso20022(content_type.as_bytes()) => Err(no_iso20022("content-type")),
        Verdict::Malformed if resource.is_payment_request() && !is_json(content_type) => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Unsupported Media Type", resource, versions))
        }
        Verdict::Malformed => {
            Err(wanted(ErrorCode::MALFORMED_SYNTAX, "Invalid content-type header", resource, versions))
        }
        Verdict::Unsupported => Err(SyncError::unsupported_version(
            "Client supplied a protocol version which is not supported by the server",
            versions,
        )),
    }
}

/// Whether a header has a media type of the API's messages by ISO 20022, which other hubs speak.
fn is_iso20022(value: &[u8]) -> bool {
    const ISO20022: &[u8] = b"application/vnd.interoperability.iso20022.";
    value.windows(ISO20022.len()).any(|part| part.eq_ignore_ascii_case(ISO20022))
}

fn no_iso20022(header: &str) -> SyncError {
    let detail = format!("Invalid {header} header: this hub does not speak ISO 20022");
    SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail)
}

/// A refusal that names the media type to send; without its version if a description has no room for that.
fn wanted(code: ErrorCode, detail: &str, resource: Resource, versions: &Versions) -> SyncError {
    let mut media_type = Vec::new();
    write_content_type(&mut media_type, resource, versions.hub_made_of(resource));
    let media_type = core::str::from_utf8(&media_type).unwrap_or_default();
    let bare = media_type.split(';').next().unwrap_or_default();
    let details = [media_type, bare].map(|wanted| format!("{detail}: {wanted}"));
    let fits = |text: &&String| !code.describe(text).ends_with('…');
    SyncError::new(code, details.iter().find(fits).map_or(detail, String::as_str))
}

/// Whether a media type is one of JSON, whatever its parameters.
fn is_json(media_type: &str) -> bool {
    let essence = media_type.split_once(';').map_or(media_type, |(essence, _)| essence).trim_end();
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// Checks the schema of `FSPIOP-Source` and `FSPIOP-Destination`; call it after the body's schema is checked. Quotes of
/// all kinds, transaction requests and authorizations are only passed on, and so must say to whom. The hub is no DFSP:
/// a request to the hub has no destination, and none comes from it.
///
/// Errors: 400 with 3102 for a missing source or required destination, with 3100 for a name that is not 1 to 32
/// printable ASCII characters, with 3101 for the hub's name as source.
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

/// Refuses an `Accept` on a callback, unless it is `*/*`, which HTTP libraries send by default. Hubs look for it in
/// `PUT /quotes/{ID}` and its kin only, after their 200: the refusal goes back as an error callback.
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

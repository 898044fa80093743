//! The required form of a callback, header by header and byte by byte. It is written from the rules of the API (FSPIOP
//! API v1.1 §3.2) and the practice of schemes, not from the hub's code.

use upesi_types::Timestamp;

use super::dfsp::Seen;
use super::message::{Sent, family, fulfilment, media_type};

/// Origin and content of a callback.
pub enum Expected<'a> {
    /// The DFSP's own message, with its headers and bytes.
    Forwarded(&'a Sent),
    /// The hub's copy of the payee's body, caused by the payee's message.
    Copy(&'a Sent),
    /// A message of the hub with this body. `<time>` and `<f>` stand for a completion time and the fulfilment. Its
    /// cause is a message or the time.
    Made(Option<&'a Sent>, &'a str),
}

/// Place and time of an expected callback.
pub struct Place<'a> {
    pub receiver: &'a str,
    /// The receiver's address.
    pub host: String,
    pub method: &'a str,
    pub path: &'a str,
    /// A header that a rule of the scheme adds.
    pub added: Option<(&'a str, &'a str)>,
    /// The earliest time that the hub may write.
    pub since: Timestamp,
    /// The latest time that the hub may write.
    pub now: Timestamp,
}

/// Compares a callback. Returns the completion time in the body, if there is one.
pub fn check(seen: &Seen, expected: &Expected<'_>, place: &Place<'_>) -> Result<Option<String>, String> {
    let request = format!("{} {}", seen.method, seen.path);
    let wanted = format!("{} {}", place.method, place.path);
    if request != wanted {
        let body = String::from_utf8_lossy(&seen.body);
        return Err(format!("{wanted} was expected, {request} came with {body}"));
    }
    check_headers(seen, expected, place)?;
    match expected {
        Expected::Forwarded(sent) | Expected::Copy(sent) if seen.body == sent.body => Ok(None),
        Expected::Forwarded(sent) | Expected::Copy(sent) => {
            let (wanted, body) = (String::from_utf8_lossy(&sent.body), String::from_utf8_lossy(&seen.body));
            Err(format!("the body is\n  {body}\nand not\n  {wanted}"))
        }
        Expected::Made(_, template) => check_body(seen.text(), template, place),
    }
}

fn check_body(body: &str, template: &str, place: &Place<'_>) -> Result<Option<String>, String> {
    let template = template.replace("<f>", &fulfilment());
    let differs = || format!("the body is\n  {body}\nand not\n  {template}");
    let Some((before, after)) = template.split_once("<time>") else {
        return if body == template { Ok(None) } else { Err(differs()) };
    };
    let time = body.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).ok_or_else(differs)?;
    let instant = Timestamp::parse_iso(time).filter(|_| time.len() == 24 && time.ends_with('Z'));
    let instant = instant.ok_or_else(|| format!("{time:?} is not a completion time: {body}"))?;
    if instant.as_ms() < place.since.as_ms() || instant > place.now {
        return Err(format!("{time} is not between {} and {}", place.since, place.now));
    }
    Ok(Some(time.to_owned()))
}

/// Expected value of a header.
enum Value {
    Exactly(String),
    /// The trace id of this header, with another span id.
    NextSpan(String),
    /// A new trace.
    NewTrace,
    /// The present time.
    Now,
}

fn check_headers(seen: &Seen, expected: &Expected<'_>, place: &Place<'_>) -> Result<(), String> {
    let mut wanted = expected_headers(expected, place);
    wanted.push(("host".into(), Value::Exactly(place.host.clone())));
    wanted.push(("accept-encoding".into(), Value::Exactly("identity".into())));
    if place.method != "GET" {
        wanted.push(("content-length".into(), Value::Exactly(seen.body.len().to_string())));
    }
    wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names = |list: Vec<&String>| list.into_iter().cloned().collect::<Vec<_>>().join(" ");
    let (wanted_names, seen_names) = (
        names(wanted.iter().map(|(name, _)| name).collect()),
        names(seen.headers.iter().map(|(name, _)| name).collect()),
    );
    if wanted_names != seen_names {
        return Err(format!("the headers are\n  {seen_names}\nand not\n  {wanted_names}"));
    }
    for (name, value) in &wanted {
        let found: Vec<_> =
            seen.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value).collect();
        let fits = |found: &&String| match value {
            Value::Exactly(value) => *found == value,
            Value::NextSpan(received) => is_next_span(found, received),
            Value::NewTrace => is_new_trace(found),
            Value::Now => is_between(found, place),
        };
        if !found.iter().any(fits) {
            return Err(format!("{name} is {found:?}"));
        }
    }
    Ok(())
}

/// The version of messages that the hub makes, by default. Currency conversion begins with version 2.0.
fn hub_version(family: &str) -> &'static str {
    if family.starts_with("fx") { "2.0" } else { "1.1" }
}

/// Whether a header is forwarded in quotes of all kinds. Other hubs forward only these headers, and the headers of
/// every message.
fn passes(family: &str, name: &str) -> bool {
    let is_quoting = matches!(family, "quotes" | "bulkQuotes" | "fxQuotes");
    let known = ["accept", "content-type", "date", "traceparent", "tracestate", "baggage"];
    !is_quoting || known.contains(&name) || name.starts_with("fspiop-")
}

/// Hop-by-hop headers, headers that each sender computes, headers about the sender's side of the hub, and headers about
/// its own response.
const OF_THIS_SIDE: [&str; 24] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "x-forwarded-for",
    "x-client-id",
    "x-real-ip",
    "x-api-key",
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
    "if-unmodified-since",
];

/// Whether the hub does not forward a header of a request: it is one of these, or `Connection` names it.
pub fn stays_here(received: &[(String, String)], name: &str) -> bool {
    let names_it = |names: &str| names.split(',').any(|option| option.trim().eq_ignore_ascii_case(name));
    OF_THIS_SIDE.contains(&name)
        || received.iter().any(|(header, value)| header == "connection" && names_it(value))
}

fn expected_headers(expected: &Expected<'_>, place: &Place<'_>) -> Vec<(String, Value)> {
    let (cause, is_hub_made) = match expected {
        Expected::Forwarded(sent) => (Some(sent), false),
        Expected::Copy(sent) => (Some(sent), true),
        Expected::Made(cause, _) => (cause.as_ref(), true),
    };
    let received = cause.map_or(&[][..], |sent| &sent.headers);
    let (family, uri) = (family(place.path), place.path.split('?').next().unwrap_or_default());
    let version = hub_version(family);
    // Headers that a DFSP signed are forwarded as received.
    let is_signed = !is_hub_made
        && received.iter().any(|(name, value)| name == "fspiop-signature" && is_signature(value));
    let mut headers = Vec::new();
    for (name, value) in received {
        let value = match &**name {
            _ if stays_here(received, name) => continue,
            "fspiop-source" | "fspiop-http-method" | "fspiop-uri" if is_signed => {
                Value::Exactly(value.clone())
            }
            "fspiop-destination" if is_signed && value.eq_ignore_ascii_case(place.receiver) => {
                Value::Exactly(value.clone())
            }
            "fspiop-source" | "fspiop-destination" | "fspiop-http-method" | "fspiop-uri" => continue,
            "accept" if place.method == "PUT" => continue,
            "accept" if is_hub_made => Value::Exactly(media_type(family, &version[..1])),
            _ if !passes(family, name) => continue,
            "fspiop-signature" | "content-type" | "date" if is_hub_made => continue,
            "traceparent" => Value::NextSpan(value.clone()),
            _ => Value::Exactly(value.clone()),
        };
        headers.push((name.clone(), value));
    }
    let source = match expected {
        Expected::Forwarded(sent) => sent.header("fspiop-source").unwrap_or_default(),
        _ => "Hub",
    };
    let mut own = vec![
        ("fspiop-source", source),
        ("fspiop-destination", place.receiver),
        ("fspiop-http-method", place.method),
        ("fspiop-uri", uri),
    ];
    own.retain(|(name, _)| !headers.iter().any(|(found, _): &(String, Value)| found == name));
    let is_unaddressed = !received.iter().any(|(name, _)| name == "fspiop-destination");
    if is_signed && is_unaddressed && place.method != "GET" {
        own.retain(|(name, _)| *name != "fspiop-destination");
    }
    let content_type = media_type(family, version);
    if is_hub_made {
        own.push(("content-type", &content_type));
        headers.push(("date".into(), Value::Now));
        let has = |name: &str| headers.iter().any(|(found, _): &(String, Value)| found == name);
        let (lacks_trace, lacks_accept) = (!has("traceparent"), place.method == "POST" && !has("accept"));
        if lacks_trace {
            headers.push(("traceparent".into(), Value::NewTrace));
        }
        if lacks_accept {
            headers.push(("accept".into(), Value::Exactly(media_type(family, &version[..1]))));
        }
    }
    own.extend(place.added);
    headers.extend(own.into_iter().map(|(name, value)| (name.to_owned(), Value::Exactly(value.to_owned()))));
    headers
}

/// A message is signed only if the header is an object with these two texts.
fn is_signature(value: &str) -> bool {
    let object: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
    let Some(members) = object.as_object() else { return false };
    members.len() == 2 && ["signature", "protectedHeader"].iter().all(|name| object[*name].is_string())
}

/// Version, trace id and flags are the same; the span id differs and is not zero.
fn is_next_span(found: &str, received: &str) -> bool {
    let found: Vec<_> = found.split('-').collect();
    let received: Vec<_> = received.split('-').collect();
    let [version, trace, span, flags] = &found[..] else { return false };
    let is_span = span.len() == 16 && span.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    *version == "00"
        && *trace == received[1]
        && *flags == received[3]
        && is_span
        && *span != received[2]
        && *span != "0000000000000000"
}

/// Neither id is zero, and the flags ask for no sampling.
fn is_new_trace(found: &str) -> bool {
    let parts: Vec<_> = found.split('-').collect();
    let ["00", trace, span, "00"] = &parts[..] else { return false };
    let is_id = |id: &str, digits: usize| {
        id.len() == digits
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && id.bytes().any(|byte| byte != b'0')
    };
    is_id(trace, 32) && is_id(span, 16)
}

fn is_between(found: &str, place: &Place<'_>) -> bool {
    let Some(instant) = Timestamp::parse_http_date(found) else { return false };
    // Dates have whole seconds.
    instant.as_ms() / 1000 >= place.since.as_ms() / 1000 && instant <= place.now
}

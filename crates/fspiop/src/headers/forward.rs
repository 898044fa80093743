//! From the headers of a request to the headers of a message it causes.

use alloc::vec::Vec;
use core::fmt::Write;

use upesi_types::Timestamp;

use super::media_type::{write_accept, write_content_type};
use super::{Block, push_line};
use crate::body::is_signature_object;
use crate::render::ByteWriter;
use crate::{Method, Resource, Version};

/// Names one hop of a trace; the caller draws it at random, and not zero (W3C Trace Context §3.2.2.4).
pub type SpanId = [u8; 8];
/// Names a trace, and is not zero either (W3C Trace Context §3.2.2.3).
pub type TraceId = [u8; 16];

/// On whose behalf a message leaves the hub.
#[derive(Clone, Copy, Debug)]
pub enum MessageSource<'a> {
    /// A DFSP's own message passed on: its signature, media types and date stay as they are, and, if it is signed, what
    /// it says of its method, URI and receiver.
    Dfsp {
        /// The DFSP, as `FSPIOP-Source` names it.
        name: &'a str,
    },
    /// A message the hub makes: no DFSP signed it, its version is the hub's, and it is made now.
    Hub {
        /// The hub's own name, usually `Hub`.
        name: &'a str,
        /// The version stamped on `Content-Type` and `Accept`, as [`crate::Versions::hub_made_of`] tells it.
        version: Version,
        /// The `Date`.
        now: Timestamp,
        /// The trace that the message begins if its cause has none.
        trace_id: TraceId,
    },
}

/// An outgoing message, as far as its headers depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// On whose behalf.
    pub source: MessageSource<'a>,
    /// The DFSP that gets the message.
    pub receiver: &'a str,
    /// The family of the message, which names the media type and decides which headers go on. Error callbacks that the
    /// hub makes have the media type of the family they answer, bulk quotes included: a receiver that dispatches on it
    /// could not tell otherwise.
    pub resource: Resource,
    /// The method of the message.
    pub method: Method,
    /// `FSPIOP-URI`: the path from the resource on, whatever path the receiver's own URL has before it.
    pub uri: &'a str,
    /// The hop from the hub to the receiver.
    pub span_id: SpanId,
}

/// Appends to `out` the header block of a message caused by the request whose header block is `request`.
///
/// The sender's headers go on in their order; the hub sets source, destination, method and URI, takes `Accept` off
/// a `PUT`, and keeps the trace id under a new span id. What the hub makes itself has all headers that the API demands
/// of a client, and a trace of its own if its cause has none. Of a message that a DFSP signed, these four stay as they
/// came, and no destination is added: the signature may cover each of them. A text in `FSPIOP-Signature` that is no
/// signature object makes no message signed. Only a destination that is not the
/// receiver, who was then chosen by the scheme's rules, gives way; and a `GET`, which nobody verifies, goes to whom
/// the lookup found. A malformed `traceparent` ends there, with its `tracestate`. Headers that the hub does not
/// know go on too, but not in quoting, where other hubs let only those of the API and of traces pass. A message
/// that no request caused, such as the callback of an expiry, is made from an empty block.
pub fn rewrite_for_forward(request: &[u8], message: &Forward<'_>, out: &mut Vec<u8>) {
    let mut seen = Seen::default();
    let (trace, has_signature) = survey(request);
    let is_signed = has_signature && message.is_from_dfsp();
    for (name, value) in Block(request).iter() {
        match name {
            b"fspiop-source" if is_signed => {
                seen.source = replace(seen.source, out, |out| push_line(out, name, value))
            }
            b"fspiop-destination" if is_signed && message.is_for(value) => {
                seen.destination = replace(seen.destination, out, |out| push_line(out, name, value));
            }
            b"fspiop-http-method" if is_signed => {
                seen.method = replace(seen.method, out, |out| push_line(out, name, value));
            }
            b"fspiop-uri" if is_signed => {
                seen.uri = replace(seen.uri, out, |out| push_line(out, name, value))
            }
            b"fspiop-source" => seen.source = replace(seen.source, out, |out| message.write_source(out)),
            b"fspiop-destination" => {
                seen.destination = replace(seen.destination, out, |out| message.write_destination(out));
            }
            b"fspiop-http-method" => seen.method = replace(seen.method, out, |out| message.write_method(out)),
            b"fspiop-uri" => seen.uri = replace(seen.uri, out, |out| message.write_uri(out)),
            b"fspiop-signature" => {
                if message.is_from_dfsp() {
                    push_line(out, name, value);
                }
            }
            b"content-type" => {
                seen.content_type =
                    replace(seen.content_type, out, |out| message.write_content_type(value, out));
            }
            b"date" => seen.date = replace(seen.date, out, |out| message.write_date(value, out)),
            b"accept" if message.is_from_dfsp() => message.write_accept(value, out),
            b"accept" => seen.accept = replace(seen.accept, out, |out| message.write_accept(value, out)),
            b"traceparent" => {
                if let TraceParent::Valid(parent) = trace {
                    seen.traceparent = replace(seen.traceparent, out, |out| {
                        write_traceparent(
                            &parent[3..36],
                            &parent[52..TRACEPARENT_BYTES],
                            message.span_id,
                            out,
                        );
                    });
                }
            }
            b"tracestate" if !matches!(trace, TraceParent::Valid(_)) => {}
            _ if message.resource.is_quoting() && !QUOTING_OTHERS.contains(&name) => {}
            _ => push_line(out, name, value),
        }
    }
    message.write_unseen(&seen, is_signed, out);
}

/// What goes on in quoting beside the headers that the hub sets. Other hubs drop `FSPIOP-Encryption` as well, and the
/// receiver then cannot read what was encrypted for it.
const QUOTING_OTHERS: [&[u8]; 4] = [b"tracestate", b"baggage", b"fspiop-encryption", b"fspiop-proxy"];

/// Which of the headers that every message has were in the request already.
#[derive(Default)]
struct Seen {
    source: bool,
    destination: bool,
    method: bool,
    uri: bool,
    content_type: bool,
    date: bool,
    accept: bool,
    traceparent: bool,
}

/// Writes at the first occurrence of a header and drops repetitions of it.
fn replace(seen: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    if !seen {
        write(out);
    }
    true
}

impl Forward<'_> {
    fn is_from_dfsp(&self) -> bool {
        matches!(self.source, MessageSource::Dfsp { .. })
    }

    fn is_for(&self, destination: &[u8]) -> bool {
        destination.eq_ignore_ascii_case(self.receiver.as_bytes())
    }

    fn write_source(&self, out: &mut Vec<u8>) {
        let (MessageSource::Dfsp { name } | MessageSource::Hub { name, .. }) = self.source;
        push_line(out, b"fspiop-source", name.as_bytes());
    }

    fn write_destination(&self, out: &mut Vec<u8>) {
        push_line(out, b"fspiop-destination", self.receiver.as_bytes());
    }

    fn write_method(&self, out: &mut Vec<u8>) {
        push_line(out, b"fspiop-http-method", self.method.as_str().as_bytes());
    }

    fn write_uri(&self, out: &mut Vec<u8>) {
        push_line(out, b"fspiop-uri", self.uri.as_bytes());
    }

    fn write_content_type(&self, received: &[u8], out: &mut Vec<u8>) {
        match self.source {
            MessageSource::Dfsp { .. } => push_line(out, b"content-type", received),
            MessageSource::Hub { version, .. } => {
                out.extend_from_slice(b"content-type: ");
                write_content_type(out, self.resource, version);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn write_date(&self, received: &[u8], out: &mut Vec<u8>) {
        match self.source {
            // Only the strict form passes the checks, so the date as received is already the normal one.
            MessageSource::Dfsp { .. } => push_line(out, b"date", received),
            MessageSource::Hub { now, .. } => {
                let _ = write!(ByteWriter(out), "date: {}\r\n", now.http_date());
            }
        }
    }

    fn write_accept(&self, received: &[u8], out: &mut Vec<u8>) {
        match self.source {
            _ if self.method == Method::Put => {}
            MessageSource::Dfsp { .. } => push_line(out, b"accept", received),
            MessageSource::Hub { version, .. } => {
                out.extend_from_slice(b"accept: ");
                write_accept(out, self.resource, version);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn write_unseen(&self, seen: &Seen, is_signed: bool, out: &mut Vec<u8>) {
        if !self.is_from_dfsp() {
            if !seen.content_type {
                self.write_content_type(b"", out);
            }
            if !seen.date {
                self.write_date(b"", out);
            }
            if !seen.accept && self.needs_accept() {
                self.write_accept(b"", out);
            }
        }
        if !seen.source {
            self.write_source(out);
        }
        if !seen.destination && (!is_signed || self.method == Method::Get) {
            self.write_destination(out);
        }
        if !seen.method {
            self.write_method(out);
        }
        if !seen.uri {
            self.write_uri(out);
        }
        if let (MessageSource::Hub { trace_id, .. }, false) = (self.source, seen.traceparent) {
            let mut began = Vec::with_capacity(33);
            push_hexadecimal(&trace_id, &mut began);
            began.push(b'-');
            write_traceparent(&began, NOT_SAMPLED, self.span_id, out);
        }
    }

    /// Callbacks (`PUT`) have none, and of a `PATCH` the API does not demand it.
    fn needs_accept(&self) -> bool {
        matches!(self.method, Method::Get | Method::Post | Method::Delete)
    }
}

/// The `traceparent` of a request (W3C Trace Context §3.2).
#[derive(Clone, Copy)]
enum TraceParent<'a> {
    Valid(&'a [u8]),
    Unusable,
}

/// The `traceparent` of a request, and whether the request is signed: what has to be known before the first line is
/// written.
fn survey(request: &[u8]) -> (TraceParent<'_>, bool) {
    let (mut parent, mut is_signed) = (None, false);
    for (name, value) in Block(request).iter() {
        match name {
            b"traceparent" => parent = parent.or(Some(value)),
            b"fspiop-signature" => is_signed |= is_signature_object(value),
            _ => {}
        }
    }
    match parent {
        Some(value) if is_traceparent(value) => (TraceParent::Valid(value), is_signed),
        _ => (TraceParent::Unusable, is_signed),
    }
}

const TRACEPARENT_BYTES: usize = 55;

/// `version-traceid-spanid-flags` in lower-case hexadecimal, with neither id all zeros. Versions after 00 may go on
/// after a further dash.
fn is_traceparent(value: &[u8]) -> bool {
    let is_hex = |range: core::ops::Range<usize>| {
        value[range].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    value.len() >= TRACEPARENT_BYTES
        && [2, 35, 52].iter().all(|&dash| value[dash] == b'-')
        && is_hex(0..2)
        && is_hex(3..35)
        && is_hex(36..52)
        && is_hex(53..55)
        && &value[..2] != b"ff"
        && value[3..35].iter().any(|&byte| byte != b'0')
        && value[36..52].iter().any(|&byte| byte != b'0')
        && (value.len() == TRACEPARENT_BYTES || (&value[..2] != b"00" && value[TRACEPARENT_BYTES] == b'-'))
}

/// The flags of a trace that the hub begins: the hub keeps no spans, so it requests no sampling.
const NOT_SAMPLED: &[u8] = b"-00";

/// Writes a trace id with the dash after it, a span id, and flags with the dash before them.
fn write_traceparent(trace: &[u8], flags: &[u8], span_id: SpanId, out: &mut Vec<u8>) {
    out.extend_from_slice(b"traceparent: 00-");
    out.extend_from_slice(trace);
    push_hexadecimal(&span_id, out);
    out.extend_from_slice(flags);
    out.extend_from_slice(b"\r\n");
}

fn push_hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
        out.push(b"0123456789abcdef"[usize::from(byte & 0xf)]);
    }
}

#[cfg(test)]
mod tests;

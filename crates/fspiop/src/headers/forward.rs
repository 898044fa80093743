//! Creates the headers of an outgoing message from the headers of the request that caused it.

use alloc::vec::Vec;
use core::fmt::Write;

use upesi_types::Timestamp;

use super::block::{Block, push_line};
use super::media_type::{write_accept, write_content_type};
use crate::body::is_signature_object;
use crate::byte_writer::ByteWriter;
use crate::{Method, Resource, Version};

/// Identifies one hop of a trace. The caller chooses it at random and not zero (W3C Trace Context §3.2.2.4).
pub type SpanId = [u8; 8];
/// Identifies a trace. It must not be zero (W3C Trace Context §3.2.2.3).
pub type TraceId = [u8; 16];

/// The originator of a message that the hub sends.
#[derive(Clone, Copy, Debug)]
pub enum MessageSource<'a> {
    /// A DFSP's own message that is forwarded. Its signature, media types and date are not changed. If it is signed,
    /// its method, URI and receiver headers are not changed either.
    Dfsp {
        /// The DFSP's name, as in `FSPIOP-Source`.
        name: &'a str,
    },
    /// A message that the hub creates. It has no DFSP's signature, the hub's version and the current date.
    Hub {
        /// The hub's own name, usually `Hub`.
        name: &'a str,
        /// The version in `Content-Type` and `Accept`; see [`crate::Versions::hub_made_of`].
        version: Version,
        /// The value of `Date`.
        now: Timestamp,
        /// The trace id to use if the causing request has no trace.
        trace_id: TraceId,
    },
}

/// The properties of an outgoing message that its headers depend on.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// The originator of the message.
    pub source: MessageSource<'a>,
    /// The DFSP that receives the message.
    pub receiver: &'a str,
    /// The family of the message, which determines the media type and the headers that are forwarded. Error callbacks
    /// that the hub creates have the media type of the family that they answer, including bulk quotes. A receiver that
    /// dispatches on it could not distinguish them otherwise.
    pub resource: Resource,
    /// The method of the message.
    pub method: Method,
    /// `FSPIOP-URI`: the path from the resource on, without the path of the receiver's own base URL.
    pub uri: &'a str,
    /// Identifies the hop from the hub to the receiver.
    pub span_id: SpanId,
}

/// Appends to `out` the header block of a message that the request with the header block `request` caused.
///
/// The sender's headers are forwarded in their order. The hub sets source, destination, method and URI, removes
/// `Accept` from a `PUT`, and keeps the trace id with a new span id. Headers that the hub does not know are also
/// forwarded. In quoting only headers of the API and of traces are forwarded, as in other hubs.
///
/// A message that the hub creates has all headers that the API requires of a client, and its own trace if the request
/// has none. A message without a causing request, such as the callback of an expiry, is created from an empty block.
///
/// If a DFSP signed the message, source, destination, method and URI stay as received, and no destination is added,
/// because the signature may cover each of them. A text in `FSPIOP-Signature` that is not a signature object does not
/// count as a signature. There are two exceptions. A destination that is not the receiver is replaced, because the
/// scheme's rules then chose the receiver. A `GET`, whose signature is not verified, gets the receiver that the lookup
/// found as its destination. A malformed `traceparent` is removed together with its `tracestate`.
pub fn rewrite_for_forward(request: &[u8], message: &Forward<'_>, out: &mut Vec<u8>) {
    let mut seen = PresentHeaders::default();
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

/// Headers that are forwarded in quoting, in addition to the headers of the hub. Other hubs drop
/// `FSPIOP-Encryption`, so that the receiver cannot decrypt the message.
const QUOTING_OTHERS: [&[u8]; 4] = [b"tracestate", b"baggage", b"fspiop-encryption", b"fspiop-proxy"];

/// The required headers that the request already contained.
#[derive(Default)]
struct PresentHeaders {
    source: bool,
    destination: bool,
    method: bool,
    uri: bool,
    content_type: bool,
    date: bool,
    accept: bool,
    traceparent: bool,
}

/// Writes a header at its first occurrence and drops repetitions.
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
            // Only the strict form passes the checks, so the received date is already in normal form.
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

    fn write_unseen(&self, seen: &PresentHeaders, is_signed: bool, out: &mut Vec<u8>) {
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

    /// Whether the API requires `Accept`. It does not for callbacks (`PUT`) and `PATCH`.
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

/// Finds the `traceparent` of a request and whether the request is signed. Both must be known before the first line is
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

/// Whether a value is `version-traceid-spanid-flags` in lower-case hexadecimal, with neither id all zeros. Versions
/// after 00 may have more after a further dash.
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

/// The flags of a trace that the hub starts. The hub stores no spans, so it requests no sampling.
const NOT_SAMPLED: &[u8] = b"-00";

/// Writes a `traceparent` line: a trace id with the dash after it, a span id, and flags with the dash before them.
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

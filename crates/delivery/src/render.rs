//! Renders outgoing messages: the only place that creates their headers and body and finds their URL.
//!
//! Callbacks of the ledger ([`owed`](crate::owed)) and messages between DFSPs ([`relayed`](crate::relayed)) state their
//! parts in a [`Message`]. Messages that the hub creates are signed in [`OutgoingRequest::into_http`].

use upesi_fspiop::headers::{Forward, MessageSource, rewrite_for_forward};
use upesi_fspiop::uri::{PathValues, append_to_base, fill_template};
use upesi_http::{Bytes, Full, HeaderMap, Method, Request, Target, header_block};
use upesi_ledger::{EndpointType, Participant, ParticipantId};

use crate::Signer;

/// A message to a DFSP, before its URL and headers are created.
pub(crate) struct Message<'a> {
    pub(crate) receiver: &'a Participant,
    /// The endpoint type that the receiver must have registered.
    pub(crate) endpoint: EndpointType,
    pub(crate) url: Url<'a>,
    /// Source, method, path and the other inputs of the headers.
    pub(crate) forward: Forward<'a>,
    /// The header block of the request that caused it.
    pub(crate) caused_by: &'a [u8],
    /// Headers that a rule of the scheme adds; they replace the sender's headers with the same names.
    pub(crate) additions: Option<&'a HeaderMap>,
    pub(crate) body: Bytes,
}

/// How the URL is derived from the receiver's endpoint.
pub(crate) enum Url<'a> {
    /// A template with one id.
    Id(&'a str),
    /// A template that is filled from the message's path, and the query.
    Path(Option<&'a str>),
    /// A base URL, followed by the message's path and the query.
    Base(Option<&'a str>),
}

impl Message<'_> {
    /// Renders the request.
    pub(crate) fn into_request(self) -> Result<OutgoingRequest, Unroutable> {
        Ok(OutgoingRequest {
            target: self.target()?,
            method: match self.forward.method {
                upesi_fspiop::Method::Get => Method::GET,
                upesi_fspiop::Method::Post => Method::POST,
                upesi_fspiop::Method::Put => Method::PUT,
                upesi_fspiop::Method::Patch => Method::PATCH,
                upesi_fspiop::Method::Delete => Method::DELETE,
            },
            headers: self.headers()?,
            body: self.body,
            is_hub_made: matches!(self.forward.source, MessageSource::Hub { .. }),
            sender: None,
        })
    }

    fn headers(&self) -> Result<HeaderMap, Unroutable> {
        let mut block = Vec::with_capacity(self.caused_by.len() + 256);
        rewrite_for_forward(self.caused_by, &self.forward, &mut block);
        let mut headers = header_block::from_block(&Bytes::from(block))
            .map_err(|error| Unroutable::BadRecord { reason: error.to_string() })?;
        for (name, value) in self.additions.into_iter().flatten() {
            headers.insert(name.clone(), value.clone());
        }
        Ok(headers)
    }

    fn target(&self) -> Result<Target, Unroutable> {
        let endpoint_type = self.endpoint.name();
        let Some(registered) = self.receiver.endpoint(self.endpoint) else {
            return Err(Unroutable::NoEndpoint { endpoint_type });
        };
        let bad = |reason: String| Unroutable::BadEndpoint { endpoint_type, reason };
        let path = self.forward.uri;
        let mut url = String::with_capacity(registered.len() + path.len());
        let filled = match self.url {
            Url::Base(query) => {
                append_to_base(registered, path, query, &mut url);
                Ok(())
            }
            Url::Id(id) => fill_template(registered, id, &mut url),
            Url::Path(_) => fill_template(registered, &PathValues::of(path, self.forward.receiver), &mut url),
        };
        filled.map_err(|error| bad(error.to_string()))?;
        if let Url::Path(Some(query)) = self.url {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(query);
        }
        Target::parse(&url).map_err(|error| bad(error.to_string()))
    }
}

/// The HTTP request that carries a message.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    pub target: Target,
    pub method: Method,
    /// All headers except `Host` and `Content-Length`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the hub created it, and not a DFSP.
    pub is_hub_made: bool,
    /// The participant that is liable for a relayed message. The message uses a slot of its share.
    pub sender: Option<ParticipantId>,
}

impl OutgoingRequest {
    /// Size in memory: headers and body.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    /// The HTTP request for its origin, signed if the hub created it and has a signer.
    pub(crate) async fn into_http(self, signer: Option<&Signer>) -> Request<Full<Bytes>> {
        let signed = match signer {
            Some(signer) if self.is_hub_made => signer.sign(self).await,
            _ => self,
        };
        let mut request = Request::new(Full::new(signed.body));
        *request.method_mut() = signed.method;
        *request.headers_mut() = signed.headers;
        *request.uri_mut() = signed.target.into_uri();
        request
    }
}

/// Reason why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    /// No participant has the receiver's name.
    #[error("no such participant")]
    UnknownReceiver,
    /// The receiver registered no endpoint of the type.
    #[error("no endpoint of type {endpoint_type}")]
    NoEndpoint { endpoint_type: &'static str },
    /// The endpoint is registered but cannot be called.
    #[error("the endpoint of type {endpoint_type} cannot be called: {reason}")]
    BadEndpoint {
        endpoint_type: &'static str,
        /// Description of the fault.
        reason: String,
    },
    /// The record behind the message is inconsistent.
    #[error("the record is damaged: {reason}")]
    BadRecord {
        /// Description of the fault.
        reason: String,
    },
}

#[cfg(test)]
mod tests;

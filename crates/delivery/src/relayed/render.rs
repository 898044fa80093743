//! From a message to the HTTP request that carries it.

use crate::lanes::OutgoingRequest;
use upesi_engine::Participants;
use upesi_fspiop::Versions;
use upesi_fspiop::headers::{Forward, MessageSource, SpanId, rewrite_for_forward};
use upesi_fspiop::uri::{PathValues, append_to_base, fill_template};
use upesi_http::{Bytes, HeaderMap, Method, Target, header_block};
use upesi_ledger::{Participant, ParticipantId};
use upesi_types::{FspId, Timestamp};

use crate::relayed::{Address, Author, Failure, Outgoing};

/// What a request depends on beside the message itself.
pub(crate) struct Context<'a> {
    pub(crate) participants: &'a Participants,
    pub(crate) versions: &'a Versions,
    pub(crate) now: Timestamp,
    pub(crate) span_id: SpanId,
}

impl Context<'_> {
    /// Finds the receiver and makes the request for it.
    pub(crate) fn request(&self, message: &Outgoing) -> Result<(ParticipantId, OutgoingRequest), Failure> {
        let receiver = self.participants.named(&message.receiver).ok_or(Failure::UnknownReceiver)?;
        let request = OutgoingRequest {
            target: target(receiver, message)?,
            method: match message.method {
                upesi_fspiop::Method::Get => Method::GET,
                upesi_fspiop::Method::Post => Method::POST,
                upesi_fspiop::Method::Put => Method::PUT,
                upesi_fspiop::Method::Patch => Method::PATCH,
                upesi_fspiop::Method::Delete => Method::DELETE,
            },
            headers: self.headers(message)?,
            body: message.body.clone(),
        };
        Ok((receiver.id, request))
    }

    fn headers(&self, message: &Outgoing) -> Result<HeaderMap, Failure> {
        let hub = self.participants.hub_name();
        let source = match &message.author {
            Author::Sender(name) => MessageSource::Dfsp { name: name.as_str() },
            Author::Hub => MessageSource::Hub {
                name: hub.as_ref().map_or("Hub", FspId::as_str),
                version: self.versions.hub_made_of(message.resource),
                now: self.now,
            },
        };
        let forward = Forward {
            source,
            receiver: message.receiver.as_str(),
            resource: message.resource,
            method: message.method,
            uri: &message.path,
            span_id: self.span_id,
        };
        let mut block = Vec::with_capacity(message.headers.len() + 256);
        rewrite_for_forward(&message.headers, &forward, &mut block);
        let mut headers =
            header_block::from_block(&Bytes::from(block)).map_err(|error| Failure::BadEndpoint {
                endpoint_type: message.address.endpoint().name(),
                reason: error.to_string(),
            })?;
        for (name, value) in message.additions.iter().flat_map(|additions| additions.iter()) {
            headers.insert(name.clone(), value.clone());
        }
        Ok(headers)
    }
}

fn target(receiver: &Participant, message: &Outgoing) -> Result<Target, Failure> {
    let endpoint = message.address.endpoint();
    let endpoint_type = endpoint.name();
    let Some(registered) = receiver.endpoint(endpoint) else {
        return Err(Failure::NoEndpoint { endpoint_type });
    };
    let bad = |reason: String| Failure::BadEndpoint { endpoint_type, reason };
    let mut url = String::with_capacity(registered.len() + message.path.len());
    match message.address {
        Address::Base(_) => append_to_base(registered, &message.path, message.query.as_deref(), &mut url),
        Address::Template(_) => {
            let values = PathValues::of(&message.path, message.receiver.as_str());
            fill_template(registered, &values, &mut url).map_err(|error| bad(error.to_string()))?;
            if let Some(query) = &message.query {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(query);
            }
        }
    }
    Target::parse(&url).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests;

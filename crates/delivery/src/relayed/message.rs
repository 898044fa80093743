//! Outgoing relayed messages.

use std::sync::Arc;
use std::time::Duration;

use upesi_fspiop::{Method, PathNames, Resource};
use upesi_http::{Bytes, HeaderMap};
use upesi_ledger::EndpointType;
use upesi_types::FspId;

use crate::Request;

/// How the URL of a message is derived from the receiver's endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// A complete URL whose placeholders are filled from the path of the message.
    Template(EndpointType),
    /// A base URL. The path and the query of the message are appended to it.
    Base(EndpointType),
}

impl Address {
    /// The endpoint type that the receiver must have registered.
    pub const fn endpoint(self) -> EndpointType {
        match self {
            Self::Template(endpoint) | Self::Base(endpoint) => endpoint,
        }
    }
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The sender's own message, forwarded with its signature.
    Sender(FspId),
    /// A message of the hub, created because of a request.
    Hub,
}

/// A message to a DFSP.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub receiver: FspId,
    /// Endpoint type and form of the URL.
    pub address: Address,
    pub method: Method,
    pub resource: Resource,
    /// `FSPIOP-URI`: the path from the resource on.
    pub path: Box<str>,
    /// Appended to the URL after a question mark.
    pub query: Option<Box<str>>,
    pub author: Author,
    /// The sender of the request that caused the message. The message uses a slot of this sender's share.
    pub sender: FspId,
    /// The header block of the request that caused it.
    pub headers: Bytes,
    /// Headers that a rule of the scheme adds; they replace the sender's headers with the same names.
    pub additions: Option<Arc<HeaderMap>>,
    pub body: Bytes,
    /// Delay before sending, so that the message does not overtake the answer to the request that caused it.
    pub waits: Duration,
}

impl<I: PathNames> Request<I> {
    /// Forwards this request unchanged to a receiver.
    pub fn forward(&self, receiver: FspId, address: Address) -> Outgoing {
        Outgoing {
            receiver,
            address,
            method: self.operation.method(),
            resource: self.resource(),
            path: self.path(),
            query: self.query.clone(),
            author: Author::Sender(self.parties.source),
            sender: self.parties.source,
            headers: self.headers.clone(),
            additions: None,
            body: self.body.clone(),
            waits: Duration::ZERO,
        }
    }
}

impl<I> Request<I> {
    /// A `PUT` of the hub because of this request.
    pub fn answer(&self, receiver: FspId, address: Address, path: Box<str>, body: Bytes) -> Outgoing {
        Outgoing {
            receiver,
            address,
            method: Method::Put,
            resource: self.resource(),
            path,
            query: None,
            author: Author::Hub,
            sender: self.parties.source,
            headers: self.headers.clone(),
            additions: None,
            body,
            waits: self.reply_to.takes(),
        }
    }
}

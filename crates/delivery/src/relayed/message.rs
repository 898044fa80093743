//! Messages that go out.

use std::sync::Arc;
use std::time::Duration;

use upesi_fspiop::{Method, PathNames, Resource};
use upesi_http::{Bytes, HeaderMap};
use upesi_ledger::EndpointType;
use upesi_types::FspId;

use crate::Request;

/// How the URL of a receiver is made from what it registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// A whole URL in which placeholders are filled from the path of the message.
    Template(EndpointType),
    /// A base URL to which the path of the message, and its query, is appended.
    Base(EndpointType),
}

impl Address {
    /// The endpoint that the receiver must have registered.
    pub const fn endpoint(self) -> EndpointType {
        match self {
            Self::Template(endpoint) | Self::Base(endpoint) => endpoint,
        }
    }
}

/// On whose behalf a message goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The sender's own message, passed on with its signature.
    Sender(FspId),
    /// The hub's, made because of a request.
    Hub,
}

/// A message to a DFSP.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// To whom.
    pub receiver: FspId,
    /// Where to.
    pub address: Address,
    /// Its method.
    pub method: Method,
    /// Of which family.
    pub resource: Resource,
    /// `FSPIOP-URI`: the path from the resource on.
    pub path: Box<str>,
    /// Appended to the URL after a question mark.
    pub query: Option<Box<str>>,
    /// On whose behalf.
    pub author: Author,
    /// The sender of the request that caused it. The message takes a place of the sender's share.
    pub sender: FspId,
    /// The header block of the request that caused it.
    pub headers: Bytes,
    /// Headers that a rule of the scheme adds, in place of the sender's of the same name.
    pub additions: Option<Arc<HeaderMap>>,
    /// The body.
    pub body: Bytes,
    /// How long it waits, lest it overtake the answer to the request that caused it.
    pub waits: Duration,
}

impl<I: PathNames> Request<I> {
    /// This request, forwarded as it is to a receiver.
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
    /// A `PUT` that the hub makes because of this request.
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

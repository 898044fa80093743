//! What the gateway hands requests to: one typed value, one trait.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::Either;
use upesi_engine::ReplyTo;
use upesi_fspiop::headers::Parties;
use upesi_fspiop::{Action, Ids, Message, Operation, PathNames, Resource, SyncError, Version};
use upesi_http::Bytes;

/// A request that passed the gateway's checks, read once. `I` is what its path names: [`Ids`], until a handler has
/// looked which of them it is.
#[derive(Clone, Debug)]
pub struct Request<I = Ids> {
    /// What is asked for.
    pub operation: Operation,
    /// What the path names.
    pub ids: I,
    /// The query as it was received, without its question mark.
    pub query: Option<Box<str>>,
    /// The sender and the receiver.
    pub parties: Parties,
    /// The version of its `Content-Type`; `None` if it came without one and may.
    pub version: Option<Version>,
    /// The content of its body.
    pub message: Message,
    /// Its headers as a header block.
    pub headers: Bytes,
    /// Its body, byte for byte.
    pub body: Bytes,
    /// Where its answer goes.
    pub reply_to: ReplyTo,
}

/// The request is accepted; its outcome follows by callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted;

/// Takes the requests of some families. Their headers, path and body have passed the checks of `upesi_fspiop`; whether
/// the sender may ask this is for the handler to decide.
///
/// Called on a worker of `upesi_http`: it may start tasks there, must not block, and resolves as soon as the request
/// can be acknowledged.
pub trait Handler: Send + Sync + 'static {
    /// Whether it takes requests of this family; those that no handler takes are answered 501 with 2002.
    fn serves(&self, resource: Resource) -> bool;

    /// Takes a request of a family that it serves.
    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send;
}

impl<H: Handler> Handler for Arc<H> {
    fn serves(&self, resource: Resource) -> bool {
        H::serves(self, resource)
    }

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        H::handle(self, request)
    }
}

/// Two handlers; the first takes the families that both serve.
impl<A: Handler, B: Handler> Handler for (A, B) {
    fn serves(&self, resource: Resource) -> bool {
        self.0.serves(resource) || self.1.serves(resource)
    }

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        // Not `async`: such a future would hold the request twice, beside the one that holds it anyway.
        if self.0.serves(request.resource()) {
            Either::Left(self.0.handle(request))
        } else {
            Either::Right(self.1.handle(request))
        }
    }
}

impl<I> Request<I> {
    /// The family.
    pub fn resource(&self) -> Resource {
        self.operation.resource()
    }

    /// What is asked for, errors told apart.
    pub fn action(&self) -> Action {
        self.operation.action()
    }

    /// The same request with other ids, and those that it had.
    pub fn with_ids<J>(self, ids: J) -> (Request<J>, I) {
        let Self { operation, ids: replaced, query, parties, version, message, headers, body, reply_to } =
            self;
        (Request { operation, ids, query, parties, version, message, headers, body, reply_to }, replaced)
    }
}

impl<I: PathNames> Request<I> {
    /// The path as it was received, percent-encoding and all, without the query. It begins with the resource.
    pub fn path(&self) -> Box<str> {
        self.write_path(self.action() == Action::PutError)
    }

    /// The path of the error callback that answers it.
    pub fn error_path(&self) -> Box<str> {
        self.write_path(true)
    }

    fn write_path(&self, is_error: bool) -> Box<str> {
        let mut path = String::with_capacity(self.resource().as_str().len() + self.ids.bytes() + 8);
        self.ids.write_path(self.resource(), is_error, &mut path);
        path.into()
    }

    /// Memory that it holds: headers, body, ids and query.
    pub fn bytes(&self) -> usize {
        let query = self.query.as_deref().map_or(0, str::len);
        self.headers.len() + self.body.len() + self.ids.bytes() + query
    }
}

//! The interface between the gateway and the handlers: one typed request, one trait.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::Either;
use upesi_engine::ReplyTo;
use upesi_fspiop::headers::Parties;
use upesi_fspiop::{Action, Ids, Message, Operation, PathNames, Resource, SyncError, Version};
use upesi_http::Bytes;

/// A request that passed the gateway's checks, parsed once. `I` is the type of the ids in its path: [`Ids`] until a
/// handler has determined their kind.
#[derive(Clone, Debug)]
pub struct Request<I = Ids> {
    pub operation: Operation,
    pub ids: I,
    /// The query as it was received, without its question mark.
    pub query: Option<Box<str>>,
    /// The sender and the receiver.
    pub parties: Parties,
    /// The version of its `Content-Type`; `None` if it has none and needs none.
    pub version: Option<Version>,
    /// The content of its body.
    pub message: Message,
    /// The request's headers as a header block.
    pub headers: Bytes,
    pub body: Bytes,
    /// Destination of the answer.
    pub reply_to: ReplyTo,
}

/// The request is accepted; its outcome follows by callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted;

/// Processes the requests of some resources. Their headers, path and body have passed the checks of `upesi_fspiop`; the
/// handler decides whether the sender may make this request.
///
/// A handler is called on a worker of `upesi_http`. It may start tasks there, must not block, and resolves as soon as
/// the request can be acknowledged.
pub trait Handler: Send + Sync + 'static {
    /// Whether it serves this resource. Requests without a handler are answered 501 with 2002.
    fn serves(&self, resource: Resource) -> bool;

    /// Processes a request for a resource that it serves.
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

/// Two handlers; the first one gets the resources that both serve.
impl<A: Handler, B: Handler> Handler for (A, B) {
    fn serves(&self, resource: Resource) -> bool {
        self.0.serves(resource) || self.1.serves(resource)
    }

    fn handle(&self, request: Request) -> impl Future<Output = Result<Accepted, SyncError>> + Send {
        // Not `async`: such a future would contain the request twice. The futures of the second handler are in boxes,
        // because each value of the result type has the size of the larger one.
        if self.0.serves(request.resource()) {
            Either::Left(self.0.handle(request))
        } else {
            Either::Right(Box::pin(self.1.handle(request)))
        }
    }
}

impl<I> Request<I> {
    pub fn resource(&self) -> Resource {
        self.operation.resource()
    }

    /// The action; errors are distinguished from other answers.
    pub fn action(&self) -> Action {
        self.operation.action()
    }

    /// Replaces the ids. Returns the new request and the previous ids.
    pub fn with_ids<J>(self, ids: J) -> (Request<J>, I) {
        let Self { operation, ids: replaced, query, parties, version, message, headers, body, reply_to } =
            self;
        (Request { operation, ids, query, parties, version, message, headers, body, reply_to }, replaced)
    }
}

impl<I: PathNames> Request<I> {
    /// The path as it was received, including its percent-encoding, without the query. It begins with the resource.
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

    /// Size in memory: headers, body, ids and query.
    pub fn bytes(&self) -> usize {
        let query = self.query.as_deref().map_or(0, str::len);
        self.headers.len() + self.body.len() + self.ids.bytes() + query
    }
}

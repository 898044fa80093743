//! What the gateway hands requests to.

use std::future::Future;
use std::pin::Pin;

use upesi_fspiop::SyncError;

use crate::relayed::Received;

/// A request is accepted: what becomes of it follows by callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted;

/// What taking a request gives: it is accepted, or refused at once.
pub type TakeFuture<'a> = Pin<Box<dyn Future<Output = Result<Accepted, SyncError>> + Send + 'a>>;

/// A family of resources behind the gateway. The request's headers, path and body have passed the checks of
/// `upesi_fspiop`; whether its sender may ask this is for the conversation to say.
///
/// Called on a worker of `upesi_http`: it may start tasks there, must not block, and resolves as soon as the request can be
/// acknowledged.
pub trait Conversation: Send + Sync + 'static {
    /// Takes a request.
    fn take(&self, request: Received) -> TakeFuture<'_>;
}

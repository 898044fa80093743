//! The outbox as lanes need it.

use std::future::Future;
use std::pin::Pin;

use upesi_ledger::{CallbackKey, ParticipantId};

use crate::lanes::callback::{OwedCallback, Position};

/// Room that is left in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At most this many callbacks.
    pub items: usize,
    /// Stop when this many bytes are reached; the callback that reaches it may exceed it.
    pub bytes: usize,
}

/// A page of the undelivered callbacks.
#[derive(Debug)]
pub struct Page {
    /// In ascending order of key.
    pub items: Vec<OwedCallback>,
    /// Where to read on, if there are more. Callbacks whose records are damaged are on no page, so this may lie behind
    /// the last one here, and there may be none here.
    pub more_after: Option<Position>,
}

/// A failed read of the outbox; it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backlog cannot be read: {reason}")]
pub struct BacklogError {
    /// The cause.
    pub reason: String,
}

/// A read of the outbox under way.
pub type BacklogFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BacklogError>> + Send + 'a>>;

/// The outbox as lanes need it.
///
/// No callback is lost or sent twice between [`Self::pending`] and [`Outlet::offer`](crate::lanes::Outlet::offer) as
/// long as two promises hold: whatever has been offered is found by every later
/// `pending` until it was reported delivered or parked; and `pending` returns only what is durable.
pub trait Backlog: Send + Sync + 'static {
    /// The undelivered callbacks of a target that are durable, not parked, and come after
    /// `after`, oldest first, within `room` but at least one if there is any.
    fn pending(&self, target: ParticipantId, after: Option<Position>, room: Room) -> BacklogFuture<'_, Page>;

    /// The keys of such callbacks, at most `limit`. Nothing of their content is read.
    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>>;

    /// The given callbacks, in any order; those that are no longer undelivered, or parked, are left out.
    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<OwedCallback>>;

    /// Reports callbacks as delivered. May be recorded lazily: losing a report only repeats them after a restart. Must
    /// not block.
    fn delivered(&self, keys: Vec<CallbackKey>);

    /// Reports a callback as given up after so many attempts. Must not block.
    fn parked(&self, key: CallbackKey, reason: String, attempts: u32);
}

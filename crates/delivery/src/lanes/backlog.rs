//! The interface between lanes and the outbox.

use std::future::Future;
use std::pin::Pin;

use upesi_ledger::{CallbackKey, ParticipantId};

use crate::lanes::callback::{OwedCallback, Position};

/// Free capacity of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCapacity {
    /// Maximum number of callbacks.
    pub items: usize,
    /// Maximum number of bytes; the last callback may exceed it.
    pub bytes: usize,
}

/// A page of the undelivered callbacks.
#[derive(Debug)]
pub struct Page {
    /// The callbacks, in ascending order of their keys.
    pub items: Vec<OwedCallback>,
    /// Position after which the next page begins, if there are more callbacks. Callbacks with damaged records are on no
    /// page, so this may be later than the last one here, and the page may be empty.
    pub more_after: Option<Position>,
}

/// A failed read of the outbox; it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backlog cannot be read: {reason}")]
pub struct BacklogError {
    pub reason: String,
}

/// A running read of the outbox.
pub type BacklogFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BacklogError>> + Send + 'a>>;

/// The outbox as lanes use it.
///
/// No callback is lost or sent twice between [`Self::pending`] and
/// [`LaneDispatcher::offer`](crate::lanes::LaneDispatcher::offer) if two conditions hold. Every later `pending` returns
/// each offered callback until it has been reported as delivered or parked; and `pending` returns only durable
/// callbacks.
pub trait Backlog: Send + Sync + 'static {
    /// The undelivered callbacks of a target that are durable, not parked, and come after `after`, oldest first, within
    /// `room` but at least one if there is any.
    fn pending(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: LaneCapacity,
    ) -> BacklogFuture<'_, Page>;

    /// The keys of such callbacks, at most `limit`. Their content is not read.
    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>>;

    /// The given callbacks, in any order. Callbacks that are delivered or parked are left out.
    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<OwedCallback>>;

    /// Reports callbacks as delivered. The report may be recorded lazily: losing it only repeats them after a restart.
    /// Must not block.
    fn delivered(&self, keys: Vec<CallbackKey>);

    /// Reports a callback as parked after this number of attempts. Must not block.
    fn parked(&self, key: CallbackKey, reason: String, attempts: u32);
}

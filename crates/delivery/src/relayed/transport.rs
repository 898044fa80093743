//! The way to a DFSP.

use std::future::Future;
use std::pin::Pin;

use crate::OutgoingRequest;
use crate::lanes::Courier;
use crate::lanes::TransportError;
use upesi_http::Answer;
use upesi_ledger::ParticipantId;

/// A message under way: its answer, of any status, or why there is none.
pub type TransportFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, TransportError>> + Send + 'a>>;

/// Sends requests to participants: the courier's lanes, or a recording in tests.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request to a participant, from the worker that calls. Bounded in time and in number.
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_>;
}

impl Transport for Courier {
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_> {
        Box::pin(Self::send(self, receiver, request))
    }
}

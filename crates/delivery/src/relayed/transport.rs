//! The interface to the lanes of DFSPs.

use std::future::Future;
use std::pin::Pin;

use crate::OutgoingRequest;
use crate::lanes::Courier;
use crate::lanes::TransportError;
use upesi_http::Answer;
use upesi_ledger::ParticipantId;

/// A message that is being sent: resolves to its answer, of any status, or the reason why there is none.
pub type TransportFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, TransportError>> + Send + 'a>>;

/// Sends requests to participants: over the courier's lanes, or to a recording in tests.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request to a participant from the calling worker, with limits on time and number.
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_>;
}

impl Transport for Courier {
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_> {
        Box::pin(Self::send(self, receiver, request))
    }
}

//! The way to a DFSP.

use std::future::Future;
use std::pin::Pin;

use upesi_courier::OutgoingRequest;
use upesi_http::Answer;
use upesi_ledger::ParticipantId;

/// Why a receiver did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Its lane pauses, because it could not be reached several times in a row; nothing was sent.
    #[error("its lane pauses after repeated failures")]
    Barred,
    /// As many messages as are allowed are on their way to it; nothing was sent.
    #[error("too many messages are on their way to it")]
    Busy,
    /// It could not be reached, or gave no answer in time.
    #[error("{0}")]
    Unreachable(String),
}

/// What sending gives: an answer of any status, or why there is none.
pub type TransportFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, TransportError>> + Send + 'a>>;

/// Sends requests to participants: the courier's lanes, or a recording in tests.
pub trait Transport: Send + Sync + 'static {
    /// Sends one request to a participant, from the worker that calls. Bounded in time and in number.
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_>;
}

//! What the courier is given and what it asks of its surroundings.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use upesi_http::{Bytes, Full, HeaderMap, Method, Request, StatusCode, Target};
use upesi_ledger::{CallbackKey, ParticipantId};

/// Where a notice stands among those of its target: journal sequence, then place in the record.
pub type Position = (u64, u8);

/// A notice to deliver. `R` is the durable record that owes it, as the engine keeps it.
#[derive(Debug)]
pub struct Delivery<R> {
    /// Which notice, and to whom.
    pub key: CallbackKey,
    /// Notices of equal value are delivered one after the other, in order of their keys: a hash of the transfer's id. Two
    /// transfers with the same value only wait for each other.
    pub order: u64,
    /// Memory that the notice holds: headers and body.
    pub bytes: usize,
    /// Whether it waits until its target has the answer to the request that caused it, which
    /// [`Courier::answered`](crate::lanes::Courier::answered) reports.
    pub awaits_answer: bool,
    /// What it is made from.
    pub record: Arc<R>,
}

/// How a notice that was refused is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// With growing waits until its deadline: the DFSP may take it later.
    UntilDeadline,
    /// A few times, with the longest waits, then it is parked: only somebody's intervention would change the answer.
    AFewTimes,
}

/// An answer other than 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was answered, for people.
    pub reason: String,
    /// What follows.
    pub repetition: Repetition,
}

/// Which party's message a notice brings to the other party of a transfer, and how long they have waited, for measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The payer's prepare, to the payee, so long after it was decided.
    Prepare(Duration),
    /// The payee's answer to it, to the payer.
    Fulfil {
        /// After it was decided.
        took: Duration,
        /// After the prepare was decided, where that is known.
        in_all: Option<Duration>,
    },
}

impl<R> Delivery<R> {
    /// Where it stands among those of its target.
    pub const fn position(&self) -> Position {
        (self.key.seq, self.key.index)
    }
}

/// How much a lane can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At most this many notices.
    pub items: usize,
    /// Stop when this many bytes are reached; the notice that reaches it may exceed it.
    pub bytes: usize,
}

/// Some of the undelivered notices.
#[derive(Debug)]
pub struct Page<R> {
    /// In ascending order of key.
    pub items: Vec<Delivery<R>>,
    /// Whether there are further ones behind the last of these.
    pub more: bool,
}

/// Why the backlog could not be read; it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backlog cannot be read: {reason}")]
pub struct BacklogError {
    /// What went wrong.
    pub reason: String,
}

/// What reading the backlog gives.
pub type BacklogFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BacklogError>> + Send + 'a>>;

/// The outbox as the courier needs it.
///
/// No notice is lost or sent twice between [`Self::pending`] and [`Outlet::offer`](crate::lanes::Outlet::offer) as long as two
/// promises hold: what has been offered is found by every later `pending` until it was reported delivered or parked; and
/// `pending` gives only what is durable.
pub trait Backlog<R>: Send + Sync + 'static {
    /// The undelivered notices of a target that are durable, not parked, and stand behind `after`, oldest first, within
    /// `room` but at least one if there is any.
    fn pending(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        room: Room,
    ) -> BacklogFuture<'_, Page<R>>;

    /// The keys of such notices, at most `limit`. Nothing of their content is read.
    fn keys(
        &self,
        target: ParticipantId,
        after: Option<Position>,
        limit: usize,
    ) -> BacklogFuture<'_, Vec<CallbackKey>>;

    /// The given notices, in any order; those that are no longer undelivered, or parked, are left out.
    fn load(&self, keys: Vec<CallbackKey>) -> BacklogFuture<'_, Vec<Delivery<R>>>;

    /// These were delivered. May be recorded lazily: losing it only repeats them after a restart. Must not block.
    fn delivered(&self, keys: Vec<CallbackKey>);

    /// Delivery of this one was given up after so many attempts. Must not block.
    fn parked(&self, key: CallbackKey, reason: String, attempts: u32);
}

/// What to send.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Where to.
    pub target: Target,
    /// How.
    pub method: Method,
    /// All headers but `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl OutgoingRequest {
    /// Memory that it holds: headers and body.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    /// As a connection to its origin takes it.
    pub(crate) fn into_http(self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.headers_mut() = self.headers;
        *request.uri_mut() = self.target.into_uri();
        request
    }
}

/// Why a message that is nobody's notice was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectError {
    /// The lane pauses, because the DFSP could not be reached several times in a row; nothing was sent.
    #[error("the lane pauses after repeated failures")]
    Barred,
    /// As many as are allowed are on their way or wait; nothing was sent.
    #[error("too many messages are on their way")]
    Busy,
    /// A kept connection was closed, for being idle it seems, just as it was used again: send it once more. Whether it
    /// arrived is not known.
    #[error("the connection was closed as it was used again")]
    Stale,
    /// The DFSP could not be reached, or gave no answer in time.
    #[error("{0}")]
    Unreachable(String),
}

/// Why a notice cannot be sent at all; it is parked at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    /// The participant has no such endpoint.
    #[error("no endpoint of type {endpoint_type}")]
    NoEndpoint {
        /// Name of the endpoint type.
        endpoint_type: &'static str,
    },
    /// The endpoint is there but cannot be called.
    #[error("the endpoint of type {endpoint_type} cannot be called: {reason}")]
    BadEndpoint {
        /// Name of the endpoint type.
        endpoint_type: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The record does not hold what the key says.
    #[error("the record is damaged: {reason}")]
    BadRecord {
        /// What is wrong with it.
        reason: String,
    },
}

/// Makes the request of a notice. Asked anew at each attempt, so that a changed endpoint counts for repetitions too; it
/// must give the same headers and body each time.
pub trait Renderer<R>: Send + Sync + 'static {
    /// The request for the notice `key` of `record`. Runs on the worker that sends: must be quick and must not block.
    fn render(&self, key: CallbackKey, record: &R) -> Result<OutgoingRequest, Unroutable>;

    /// The name of a target, for the log.
    fn name(&self, target: ParticipantId) -> String {
        format!("participant {}", target.number())
    }

    /// What an answer other than 2xx means. Unless told otherwise, everything is repeated until the deadline.
    fn refusal(&self, status: StatusCode, _body: &[u8]) -> Refusal {
        Refusal { reason: format!("answered {status}"), repetition: Repetition::UntilDeadline }
    }

    /// Why the notice `key` of `record` need not be sent any more, where that is so. Asked before it is repeated to a DFSP
    /// that refused it; must be quick and must not block.
    fn is_moot(&self, _key: CallbackKey, _record: &R) -> Option<String> {
        None
    }

    /// Which party's message the notice `key` of `record` brings to the other, where it does. Asked when it has just been
    /// delivered; must be quick and must not block.
    fn leg(&self, _key: CallbackKey, _record: &R) -> Option<Leg> {
        None
    }
}

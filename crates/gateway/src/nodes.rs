//! From node to node of a cluster: one that follows reads and checks requests as any edge does, and hands each on to
//! the one that leads.
//!
//! A request goes as it came: its method, path and query, its header block, its body, byte for byte, as a request of
//! HTTP/1.1 over mutual TLS. The leader reads it again, so that nodes of different versions need to agree on nothing
//! but the API. Whom it comes from is what the follower has found out: its headers.

mod couriers;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response, StatusCode, Uri};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use upesi_admission::SourceId;
use upesi_delivery::owed::Report;
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::{Clock, EngineHandle, Serving, SharedParticipants, SubmitError};
use upesi_fspiop::{Method, Resource, Route, SyncError, Unroutable};
use upesi_http::{
    ClientTls, Connection, Full, Incoming, Origin, Pool, PoolConfig, SendError, Service, header_block,
};
use upesi_types::ErrorCode;

use super::large_bodies::Sender;
use crate::caller::{TrustEveryone, check_blocks};
use crate::config::GatewayConfig;
use crate::large_bodies::{LargeBodies, Unread};
use crate::{answer, request};

pub use couriers::{Couriers, REPORT_EVERY, ReportWay};

// The port of the node that leads, to which the others hand requests on.

/// Takes what other nodes hand on. Who calls was proven to them; to whom this port listens is for its TLS to say.
pub struct NodePort<H> {
    engine: EngineHandle,
    handler: H,
    clock: Arc<dyn Clock>,
    participants: SharedParticipants,
    config: GatewayConfig,
    bodies: LargeBodies,
    couriers: Arc<Couriers>,
}

impl<H: Handler> NodePort<H> {
    /// In front of the same handlers as the gateway, by the same rules.
    pub fn new(
        engine: EngineHandle,
        handler: H,
        participants: SharedParticipants,
        config: GatewayConfig,
        couriers: Arc<Couriers>,
    ) -> Self {
        // All of them are one sender's here: the followers have told DFSPs apart.
        let bodies = LargeBodies::new(config.large_bodies_bytes_max, config.large_bodies_bytes_max);
        Self { clock: engine.clock(), engine, handler, participants, config, bodies, couriers }
    }

    fn has_stopped(&self) -> bool {
        matches!(self.engine.status().serving, Serving::Stopped(_))
    }

    async fn answer(&self, request: HttpRequest<Incoming>) -> Result<NodeAnswer, SyncError> {
        let received = Instant::now();
        if self.has_stopped() {
            return Ok(NodeAnswer::DoesNotLead);
        }
        let (parts, body) = request.into_parts();
        if parts.uri.path() == couriers::PATH {
            return self.take_report(body, received).await;
        }
        let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
        let route = route.map_err(Unroutable::to_error)?;
        if !self.handler.serves(route.resource()) {
            return Err(SyncError::not_implemented());
        }
        let bytes = self.read(body, received).await?;
        self.check_blocks(&parts.headers)?;
        let moves_money = route.resource().moves_money();
        let present = || self.clock.present();
        let request = request::read(route, &parts, bytes, &self.config, &TrustEveryone, present)?;
        drop(parts);
        match self.handler.handle(request).await {
            // It may have stopped because another node leads, or hands over: that one knows what it knew.
            Err(error) if moves_money && error.code == ErrorCode::UNAVAILABLE && !self.is_read_only() => {
                Ok(NodeAnswer::DoesNotLead)
            }
            outcome => outcome.map(|Accepted| NodeAnswer::Handled(Ok(Accepted))),
        }
    }

    async fn read(&self, body: Incoming, received: Instant) -> Result<Bytes, SyncError> {
        let (max, deadline) = (self.config.body_bytes_max, received + self.config.body_deadline);
        let read = self.bodies.read(body, max, deadline, || Sender::Dfsp(SourceId::OTHERS)).await;
        read.map_err(|unread| match unread {
            Unread::Failed(error) => answer::unreadable_body(error, max),
            Unread::Busy => answer::busy(),
        })
    }

    /// What another node says of the callbacks that it delivers.
    async fn take_report(&self, body: Incoming, received: Instant) -> Result<NodeAnswer, SyncError> {
        let bytes = self.read(body, received).await?;
        let unreadable = || SyncError::new(ErrorCode::MALFORMED_SYNTAX, "this is no report of callbacks");
        let report = Report::read(&bytes).ok_or_else(unreadable)?;
        match self.couriers.take(report, &self.engine) {
            Ok(()) => Ok(NodeAnswer::Handled(Ok(Accepted))),
            Err(SubmitError::Busy) => Err(answer::busy()),
            Err(_) => Ok(NodeAnswer::DoesNotLead),
        }
    }

    fn is_read_only(&self) -> bool {
        self.engine.status().serving == Serving::ReadOnly
    }

    /// Operators may have blocked a DFSP before the other node has read it.
    fn check_blocks(&self, headers: &HeaderMap) -> Result<(), SyncError> {
        check_blocks(&self.participants.get(), headers, None).map_err(|denial| denial.error())
    }
}

impl<H: Handler> Service for NodePort<H> {
    async fn call(&self, request: HttpRequest<Incoming>, _connection: &Connection) -> Response<Full<Bytes>> {
        let answered = self.answer(request).await;
        answered.unwrap_or_else(|error| NodeAnswer::Handled(Err(error))).write()
    }
}

// What the leader answers a node that handed a request on.

/// The node does not lead, or not any more: nothing came of the request that another one would not make good.
const DOES_NOT_LEAD: StatusCode = StatusCode::MISDIRECTED_REQUEST;
/// Bytes of an answer at most: a code and 128 characters.
const ANSWER_BYTES_MAX: usize = 1024;

/// An answer, as it is written and read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeAnswer {
    /// The handler answered.
    Handled(Result<Accepted, SyncError>),
    /// Another node may lead.
    DoesNotLead,
}

impl NodeAnswer {
    /// As a response: of a refusal the status, and the code before the description.
    fn write(&self) -> Response<Full<Bytes>> {
        let (status, text) = match self {
            Self::Handled(Ok(Accepted)) => (StatusCode::NO_CONTENT, String::new()),
            Self::DoesNotLead => (DOES_NOT_LEAD, String::new()),
            Self::Handled(Err(error)) => (
                StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                format!("{} {}", error.code.number(), error.description),
            ),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    }

    /// Reads a response; `None` if it is not of this form: then the request came to no handler.
    fn read(status: StatusCode, body: &[u8]) -> Option<Self> {
        match status {
            StatusCode::NO_CONTENT => return Some(Self::Handled(Ok(Accepted))),
            DOES_NOT_LEAD => return Some(Self::DoesNotLead),
            _ => {}
        }
        let (code, description) = str::from_utf8(body).ok()?.split_once(' ')?;
        let code = ErrorCode::from_number(code.parse().ok()?)?;
        let error = SyncError {
            status: status.as_u16(),
            description: description.to_owned(),
            ..SyncError::new(code, "")
        };
        (status.is_client_error() || status.is_server_error()).then_some(Self::Handled(Err(error)))
    }
}

// The handler of a node that follows: hands requests on to the one that leads.

/// How long a request waits for a node that leads and answers it. A leader that falls silent is followed within three
/// seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a leader that does not answer yet: it may have just been elected.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Kept connections, and so requests at a time, to the node that leads.
pub const CONNECTIONS_PER_NODE: usize = 256;
/// Requests that wait for the leader at a time; further ones are answered 503 with 2005.
const WAITING_MAX: usize = 4 * CONNECTIONS_PER_NODE;

/// The node that leads, as far as this one has read the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Counts the changes of leadership.
    pub epoch: u64,
    /// `None`: none does.
    pub node: Option<u32>,
}

/// What became of requests that were handed on.
#[derive(Debug, Default)]
pub struct HandOnCounts {
    /// The leader answered.
    pub answered: AtomicU64,
    /// Attempts that were repeated, as another node may lead.
    pub repeated: AtomicU64,
    /// Answered 503, as no node that leads could be reached.
    pub unreachable: AtomicU64,
    /// Answered 503, as the leader may have taken them or not.
    pub unknown: AtomicU64,
}

/// The ports of the nodes of a cluster, by number.
#[derive(Debug)]
pub struct Peers(BTreeMap<u32, Pool>);

impl Peers {
    /// Connections with this TLS, which shows a certificate; without it they are plain, for tests.
    pub fn new(origins: impl IntoIterator<Item = (u32, Origin)>, tls: Option<&ClientTls>) -> Self {
        let config = PoolConfig {
            connections_max: CONNECTIONS_PER_NODE,
            connect_timeout: CONNECT_TIMEOUT,
            response_body_bytes_max: ANSWER_BYTES_MAX,
            tls: tls.cloned(),
            ..PoolConfig::default()
        };
        let pools = origins.into_iter().map(|(node, origin)| (node, Pool::new(origin, config.clone())));
        Self(pools.collect())
    }
}

/// Why an attempt has no answer.
enum NoAnswer {
    /// It reached no handler, or one that may do it twice.
    Again,
    /// The leader may have taken it or not.
    Unknown,
}

/// Hands requests on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HandOn {
    shared: Arc<Shared>,
}

struct Shared {
    leads: watch::Receiver<Lead>,
    peers: Peers,
    waiting: Semaphore,
    counts: Arc<HandOnCounts>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("leads", &*self.leads.borrow()).finish_non_exhaustive()
    }
}

impl HandOn {
    /// To the node that leads by `leads`.
    pub fn new(leads: watch::Receiver<Lead>, peers: Peers, counts: Arc<HandOnCounts>) -> Self {
        let waiting = Semaphore::new(WAITING_MAX);
        Self { shared: Arc::new(Shared { leads, peers, waiting, counts }) }
    }
}

impl Handler for HandOn {
    /// What the leader does not serve it says itself.
    fn serves(&self, _resource: Resource) -> bool {
        true
    }

    async fn handle(&self, request: Request) -> Result<Accepted, SyncError> {
        let shared = &*self.shared;
        let Ok(_place) = shared.waiting.try_acquire() else { return Err(answer::busy()) };
        shared.hand_on(&Outgoing::of(request)?).await
    }
}

impl Shared {
    async fn hand_on(&self, request: &Outgoing) -> Result<Accepted, SyncError> {
        let deadline = Instant::now() + PATIENCE;
        let mut leads = self.leads.clone();
        loop {
            let lead = *leads.borrow_and_update();
            let no_answer = match lead.node.and_then(|node| self.peers.0.get(&node)) {
                None => NoAnswer::Again,
                Some(pool) => match self.attempt(pool, request, deadline, &mut leads).await {
                    Ok(answered) => {
                        self.counts.answered.fetch_add(1, Ordering::Relaxed);
                        return answered;
                    }
                    Err(no_answer) => no_answer,
                },
            };
            if matches!(no_answer, NoAnswer::Unknown) && !request.may_repeat {
                self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                return Err(SyncError::new(
                    ErrorCode::UNAVAILABLE,
                    "the outcome is not known, repeat the request",
                ));
            }
            if Instant::now() + LOOK_EVERY >= deadline {
                return Err(self.unreachable());
            }
            self.counts.repeated.fetch_add(1, Ordering::Relaxed);
            // A leader that has been elected just now is not there yet; a change of leadership is what it waits for.
            let _ = timeout_at(Instant::now() + LOOK_EVERY, changed(&mut leads)).await;
        }
    }

    /// One attempt at the node that leads. It ends when another one does: the former one may be frozen.
    async fn attempt(
        &self,
        pool: &Pool,
        request: &Outgoing,
        deadline: Instant,
        leads: &mut watch::Receiver<Lead>,
    ) -> Result<Result<Accepted, SyncError>, NoAnswer> {
        let sent = tokio::select! {
            sent = pool.send(request.http()?, deadline) => sent,
            // What may not be repeated waits for whatever it says.
            () = changed(leads), if request.may_repeat => return Err(NoAnswer::Unknown),
        };
        match sent {
            Ok(response) => match NodeAnswer::read(response.status, &response.body) {
                Some(NodeAnswer::Handled(answered)) => Ok(answered),
                Some(NodeAnswer::DoesNotLead) | None => Err(NoAnswer::Again),
            },
            Err(SendError::Connect { .. } | SendError::ConnectTimeout { .. } | SendError::Busy { .. }) => {
                Err(NoAnswer::Again)
            }
            Err(error) => {
                tracing::debug!(%error, "the node that leads did not answer");
                Err(NoAnswer::Unknown)
            }
        }
    }

    fn unreachable(&self) -> SyncError {
        self.counts.unreachable.fetch_add(1, Ordering::Relaxed);
        SyncError::new(ErrorCode::UNAVAILABLE, "try again later")
    }
}

/// Waits until another node leads, or none.
async fn changed(leads: &mut watch::Receiver<Lead>) {
    if leads.changed().await.is_err() {
        // The log is followed no more: nothing changes.
        pending().await
    }
}

/// A request as it goes to the leader, once or more often.
struct Outgoing {
    method: http::Method,
    uri: Uri,
    block: Bytes,
    body: Bytes,
    /// Whether a second one changes nothing: of what the ledger knows by its id.
    may_repeat: bool,
}

impl Outgoing {
    fn of(request: Request) -> Result<Self, SyncError> {
        let internal = |_| SyncError::new(ErrorCode::INTERNAL, "");
        let method = http::Method::from_bytes(request.operation.method().as_str().as_bytes());
        let mut target = request.path().into_string();
        if let Some(query) = &request.query {
            target.push('?');
            target.push_str(query);
        }
        Ok(Self {
            method: method.map_err(|_| SyncError::new(ErrorCode::INTERNAL, ""))?,
            uri: Uri::try_from(target).map_err(internal)?,
            may_repeat: request.resource().moves_money(),
            block: request.headers,
            body: request.body,
        })
    }

    fn http(&self) -> Result<HttpRequest<Full<Bytes>>, NoAnswer> {
        // It was made from headers: it is one.
        let headers = header_block::from_block(&self.block).map_err(|_| NoAnswer::Unknown)?;
        let mut request = HttpRequest::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        use http_body::Body as _;
        let busy = SyncError::new(ErrorCode::SERVER_BUSY, "try again later");
        let odd = SyncError { status: 403, ..SyncError::new(ErrorCode::CLIENT, "") };
        for answer in [
            NodeAnswer::Handled(Ok(Accepted)),
            NodeAnswer::DoesNotLead,
            NodeAnswer::Handled(Err(busy)),
            NodeAnswer::Handled(Err(odd)),
        ] {
            let mut response = answer.write();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let frame = std::pin::Pin::new(response.body_mut()).poll_frame(&mut context);
            let body = match frame {
                std::task::Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                _ => Bytes::new(),
            };
            assert!(body.len() < ANSWER_BYTES_MAX);
            assert_eq!(NodeAnswer::read(response.status(), &body), Some(answer));
        }
    }

    #[test]
    fn other_responses_are_none() {
        for (status, body) in
            [(200, ""), (200, "2005 x"), (503, ""), (431, "too long"), (503, "999 x"), (302, "2005 x")]
        {
            assert_eq!(
                NodeAnswer::read(StatusCode::from_u16(status).unwrap(), body.as_bytes()),
                None,
                "{status} {body}"
            );
        }
    }
}

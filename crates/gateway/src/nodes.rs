//! Requests between the nodes of a cluster: a follower reads and checks requests of DFSPs and forwards each to the
//! leader.
//!
//! A request is forwarded unchanged: its method, path and query, its header block and its body, byte for byte, as an
//! HTTP/1.1 request over mutual TLS. The leader reads it again, so nodes of different versions need to agree only on
//! the API. The leader trusts the follower's authentication of the sender, and takes the sender from the headers.

mod couriers;
mod hand_on;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response, StatusCode};
use tokio::time::Instant;
use upesi_delivery::owed::Report;
use upesi_delivery::{Accepted, Handler};
use upesi_engine::{Clock, ReplyTo, Serving, SharedParticipants, SubmitError};
use upesi_fspiop::{Method, Route, SyncError, Unroutable};
use upesi_http::server::Refusal;
use upesi_http::{ClientTls, Connection, Full, Incoming, Origin, Pool, PoolConfig, Service};
use upesi_types::ErrorCode;

use crate::admission::source_of;
use crate::caller::{Caller, TrustEveryone, check_blocks};
use crate::config::GatewayConfig;
use crate::large_bodies::{LargeBodies, Sender, Unread};
use crate::role::{Role, Roles};
use crate::{answer, request};

pub use hand_on::{HandOn, HandOnCounts};

pub use couriers::{Couriers, REPORT_EVERY, ReportWay};

// The port for requests that other nodes forward.

/// Accepts requests that other nodes forward, while this node is the leader. Those nodes have authenticated the senders;
/// the TLS of this port authenticates the nodes.
pub struct NodePort<H> {
    roles: Roles<H>,
    clock: Arc<dyn Clock>,
    participants: SharedParticipants,
    config: GatewayConfig,
    bodies: LargeBodies,
}

impl<H: Handler> NodePort<H> {
    /// A port in front of the gateway's handlers, with the gateway's rules and its limit on large bodies.
    pub fn new(
        roles: Roles<H>,
        clock: Arc<dyn Clock>,
        participants: SharedParticipants,
        config: GatewayConfig,
        bodies: LargeBodies,
    ) -> Self {
        Self { roles, clock, participants, config, bodies }
    }

    fn leads(&self) -> bool {
        match &*self.roles.get() {
            Role::Leads(leading) => !matches!(leading.engine.status().serving, Serving::Stopped(_)),
            Role::Starting | Role::Follows(_) => false,
        }
    }

    async fn answer(&self, request: HttpRequest<Incoming>) -> Result<NodeAnswer, SyncError> {
        let received = Instant::now();
        if !self.leads() {
            return Ok(NodeAnswer::DoesNotLead);
        }
        let (parts, body) = request.into_parts();
        if parts.uri.path() == couriers::PATH {
            return self.take_report(&parts.headers, body, received).await;
        }
        let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
        let route = route.map_err(Unroutable::to_error)?;
        if !self.roles.get().serves(route.resource()) {
            return Err(SyncError::not_implemented());
        }
        let bytes = self.read(&parts.headers, body, received).await?;
        self.check_blocks(&parts.headers)?;
        let moves_money = route.resource().moves_money();
        let present = || self.clock.present();
        let proof = request::SenderProof { authenticator: &TrustEveryone, is_known: false };
        let mut request = request::read(route, &parts, bytes, &self.config, proof, present)?;
        request.reply_to = ReplyTo::Node;
        drop(parts);
        // Read again: a body may take time.
        let role = self.roles.get();
        let Role::Leads(leading) = &*role else { return Ok(NodeAnswer::DoesNotLead) };
        match leading.handler.handle(request).await {
            // The hub may have stopped because another node is the leader or takes over. That node knows every recorded
            // command.
            Err(error)
                if moves_money
                    && error.code == ErrorCode::UNAVAILABLE
                    && leading.engine.status().serving != Serving::ReadOnly =>
            {
                Ok(NodeAnswer::DoesNotLead)
            }
            outcome => outcome.map(|Accepted| NodeAnswer::Handled(Ok(Accepted))),
        }
    }

    async fn read(&self, headers: &HeaderMap, body: Incoming, received: Instant) -> Result<Bytes, SyncError> {
        let (max, deadline) = (self.config.body_bytes_max, received + self.config.body_deadline);
        let sender = || Sender::Dfsp(source_of(&self.participants.get(), Caller::named(headers).source()));
        let read = self.bodies.read(body, max, deadline, sender).await;
        read.map_err(|unread| match unread {
            Unread::Failed(error) => answer::unreadable_body(error, max),
            Unread::Busy => answer::busy(),
        })
    }

    /// Accepts another node's report of its callback deliveries.
    async fn take_report(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        received: Instant,
    ) -> Result<NodeAnswer, SyncError> {
        let bytes = self.read(headers, body, received).await?;
        let unreadable = || SyncError::new(ErrorCode::MALFORMED_SYNTAX, "this is no report of callbacks");
        let report = Report::read(&bytes).ok_or_else(unreadable)?;
        let role = self.roles.get();
        let Role::Leads(leading) = &*role else { return Ok(NodeAnswer::DoesNotLead) };
        match leading.couriers.take(report, &leading.engine) {
            Ok(()) => Ok(NodeAnswer::Handled(Ok(Accepted))),
            Err(SubmitError::Busy) => Err(answer::busy()),
            Err(_) => Ok(NodeAnswer::DoesNotLead),
        }
    }

    /// Operators may have blocked a DFSP, and the other node may not have read that yet.
    fn check_blocks(&self, headers: &HeaderMap) -> Result<(), SyncError> {
        check_blocks(&self.participants.get(), headers, None).map_err(|denial| denial.error())
    }
}

impl<H: Handler> Service for NodePort<H> {
    async fn call(&self, request: HttpRequest<Incoming>, _connection: &Connection) -> Response<Full<Bytes>> {
        let answered = self.answer(request).await;
        answered.unwrap_or_else(|error| NodeAnswer::Handled(Err(error))).write()
    }

    fn reject(&self, _request: &HttpRequest<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        NodeAnswer::Handled(Err(answer::forbidden_by_http(&refusal))).write()
    }
}

// Answers of the leader to a follower that forwarded a request.

/// This node is not, or no longer, the leader. The request had no effect that the next leader does not know.
const DOES_NOT_LEAD: StatusCode = StatusCode::MISDIRECTED_REQUEST;
/// Maximum number of bytes in an answer: a code and 128 characters.
const ANSWER_BYTES_MAX: usize = 1024;

/// An answer between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeAnswer {
    /// The handler answered.
    Handled(Result<Accepted, SyncError>),
    /// Another node may be the leader.
    DoesNotLead,
}

impl NodeAnswer {
    /// The response. For an error: its status, and as body its code and description.
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

    /// Reads a response. `None` if it does not have this form: then no handler received the request.
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

// The nodes of a cluster, as seen by one of them.

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of open connections to the leader, and so of concurrent requests.
pub const CONNECTIONS_PER_NODE: usize = 256;
/// The leader, as far as this node has read the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Number of the leadership; it increases with each change.
    pub epoch: u64,
    /// The leader's number; `None` if there is no leader.
    pub node: Option<u32>,
    /// Whether another node leads, or soon will, that this node has not read in the log yet, because it was the leader
    /// itself. Then `node` is at most the node that was asked to lead.
    pub is_sought: bool,
}

/// Connections to the nodes of a cluster, by number.
#[derive(Debug)]
pub struct Peers(BTreeMap<u32, Pool>);

impl Peers {
    /// Connections with mutual TLS; without `tls` they are plain, for tests.
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

    /// Closes idle connections to all nodes but one, so that the leader can use their slots.
    fn close_all_but(&self, kept: Option<u32>) {
        self.0.iter().filter(|(node, _)| Some(**node) != kept).for_each(|(_, pool)| pool.close_idle());
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

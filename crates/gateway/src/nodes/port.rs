//! The leader's port for requests that followers forward.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response};
use tokio::time::Instant;
use upesi_delivery::owed::Report;
use upesi_delivery::{Accepted, Handler};
use upesi_engine::{Clock, EngineHandle, ReplyTo, Serving, SharedParticipants, SubmitError};
use upesi_fspiop::{Method, Route, SyncError, Unroutable};
use upesi_http::server::Refusal;
use upesi_http::{Connection, Full, Incoming, Service};
use upesi_types::ErrorCode;

use super::couriers::{self, Couriers};
use super::node_answer::NodeAnswer;
use crate::admission::source_of;
use crate::authenticator::TrustEveryone;
use crate::caller::{Caller, check_blocks};
use crate::config::GatewayConfig;
use crate::large_bodies::{LargeBodies, Sender, Unread};
use crate::{answer, request};

/// Accepts requests that other nodes forward. Those nodes have authenticated the senders; the TLS of this port
/// authenticates the nodes.
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
    /// A port in front of the gateway's handlers, with the gateway's rules and its limit on large bodies.
    pub fn new(
        engine: EngineHandle,
        handler: H,
        participants: SharedParticipants,
        config: GatewayConfig,
        bodies: LargeBodies,
        couriers: Arc<Couriers>,
    ) -> Self {
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
            return self.take_report(&parts.headers, body, received).await;
        }
        let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
        let route = route.map_err(Unroutable::to_error)?;
        if !self.handler.serves(route.resource()) {
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
        match self.handler.handle(request).await {
            // The hub may have stopped because another node is the leader or takes over. That node knows every recorded
            // command.
            Err(error) if moves_money && error.code == ErrorCode::UNAVAILABLE && !self.is_read_only() => {
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
        match self.couriers.take(report, &self.engine) {
            Ok(()) => Ok(NodeAnswer::Handled(Ok(Accepted))),
            Err(SubmitError::Busy) => Err(answer::busy()),
            Err(_) => Ok(NodeAnswer::DoesNotLead),
        }
    }

    fn is_read_only(&self) -> bool {
        self.engine.status().serving == Serving::ReadOnly
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

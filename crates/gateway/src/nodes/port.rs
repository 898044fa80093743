//! The port for requests that other nodes forward.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response};
use tokio::time::Instant;
use upesi_delivery::owed::Report;
use upesi_delivery::{Accepted, Handler};
use upesi_engine::{Availability, Clock, ReplyTo, SharedParticipants, SubmitError};
use upesi_fspiop::{Method, Route, SyncError, Unroutable};
use upesi_http::server::Refusal;
use upesi_http::{Connection, Full, Incoming, Service};
use upesi_types::ErrorCode;

use super::couriers;
use super::node_answer::NodeAnswer;
use crate::admission::source_of;
use crate::authenticator::TrustEveryone;
use crate::caller::{Caller, check_blocks};
use crate::config::GatewayConfig;
use crate::large_bodies::{BodyFailure, LargeBodies, Sender};
use crate::role::{HubRole, HubRoles};
use crate::{answer, request};

/// Accepts requests that other nodes forward, while this node is the leader. Those nodes have authenticated the
/// senders; the TLS of this port authenticates the nodes.
pub struct NodePort<H> {
    roles: HubRoles<H>,
    clock: Arc<dyn Clock>,
    participants: SharedParticipants,
    config: GatewayConfig,
    bodies: LargeBodies,
}

impl<H: Handler> NodePort<H> {
    /// A port in front of the gateway's handlers, with the gateway's rules and its limit on large bodies.
    pub fn new(
        roles: HubRoles<H>,
        clock: Arc<dyn Clock>,
        participants: SharedParticipants,
        config: GatewayConfig,
        bodies: LargeBodies,
    ) -> Self {
        Self { roles, clock, participants, config, bodies }
    }

    fn leads(&self) -> bool {
        match &*self.roles.get() {
            HubRole::Leads(leading) => !matches!(leading.engine.status().serving, Availability::Stopped(_)),
            HubRole::Starting | HubRole::Follows(_) => false,
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
        let HubRole::Leads(leading) = &*role else { return Ok(NodeAnswer::DoesNotLead) };
        match leading.handler.handle(request).await {
            // The hub may have stopped because another node is the leader or takes over. That node knows every recorded
            // command.
            Err(error)
                if moves_money
                    && error.code == ErrorCode::UNAVAILABLE
                    && leading.engine.status().serving != Availability::ReadOnly =>
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
            BodyFailure::Failed(error) => answer::unreadable_body(error, max),
            BodyFailure::Busy => answer::busy(),
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
        let unreadable =
            || SyncError::new(ErrorCode::MALFORMED_SYNTAX, "the body is not a report of callbacks");
        let report = Report::read(&bytes).ok_or_else(unreadable)?;
        let role = self.roles.get();
        let HubRole::Leads(leading) = &*role else { return Ok(NodeAnswer::DoesNotLead) };
        match leading.couriers.take(report, &leading.engine) {
            Ok(()) => Ok(NodeAnswer::Handled(Ok(Accepted))),
            Err(SubmitError::Busy) => Err(answer::busy()),
            Err(_) => Ok(NodeAnswer::DoesNotLead),
        }
    }

    /// Rejects requests of blocked DFSPs. The other node may not have read the latest blocks yet.
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

//! The port of the node that leads, to which the others hand requests on.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response};
use tokio::time::Instant;
use upesi_admission::SourceId;
use upesi_delivery::{Accepted, Handler};
use upesi_engine::{Clock, EngineHandle, Serving, SharedParticipants};
use upesi_fspiop::{Method, Route, SyncError, Unroutable};
use upesi_http::{Connection, Full, Incoming, Service};
use upesi_types::ErrorCode;

use super::answer::NodeAnswer;
use crate::answer;
use crate::authenticator::TrustEveryone;
use crate::caller::check_blocks;
use crate::config::GatewayConfig;
use crate::large_bodies::{LargeBodies, Unread};
use crate::request;
use crate::senders::Sender;

/// Takes what other nodes hand on. Who calls was proven to them; to whom this port listens is for its TLS to say.
pub struct NodePort<H> {
    engine: EngineHandle,
    handler: H,
    clock: Arc<dyn Clock>,
    participants: SharedParticipants,
    config: GatewayConfig,
    bodies: LargeBodies,
}

impl<H: Handler> NodePort<H> {
    /// In front of the same handlers as the gateway, by the same rules.
    pub fn new(
        engine: EngineHandle,
        handler: H,
        participants: SharedParticipants,
        config: GatewayConfig,
    ) -> Self {
        // All of them are one sender's here: the followers have told DFSPs apart.
        let bodies = LargeBodies::new(config.large_bodies_bytes_max, config.large_bodies_bytes_max);
        Self { clock: engine.clock(), engine, handler, participants, config, bodies }
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
        let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
        let route = route.map_err(Unroutable::to_error)?;
        if !self.handler.serves(route.resource()) {
            return Err(SyncError::not_implemented());
        }
        let (max, deadline) = (self.config.body_bytes_max, received + self.config.body_deadline);
        let read = self.bodies.read(body, max, deadline, || Sender::Dfsp(SourceId::OTHERS)).await;
        let bytes = read.map_err(|unread| match unread {
            Unread::Failed(error) => answer::unreadable_body(error, max),
            Unread::Busy => answer::busy(),
        })?;
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

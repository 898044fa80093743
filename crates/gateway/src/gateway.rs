//! The FSPIOP service: processes one request and returns its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};
use upesi_admission::SourceId;
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::{Clock, EngineHandle, SharedParticipants};
use upesi_fspiop::{Operation, Route, SyncError, Unroutable};
use upesi_http::{BodyError, Connection, Full, Incoming, OverPace, Pace, Service, body, server};
use upesi_oidc::Provider;
use upesi_types::{ErrorCode, Timestamp};

use super::authenticator::{Authenticator, TrustEveryone};
use super::large_bodies::{AnonymousBodies, BodyPermit, Sender};
use crate::access_log::Access;
use crate::admission::{AdmissionGate, class_of};
use crate::answer::Answer;
use crate::caller::{Caller, Callers, Denial, Proof, Tokens};
use crate::config::GatewayConfig;
use crate::large_bodies::{BodyFailure, LargeBodies, SMALL_BODY_BYTES_MAX};
use crate::metrics::{GatewayMetrics, Labels};
use crate::operations::OperatorEndpoint;
use crate::rates::{RateRejection, RateSettings, Rates};
use crate::role::{HubRole, HubRoles};
use crate::route::{Endpoint, NoEndpoint};
use crate::{answer, operations, request, route};

/// Maximum number of bodies over 64 KiB, or of unknown length, that the unauthenticated clients of one address may send
/// at the same time.
const STRANGERS_BODIES_MAX: usize = 16;

/// Accepts FSPIOP requests, passes them to a handler or to the leader, and answers when they are accepted.
pub struct Gateway<H> {
    roles: HubRoles<H>,
    config: GatewayConfig,
    gate: AdmissionGate,
    rates: Arc<Rates>,
    callers: Callers,
    clock: Arc<dyn Clock>,
    authenticator: Box<dyn Authenticator>,
    endpoint_cache: Box<dyn Fn() + Send + Sync>,
    large_bodies: LargeBodies,
    metrics: GatewayMetrics,
    pace: Pace,
    /// Rate limits of rejections, by the party of the connection.
    rejections: Pace,
    strangers: AnonymousBodies,
    metadata: Bytes,
    started_at: Timestamp,
}

/// The parts that a gateway needs.
pub struct GatewayContext<H> {
    /// The role of the hub, with the handler of the requests.
    pub roles: HubRoles<H>,
    /// The hub's time.
    pub clock: Arc<dyn Clock>,
    /// Verifies the sender of each request, for example by its signature.
    pub authenticator: Box<dyn Authenticator>,
    /// Participants, for shares of DFSPs under overload and for the bindings of certificates. Without participants, all
    /// senders share one limit, and no certificate is bound.
    pub participants: SharedParticipants,
    /// The provider of tokens that authenticate participants' clients, if there is one.
    pub provider: Option<Provider>,
    /// Rate limits of each participant.
    pub rates: Arc<Rates>,
    /// Called at `DELETE /endpointcache`. Endpoints are never cached, but answers of oracles may be.
    pub endpoint_cache: Box<dyn Fn() + Send + Sync>,
}

impl<H> GatewayContext<H> {
    /// A context of a standalone hub with the defaults: the engine's time, trust in every sender, no participants, no
    /// rate limits, no cache.
    pub fn new(engine: EngineHandle, handler: H) -> Self {
        Self::of(engine.clock(), HubRoles::alone(engine, handler))
    }

    /// A context of a hub in these roles with this time, and otherwise the defaults.
    pub fn of(clock: Arc<dyn Clock>, roles: HubRoles<H>) -> Self {
        Self {
            clock,
            roles,
            authenticator: Box::new(TrustEveryone),
            participants: SharedParticipants::default(),
            provider: None,
            rates: Arc::new(Rates::new(RateSettings::default(), SharedParticipants::default())),
            endpoint_cache: Box::new(|| {}),
        }
    }
}

/// A request before its body is read.
#[derive(Clone, Copy)]
struct Head<'a> {
    parts: &'a Parts,
    caller: Caller<'a>,
    connection: &'a Connection,
    received: Instant,
}

fn success(operation: Operation) -> StatusCode {
    StatusCode::from_u16(operation.success_status()).unwrap_or(StatusCode::ACCEPTED)
}

/// Whether the status reports a fault of the request.
fn is_rejection(status: StatusCode) -> bool {
    status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED
}

impl<H: Handler> Gateway<H> {
    /// Creates a gateway in front of a handler, and registers its metrics.
    pub fn new(context: GatewayContext<H>, config: GatewayConfig, registry: &mut Registry) -> Self {
        let GatewayContext { roles, clock, authenticator, participants, provider, rates, endpoint_cache } =
            context;
        rates.register(registry);
        let tokens =
            provider.map(|provider| Tokens::new(provider, config.are_tokens_required, Arc::clone(&clock)));
        Self {
            roles,
            authenticator,
            rates,
            endpoint_cache,
            large_bodies: LargeBodies::of(&config),
            callers: Callers::new(
                participants.clone(),
                config.are_bindings_required,
                config.addresses.clone(),
                tokens,
                registry,
            ),
            metrics: GatewayMetrics::register(registry, config.records_metrics),
            pace: Pace::new(config.pace),
            rejections: Pace::new(config.pace),
            strangers: AnonymousBodies::new(STRANGERS_BODIES_MAX),
            gate: AdmissionGate::new(config.admission.clone(), participants, registry),
            metadata: operations::metadata(&config),
            started_at: clock.now(),
            config,
            clock,
        }
    }

    /// The limit on large bodies, shared with other ports.
    pub fn large_bodies(&self) -> LargeBodies {
        self.large_bodies.clone()
    }

    /// The proof of the sender in addition to the client certificate, if requests may carry one.
    async fn prove(&self, headers: &mut HeaderMap, connection: &Connection) -> Result<Option<Proof>, Denial> {
        match self.callers.may_prove(connection) {
            false => Ok(None),
            true => Box::pin(self.callers.prove(headers, connection)).await,
        }
    }

    /// Decides by the head alone whether to accept a request.
    fn admit(&self, operation: Operation, head: Head<'_>, body: &Incoming) -> Result<(), RateRejection> {
        let class = class_of(&head.parts.method);
        self.rates
            .ask(operation, head.caller, head.received)
            .inspect_err(|refused| self.gate.note(class, refused.refusal, head.caller))?;
        let soon = |refusal| RateRejection { refusal, retry_after_s: answer::RETRY_AFTER_S };
        if operation.resource().moves_money() {
            self.gate.ask_engine(class, head.received).map_err(soon)?;
        }
        // A body of unknown length has at least one byte, and is charged for the rest once it is read.
        let least = if body.is_end_stream() { 0 } else { body.size_hint().lower().max(1) };
        self.gate.ask(class, head.caller, least, head.received).map_err(soon)
    }

    /// Rejects a request that failed authentication, at the rate limit for unauthenticated requests.
    async fn deny(
        &self,
        denial: Denial,
        route: Route<'_>,
        parts: &Parts,
        body: Incoming,
        connection: &Connection,
        received: Instant,
    ) -> Answer {
        let labels = route.operation.into();
        let access = || {
            let caller = self.callers.known(&parts.headers, connection);
            Access::of(self.config.logs_access, caller, Some(route))
        };
        let mut answer = match self.pace.keep(connection).await {
            Err(OverPace) => self.answer_over_pace(),
            Ok(()) => {
                self.skip_body(parts, body, received).await;
                let error = denial.error();
                self.metrics.count_turned_away(labels, &error);
                answer::refusal(&error)
            }
        };
        if denial.asks_for_token() {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if denial.ends_connection() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(access) = access() {
            access.log(labels, answer.status(), received);
        }
        answer
    }

    /// Reads the body of a rejected request if it is small, so that the connection can be reused. With a larger body,
    /// the connection is closed.
    async fn skip_body(&self, parts: &Parts, body: Incoming, received: Instant) {
        let is_small = body.size_hint().lower() <= SMALL_BODY_BYTES_MAX as u64;
        if is_small && !parts.headers.contains_key(http::header::EXPECT) {
            // Faults in the body of a rejected request are ignored.
            let _ = body::read(body, SMALL_BODY_BYTES_MAX, received + self.config.body_deadline).await;
        }
    }

    /// Rejects a request at a follower that is behind: it does not know the current participants and blocks.
    async fn refuse_behind(
        &self,
        labels: Labels,
        parts: &Parts,
        body: Incoming,
        received: Instant,
    ) -> Answer {
        self.skip_body(parts, body, received).await;
        let error = SyncError::new(ErrorCode::UNAVAILABLE, "try again later");
        self.metrics.count_turned_away(labels, &error);
        answer::refusal(&error)
    }

    /// Answers a request that admission rejected.
    async fn turn_away(
        &self,
        refused: RateRejection,
        labels: Labels,
        parts: Parts,
        request_body: Incoming,
        received: Instant,
    ) -> Answer {
        self.skip_body(&parts, request_body, received).await;
        drop(parts);
        if let Some(delay) = self.gate.refusal_delay() {
            sleep(delay).await;
        }
        let RateRejection { refusal, retry_after_s } = refused;
        let (error, text) = self.gate.body(refusal);
        self.metrics.count_turned_away(labels, &error);
        let mut answer = answer::refusal_with_body(&error, text);
        if retry_after_s != answer::RETRY_AFTER_S {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        answer
    }

    /// Reads the body and the typed request, if a handler serves its resource.
    async fn read(&self, route: Route<'_>, head: Head<'_>, body: Incoming) -> Result<Request, SyncError> {
        if !self.roles.read(|role| role.serves(route.resource())) {
            return Err(SyncError::not_implemented());
        }
        request::refuse_encoded(&head.parts.headers)?;
        let mut max = self.config.body_bytes_max;
        if route.resource().moves_money_once() {
            max = max.min(self.config.transfer_body_bytes_max);
            if body.size_hint().lower() > max as u64 {
                return Err(answer::unreadable_body(BodyError::TooLarge, max));
            }
        }
        let bytes = self.read_body(head, body, max).await?;
        let present = || self.roles.read(|role| role.present(&*self.clock));
        let is_known = head.caller.identity().is_some();
        let proof = request::SenderProof { authenticator: &*self.authenticator, is_known };
        let request = request::read(route, head.parts, bytes, &self.config, proof, present);
        match &request {
            Ok(_) => self.introduce(head),
            Err(error) if error.code == ErrorCode::INVALID_SIGNATURE => {
                self.rates.signature_failed(head.caller, head.received);
            }
            Err(_) => {}
        }
        request
    }

    /// Counts a body that may be large, if its sender is not authenticated and names no participant.
    fn seat_for(&self, body: &Incoming, head: Head<'_>) -> Result<Option<BodyPermit<'_>>, SyncError> {
        let Head { caller, connection, .. } = head;
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES_MAX as u64);
        if is_small || connection.is_known() || self.gate.knows(caller) {
            return Ok(None);
        }
        self.strangers.seat(connection.address()).map(Some).ok_or_else(answer::busy)
    }

    /// Origin of a body: an address until its connection is known.
    fn sender(&self, Head { caller, connection, .. }: Head<'_>) -> Sender {
        match self.gate.source(caller) {
            source if connection.is_known() && source != SourceId::OTHERS => Sender::Dfsp(source),
            _ => Sender::Address(connection.address()),
        }
    }

    /// Once a connection has carried a valid request of a participant, it counts as that participant's connection.
    fn introduce(&self, Head { caller, connection, .. }: Head<'_>) {
        if !connection.is_known() && self.gate.knows(caller) {
            caller.introduce(connection);
        }
    }

    async fn read_body(&self, head: Head<'_>, body: Incoming, max: usize) -> Result<Bytes, SyncError> {
        let Head { parts, caller, connection, received } = head;
        // A client that sends `Expect` need not send a body that would not be read.
        if body.size_hint().lower() > max as u64 && parts.headers.contains_key(http::header::EXPECT) {
            return Err(answer::unreadable_body(BodyError::TooLarge, max));
        }
        let is_announced = body.size_hint().exact().is_some();
        let _seat = self.seat_for(&body, head)?;
        let deadline = received + self.config.body_deadline;
        let waiting = connection.wait();
        let read = self.large_bodies.read(body, max, deadline, || self.sender(head)).await;
        drop(waiting);
        if let (Ok(bytes), false) = (&read, is_announced) {
            self.gate.charge(class_of(&parts.method), caller, bytes.len() as u64, received);
        }
        read.map_err(|unread| match unread {
            BodyFailure::Failed(error) => answer::unreadable_body(error, max),
            BodyFailure::Busy => answer::busy(),
        })
    }

    /// Passes the request to the handler, counts the outcome, and answers.
    async fn answer(
        &self,
        operation: Operation,
        request: Result<Request, SyncError>,
        received: Instant,
    ) -> Answer {
        let role = self.roles.get();
        let outcome = match request {
            Ok(request) => self.handle(role, operation, request).await,
            Err(error) => Err(error),
        };
        self.metrics.count_call(operation, outcome.as_ref().map(|Accepted| ()), received.elapsed());
        match outcome {
            Ok(Accepted) => answer::empty(success(operation)),
            Err(error) => {
                let Labels { method, resource } = operation.into();
                tracing::debug!(method, resource, %error, "rejected a request");
                answer::refusal(&error)
            }
        }
    }

    /// Processes a request. If the engine stops before, because another node becomes leader, that node gets the
    /// request.
    async fn handle(
        &self,
        role: Arc<HubRole<H>>,
        operation: Operation,
        request: Request,
    ) -> Result<Accepted, SyncError> {
        let in_flight = operation.resource().moves_money().then(|| self.gate.enter_engine());
        let copied = role.copy_for_next(&request);
        let outcome = match &*role {
            HubRole::Starting => Err(SyncError::new(ErrorCode::UNAVAILABLE, "try again later")),
            HubRole::Leads(leading) => leading.handler.handle(request).await,
            HubRole::Follows(following) => Box::pin(following.forwarder.handle(request)).await,
        };
        if let Some(in_flight) = in_flight {
            in_flight.answered();
        }
        match (copied, outcome) {
            (Some(copied), Err(error)) if role.stops(&error) => {
                // The files of the role are free when no request holds the role.
                drop(role);
                Box::pin(copied.forward()).await
            }
            (_, outcome) => outcome,
        }
    }

    /// Answers unauthenticated requests at the rate limit of each address, so that they do not take the time of
    /// payments.
    async fn answer_others(
        &self,
        endpoint: Result<OperatorEndpoint, NoEndpoint>,
        parts: &Parts,
        connection: &Connection,
    ) -> (Labels, Answer) {
        let resource = endpoint.as_ref().map_or("unknown", |endpoint| endpoint.label());
        let answer = match endpoint {
            Ok(endpoint) if endpoint.is_for_probes() => {
                self.pace.keep_probe(connection).await;
                self.answer_own(endpoint, &parts.headers)
            }
            endpoint => match self.pace.keep(connection).await {
                Err(OverPace) => self.answer_over_pace(),
                Ok(()) => self.answer_paced(endpoint, &parts.headers),
            },
        };
        (Labels::new(&parts.method, resource), answer)
    }

    fn answer_paced(&self, endpoint: Result<OperatorEndpoint, NoEndpoint>, headers: &HeaderMap) -> Answer {
        let refused = match endpoint {
            Ok(endpoint) if self.serves(endpoint) => return self.answer_own(endpoint, headers),
            Ok(_) => NoEndpoint { error: Unroutable::UnknownPath.to_error(), allow: None },
            Err(no_endpoint) => no_endpoint,
        };
        self.metrics.count_refusal(&refused.error);
        answer::refusal_with_allow(&refused.error, refused.allow.as_deref())
    }

    /// Rejects a request and closes its connection. Otherwise, further requests would follow without delay.
    fn answer_over_pace(&self) -> Answer {
        let error = answer::busy();
        self.metrics.count_refusal(&error);
        let mut answer = answer::refusal(&error);
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    }

    fn serves(&self, endpoint: OperatorEndpoint) -> bool {
        let is_elsewhere = endpoint == OperatorEndpoint::EndpointCache && !self.roles.get().leads();
        endpoint.is_for_probes() || (self.config.shows_diagnostics && !is_elsewhere)
    }

    fn answer_own(&self, endpoint: OperatorEndpoint, headers: &HeaderMap) -> Answer {
        match endpoint {
            OperatorEndpoint::Metadata => answer::json(StatusCode::OK, self.metadata.clone()),
            OperatorEndpoint::Health if !self.config.shows_diagnostics => {
                operations::bare_health(self.roles.get().is_good())
            }
            OperatorEndpoint::Health => {
                operations::health(&self.roles.get(), self.started_at, self.clock.now())
            }
            OperatorEndpoint::Live => answer::plain_text("OK"),
            OperatorEndpoint::EndpointCache => {
                (self.endpoint_cache)();
                answer::empty(StatusCode::ACCEPTED)
            }
            OperatorEndpoint::File(file) => file.answer(headers).map(Full::new),
        }
    }
}

impl<H: Handler> Service for Gateway<H> {
    async fn call(&self, request: http::Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let received = Instant::now();
        let (mut parts, body) = request.into_parts();
        let (labels, answer) = match route::resolve(&parts.method, parts.uri.path()) {
            Ok(Endpoint::Api(route)) => {
                let operation = route.operation;
                if self.roles.read(|role| role.is_behind()) {
                    let refused = self.refuse_behind(operation.into(), &parts, body, received);
                    return Box::pin(refused).await;
                }
                let proof = self.prove(&mut parts.headers, connection).await;
                let caller = proof
                    .as_ref()
                    .map_err(|denial| *denial)
                    .and_then(|proof| self.callers.identify(&parts.headers, connection, proof.as_ref()));
                let caller = match caller {
                    Ok(caller) => caller,
                    Err(denial) => {
                        return Box::pin(self.deny(denial, route, &parts, body, connection, received)).await;
                    }
                };
                if caller.identity().is_some() {
                    caller.introduce(connection);
                }
                let head = Head { parts: &parts, caller, connection, received };
                if let Err(refused) = self.admit(operation, head, &body) {
                    return Box::pin(self.turn_away(refused, operation.into(), parts, body, received)).await;
                }
                let access = Access::of(self.config.logs_access, caller, Some(route));
                let read = self.read(route, head, body).await;
                // The head is a slice of the connection's buffer, which the next request needs.
                drop(parts);
                let answer = self.answer(operation, read, received).await;
                if is_rejection(answer.status()) {
                    // The delay leaves the workers' time to payments.
                    Box::pin(self.hold_back(connection)).await;
                }
                if let Some(access) = access {
                    access.log(operation.into(), answer.status(), received);
                }
                return answer;
            }
            Ok(Endpoint::Operator(endpoint)) => {
                Box::pin(self.answer_others(Ok(endpoint), &parts, connection)).await
            }
            Err(no_endpoint) => Box::pin(self.answer_others(Err(no_endpoint), &parts, connection)).await,
        };
        self.metrics.count_other(labels, answer.status(), received.elapsed());
        let caller = self.callers.known(&parts.headers, connection);
        if let Some(access) = Access::of(self.config.logs_access, caller, None) {
            access.log(labels, answer.status(), received);
        }
        answer
    }

    fn meet(&self, connection: &Connection) {
        self.callers.meet(connection);
    }

    async fn hold_back(&self, connection: &Connection) {
        self.rejections.keep_patiently_by_party(connection).await;
    }

    fn reject(&self, _request: &http::Request<Incoming>, refusal: server::Refusal) -> Response<Full<Bytes>> {
        let error = answer::forbidden_by_http(&refusal);
        self.metrics.count_refusal(&error);
        answer::refusal(&error)
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        let error = answer::busy();
        self.metrics.count_refusal(&error);
        answer::refusal(&error)
    }
}

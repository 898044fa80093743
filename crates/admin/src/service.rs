//! The service between the server loop and the resources: reads bodies within limits, and logs changes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_LANGUAGE, CACHE_CONTROL, CONNECTION};
use axum::http::request::Parts;
use axum::response::IntoResponse;
use tokio::time::Instant;
use tower_service::Service as _;
use upesi_engine::EngineHandle;
use upesi_fspiop::SyncError;
use upesi_http::body::{is_encoded, read};
use upesi_http::server::Refusal;
use upesi_http::{
    BodyError, Bytes, Connection, Failures, Full, Incoming, KnownAs, Limits, Method, Pace, Request, Response,
    Service, StatusCode,
};

use super::hosts;
use crate::access::{Access, SharedCaller, unauthenticated};
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::follower::{FollowedNow, FollowerProgress};
use crate::hosts::{AllowedHosts, AllowedOrigins};
use crate::page_paths::PagePaths;
use crate::pages::Pages;
use crate::routes::{NoOperation, Operation, router};
use crate::shown::shown;
use crate::visitor::Visitor;

/// Maximum size of a request's body.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of the body of a request that authenticates.
const ENTRANCE_BYTES_MAX: usize = 8 * 1024;
/// Paths of the requests that authenticate.
pub(crate) const ENTRANCES: [&str; 3] = ["/sessions", "/enrolments", "/enrolments/confirm"];

/// Caches must revalidate each time. For answers without another rule.
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// Limits of connections to this API. Connections of one address may use half of them; after that, idle ones of it are
/// closed for a new one.
pub fn limits(connections_max: usize) -> Limits {
    Limits {
        connections_max,
        anonymous_per_address_max: connections_max.div_ceil(2),
        connections_per_participant_max: connections_max.div_ceil(2),
        idle_timeout: Duration::from_secs(60),
        ..Limits::default()
    }
}

/// Whether a request needs no state of the hub. Such requests have a rate limit per address, as have unauthenticated
/// requests and those without an operation, so that they do not delay others.
fn is_own_page(path: &str) -> bool {
    matches!(path, "/" | "/health" | "/v2/health" | "/live" | "/openapi.yaml" | "/docs")
        || path.starts_with("/docs/")
}

/// Whether it is a health check of load balancers or service managers.
fn is_for_probes(head: &Parts) -> bool {
    is_read(&head.method) && matches!(head.uri.path(), "/health" | "/live")
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The body of the request was not read, and cannot be distinguished from the next request.
fn last(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The operators' API as a service for [`upesi_http::Server`].
#[derive(Clone)]
pub struct AdminService {
    router: Router,
    body_timeout: Duration,
    hosts: Option<AllowedHosts>,
    origins: AllowedOrigins,
    pace: Arc<Pace>,
    /// Counts rejected requests of unauthenticated clients, which share log lines.
    rejected: Arc<Mutex<Failures>>,
    access: Access,
    engine: EngineHandle,
    followed: Option<FollowedNow>,
    operations: Arc<[Operation]>,
    pages: Option<Pages>,
    page_paths: Arc<PagePaths>,
}

impl fmt::Debug for AdminService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminService").field("access", &self.access).finish_non_exhaustive()
    }
}

impl AdminService {
    /// Authentication of callers.
    pub const fn access(&self) -> &Access {
        &self.access
    }

    /// Creates the API with these dependencies.
    pub fn new(context: AdminContext) -> Self {
        Self::create(context, None)
    }

    /// Creates the API and pages.
    pub fn with_pages(context: AdminContext, pages: Pages) -> Self {
        Self::create(context, Some(pages))
    }

    fn create(context: AdminContext, pages: Option<Pages>) -> Self {
        let (hosts, body_timeout) = (context.allowed_hosts.clone(), context.body_timeout);
        let origins = context.allowed_origins.clone();
        let (access, engine) = (context.access.clone(), context.engine.clone());
        let followed = context.followed.clone();
        let (router, operations, page_paths) = router(context, pages);
        let (pace, rejected, operations) = (Arc::default(), Arc::default(), operations.into());
        Self {
            router,
            body_timeout,
            hosts,
            origins,
            pace,
            rejected,
            access,
            engine,
            followed,
            operations,
            pages,
            page_paths: Arc::new(page_paths),
        }
    }

    /// All operations and their permissions.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The pages, if a path belongs to them.
    fn pages_of(&self, path: &str) -> Option<Pages> {
        self.pages.filter(|pages| pages.contain(path))
    }

    /// Whether it is a request that authenticates.
    fn is_entrance(&self, method: &Method, path: &str) -> bool {
        let is_login = self.pages.is_some_and(|pages| pages.is_login(method, path));
        is_login || (method == Method::POST && ENTRANCES.contains(&path))
    }

    /// Rejects a request that a page of another site caused. The login form, and any form with the session cookie, must
    /// prove that a page of this port sent it.
    fn check_site(&self, request: &Request<Incoming>) -> Result<(), ApiError> {
        let (method, path) = (request.method(), request.uri().path());
        let is_form = self.access.is_required() && !is_read(method);
        let needs_proof = self
            .pages_of(path)
            .filter(|_| is_form)
            .is_some_and(|pages| pages.is_login(method, path) || self.access.is_by_cookie(request.headers()));
        if needs_proof {
            hosts::check_own_page(request, &self.origins)
        } else {
            hosts::check_site(request, &self.origins)
        }
    }

    /// The caller of a request. Only pages read the session cookie. The login form does not: it begins a new session.
    async fn identify(&self, head: &Parts, connection: &Connection) -> Result<SharedCaller, ApiError> {
        let (method, path) = (&head.method, head.uri.path());
        match self.pages_of(path).filter(|pages| !pages.is_login(method, path)) {
            Some(_) => self.access.identify_in_browser(&self.engine, head, connection).await,
            None => self.access.identify(&self.engine, head, connection).await,
        }
    }

    /// Answers a request, and stores its caller in `known`. Requests of unauthenticated clients have a rate limit.
    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
        known: &mut Option<SharedCaller>,
    ) -> Response<Body> {
        if let Some(Err(error)) = self.hosts.as_ref().map(|hosts| hosts.check(&request)) {
            self.pace.keep_patiently(connection).await;
            return error.into_response();
        }
        if let Err(error) = self.check_site(&request) {
            self.pace.keep_patiently(connection).await;
            return last(error.into_response());
        }
        let (mut head, body) = request.into_parts();
        let caller = match self.identify(&head, connection).await {
            Ok(caller) => caller,
            Err(error) => {
                self.pace.keep_patiently(connection).await;
                return last(error.into_response());
            }
        };
        *known = Some(Arc::clone(&caller));
        let is_anonymous = caller.check_known().is_err();
        if caller.is_proven() {
            connection.become_known(KnownAs::Named);
        }
        let is_paced = is_anonymous || is_own_page(head.uri.path());
        if is_for_probes(&head) {
            self.pace.keep_probe(connection).await;
        } else if is_paced {
            self.pace.keep_patiently(connection).await;
        }
        // A request may be read before its caller is authenticated if it changes nothing, or authenticates.
        let is_entrance = self.is_entrance(&head.method, head.uri.path());
        if is_anonymous && !is_entrance && !is_read(&head.method) {
            return last(unauthenticated().into_response());
        }
        // The state of the answer is at least as recent as this.
        let followed = self.followed.as_ref().map(|followed| followed());
        let check = |at: &FollowerProgress| at.check(&head.method, head.uri.path(), &self.page_paths);
        if let Some(Err(error)) = followed.as_ref().map(check) {
            return last(error.into_response());
        }
        if is_encoded(&head.headers) {
            return last(ApiError::malformed("/header/content-encoding must be identity").into_response());
        }
        head.extensions.insert(caller);
        let bytes_max = if is_entrance { ENTRANCE_BYTES_MAX } else { BODY_BYTES_MAX };
        let waiting = connection.wait();
        let body = match read(body, bytes_max, Instant::now() + self.body_timeout).await {
            Ok(body) => body,
            Err(error) => return body_refusal(error, bytes_max),
        };
        drop(waiting);
        // A request for metrics waits, so its connection may be closed to make room.
        let _waiting = (head.uri.path() == "/metrics").then(|| connection.wait());
        let mut response = self.dispatch(Request::from_parts(head, Body::from(body))).await;
        if !is_paced && response.extensions().get::<NoOperation>().is_some() {
            self.pace.keep_patiently(connection).await;
        }
        followed.iter().for_each(|at| at.tell(&mut response));
        response
    }

    /// Logs each change, and each rejected request of an operator, by name. Rejections of other clients are counted.
    fn log(&self, method: &Method, path: &str, status: StatusCode, operator: Option<SharedCaller>) {
        let is_change = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_rejected = status.is_client_error() || status.is_server_error();
        let status = status.as_u16();
        match operator {
            Some(caller) if is_rejected => {
                let operator = &*caller.operator;
                tracing::warn!(%method, path, status, operator, "an operator's request was rejected");
            }
            Some(caller) if is_change => {
                tracing::info!(%method, path, status, operator = &*caller.operator, "operator's request");
            }
            None if is_rejected => {
                let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(times) = rejected.note(Instant::now()) {
                    tracing::warn!(
                        %method, path, status, times,
                        "requests without an operator's credential were rejected; only the last one is shown"
                    );
                }
            }
            None if is_change => tracing::info!(%method, path, status, "operator's request"),
            _ => {}
        }
    }

    async fn dispatch(&self, request: Request<Body>) -> Response<Body> {
        // A router is always ready and never fails.
        let Ok(response) = self.router.clone().call(request).await;
        response
    }

    /// Answers a complete request without a server.
    pub async fn answer_whole(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let languages = request.headers().get(ACCEPT_LANGUAGE).cloned();
        let response = self.dispatch(request.map(Body::from)).await;
        to_full(self.explained(&path, response, languages.as_ref(), None)).await
    }

    /// Replaces the JSON of an error with a page, if the request was for a page.
    fn explained(
        &self,
        path: &str,
        response: Response<Body>,
        languages: Option<&HeaderValue>,
        visitor: Option<&Visitor>,
    ) -> Response<Body> {
        match self.pages_of(path) {
            Some(pages) => pages.explain(response, languages, visitor),
            None => response,
        }
    }
}

fn body_refusal(error: BodyError, bytes_max: usize) -> Response<Body> {
    match error {
        BodyError::TooLarge => {
            let description = SyncError::payload_too_large(bytes_max).description;
            ApiError { description, ..ApiError::new(ErrorName::BodyTooLarge, "") }.into_response()
        }
        BodyError::TimedOut => {
            let late = ApiError::new(ErrorName::BodyLate, "the request body was not received in time");
            let mut response = ApiError { status: StatusCode::REQUEST_TIMEOUT, ..late }.into_response();
            // The rest of the body may still arrive, and cannot be distinguished from the next request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
        BodyError::Broken => ApiError::malformed(&error.to_string()).into_response(),
    }
}

/// All bodies of this API are already in memory.
async fn to_full(response: Response<Body>) -> Response<Full<Bytes>> {
    let (mut head, body) = response.into_parts();
    head.headers.entry(CACHE_CONTROL).or_insert(NO_CACHE);
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(head, Full::new(bytes))
}

impl Service for AdminService {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let (method, path) = (request.method().clone(), shown(request.uri().path()));
        let mut known = None;
        let visitor =
            self.pages_of(&path).and_then(|_| Visitor::of(&request, &self.access, self.followed.is_some()));
        let languages = self.pages_of(&path).and_then(|_| request.headers().get(ACCEPT_LANGUAGE).cloned());
        let response = self.answer(request, connection, &mut known).await;
        let response = self.explained(&path, response, languages.as_ref(), visitor.as_ref());
        self.log(&method, &path, response.status(), known.filter(|caller| caller.is_proven()));
        to_full(response).await
    }

    async fn hold_back(&self, connection: &Connection) {
        self.pace.keep_patiently(connection).await;
    }

    fn reject(&self, _request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        answer(ApiError { status: refusal.status, ..ApiError::malformed(refusal.reason) })
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        answer(ApiError::new(ErrorName::TooManyConnections, "Too many connections"))
    }
}

/// An error of this API as a response of the server loop.
pub(crate) fn answer(error: ApiError) -> Response<Full<Bytes>> {
    let status = error.status;
    let mut response = Response::new(Full::new(Bytes::from(error.into_body())));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    response
}

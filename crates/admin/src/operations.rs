//! Operations of the process: metadata, metrics, log level, clock, cluster, profiles, documents.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use upesi_apidocs::ApiPort;
use upesi_engine::{Clock, StopReason};
use upesi_ledger::{AdminCommand, Change};
use upesi_profile::{Profile, ProfileError, SECONDS_MAX, memory};

use super::call::Parameters;
use super::metrics_text::{Format, MetricsText};
use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::context::{NodeOfCluster, Process};
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, ok};
use crate::parts::{Holders, LogLevel};
use crate::transfers::REASON_CHARS_MAX;

/// Maximum length of a log level, in characters; a level may be a list of filters.
const LOG_LEVEL_CHARS_MAX: usize = 256;

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    version: &'static str,
    resources: [&'static str; 26],
}

pub(crate) async fn metadata(State(process): State<Process>) -> Result<Response, ApiError> {
    ok(&Metadata {
        name: "upesi admin",
        version: process.version,
        resources: [
            "/participants",
            "/participants/limits",
            "/settlementModels",
            "/ledgerAccountTypes",
            "/enums",
            "/positions",
            "/transfers",
            "/transfers/{id}",
            "/transactions/{id}",
            "/oracles",
            "/directory",
            "/callbacks",
            "/lanes",
            "/operators",
            "/self",
            "/log-level",
            "/clock",
            "/cluster/hand-over",
            "/cluster/promote",
            "/health",
            "/v2/health",
            "/metrics",
            "/debug/profile",
            "/debug/heap",
            "/openapi.yaml",
            "/docs",
        ],
    })
}

pub(crate) async fn metrics(State(metrics): State<MetricsText>, headers: HeaderMap) -> Response {
    let format = Format::requested(&headers);
    let text = format.of(metrics.text().await);
    (StatusCode::OK, [(CONTENT_TYPE, format.media_type())], text).into_response()
}

#[derive(Serialize)]
struct Level {
    level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<String>>,
}

pub(crate) async fn log_level(State(log): State<Arc<dyn LogLevel>>) -> Result<Response, ApiError> {
    ok(&Level { level: log.level(), targets: Some(log.targets()) })
}

pub(crate) async fn set_log_level(
    call: Call,
    State(log): State<Arc<dyn LogLevel>>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let field = fields.required("level")?;
    let level = field.text_of(1, LOG_LEVEL_CHARS_MAX)?;
    fields.only(&["level"])?;
    let change = Change::new("log level", log.level(), level.clone());
    // The log module itself logs the change, because one of the two levels may suppress the line.
    let set = async || log.set_level(&level).map_err(|error| field.refuse(&error));
    call.elsewhere_unlogged(Permission::ProcessLog, change, set).await?;
    ok(&Level { level, targets: None })
}

// `/clock`: the hub's time compared with the machine's clocks.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClockView {
    now: Instant,
    /// Jump of the wall clock relative to the hub's time; 0 if there was none.
    jump_ms: i64,
    /// Time by which the journal is ahead of the hub's time, or 0.
    journal_ahead_ms: i64,
    detail: Option<String>,
}

fn clock_view(call: &Call) -> ClockView {
    let clock = call.engine.clock();
    let state = clock.state();
    ClockView {
        now: Instant(clock.now()),
        jump_ms: state.jump_ms,
        journal_ahead_ms: state.ahead_ms,
        detail: state.fault(),
    }
}

pub(crate) async fn get_clock(call: Call) -> Result<Response, ApiError> {
    ok(&clock_view(&call))
}

/// Accepts the current jump: the hub follows the wall clock, and the journal records the operator.
pub(crate) async fn accept_clock(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    fields.only(&["reason"])?;
    call.change(AdminCommand::AcceptClock { reason }).await?;
    ok(&clock_view(&call))
}

// `/cluster/hand-over`: hands leadership to another node of the cluster.

/// Highest number of a node.
const NODE_MAX: u32 = 1_000_000;

#[derive(Serialize)]
struct HandoverAnswer {
    from: u32,
    to: Option<u32>,
}

/// Accepts nothing from here on. The answer is sent when the log has the handover; then this node follows.
pub(crate) async fn hand_over(
    call: Call,
    State(node): State<NodeOfCluster>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let field = fields.optional("to");
    let to = field.as_ref().map(|field| field.whole(NODE_MAX)).transpose()?;
    fields.only(&["to"])?;
    let Some(from) = node.number else {
        return Err(ApiError::new(ErrorName::NoCluster, "This hub is not a node of a cluster"));
    };
    if let Some(field) = field.filter(|_| to == Some(from)) {
        return Err(field.refuse("must be a node other than the leader"));
    }
    let named = to.map_or_else(|| "any other".to_owned(), |to| to.to_string());
    let change = Change::new("the leader", from.to_string(), named);
    let make = async || match call.engine.hand_over(to).await {
        StopReason::HandedOver => Ok(()),
        reason => Err(ApiError::new(ErrorName::HandoverFailed, &reason.to_string())),
    };
    call.elsewhere(Permission::ClusterHandOver, change, make).await?;
    ok(&HandoverAnswer { from, to })
}

// `/cluster/promote`: lets this node claim leadership.

#[derive(Serialize)]
struct PromotionAnswer {
    node: u32,
}

/// Claims leadership once, without waiting for the election timeout. The log decides whether the claim succeeds. The
/// audit trail has no entry, because only the leader writes it.
pub(crate) async fn promote(State(node): State<NodeOfCluster>, body: JsonBody) -> Result<Response, ApiError> {
    body.fields()?.only(&[])?;
    let Some(number) = node.number else {
        return Err(ApiError::new(ErrorName::NoCluster, "This hub is not a node of a cluster"));
    };
    let Some(promote) = &node.promote else {
        return Err(ApiError::new(ErrorName::AlreadyLeader, "This node is already the leader"));
    };
    tracing::info!(node = number, "an operator has requested that this node become leader");
    promote();
    ok(&PromotionAnswer { node: number })
}

// `/openapi.yaml` and `/docs`: documentation of this API.

pub(crate) async fn get_docs(uri: Uri, headers: HeaderMap) -> Response {
    match ApiPort::Admin.file(uri.path()) {
        Some(file) => file.answer(&headers).map(Body::from),
        None => ApiError::unknown_path().into_response(),
    }
}

// `GET /debug/profile` and `GET /debug/heap`: use of CPU time and memory by this process.

const SECONDS_DEFAULT: usize = 10;
/// The graph contains its script and style, and loads nothing.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

/// Requested form of the profile.
#[derive(Clone, Copy)]
enum Form {
    FlameGraph,
    Folded,
}

pub(crate) async fn profile(
    State(profiling): State<Option<Holders>>,
    State(process): State<Process>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    holders(profiling.as_ref())?;
    let seconds_max = usize::try_from(SECONDS_MAX).unwrap_or(usize::MAX);
    let seconds = parameters.count("seconds", SECONDS_DEFAULT, seconds_max)? as u64;
    let form = match parameters.get("format") {
        None | Some("svg") => Form::FlameGraph,
        Some("folded") => Form::Folded,
        Some(_) => return Err(ApiError::malformed("\"format\" must be one of [svg, folded]")),
    };
    tracing::info!(seconds, "taking a CPU profile");
    let version = process.version;
    // Dropped with this future when the client disconnects or the hub stops, so that the hub need not wait for the
    // profile.
    let waiting = Arc::new(());
    let waited_for = Arc::downgrade(&waiting);
    let take = move || {
        let profile = upesi_profile::profile(seconds, || waited_for.strong_count() > 0)?;
        Ok::<_, ProfileError>(render(&profile, form, version))
    };
    let taken = tokio::task::spawn_blocking(take).await;
    drop(waiting);
    let (content_type, body) = taken.map_err(|_| ApiError::internal("The profile could not be drawn"))??;
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}

fn render(profile: &Profile, form: Form, version: &str) -> (&'static str, String) {
    match form {
        Form::FlameGraph => {
            let title = format!("upesi {version}: where CPU time goes");
            ("image/svg+xml", profile.flame_graph(&title))
        }
        Form::Folded => ("text/plain; charset=utf-8", profile.folded()),
    }
}

pub(crate) async fn heap(State(profiling): State<Option<Holders>>) -> Result<Response, ApiError> {
    let summary = memory::summary(&holders(profiling.as_ref())?());
    let headers = [(CONTENT_TYPE, "application/json; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, summary.to_json()).into_response())
}

/// The parts; an error if profiling is disabled.
fn holders(profiling: Option<&Holders>) -> Result<&Holders, ApiError> {
    let off = || ApiError::new(ErrorName::ProfilingOff, "Profiling is off, because admin.profiling is false");
    profiling.ok_or_else(off)
}

impl From<ProfileError> for ApiError {
    fn from(error: ProfileError) -> Self {
        let name = match &error {
            ProfileError::Busy => ErrorName::ProfilingBusy,
            ProfileError::Seconds => ErrorName::Malformed,
            ProfileError::Unsupported | ProfileError::NotBuilt => ErrorName::ProfilingUnsupported,
            ProfileError::Abandoned | ProfileError::Kernel(_) => ErrorName::Internal,
        };
        Self::new(name, &error.to_string())
    }
}

//! What concerns the process and not the scheme: metadata, metrics, the log level.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use upesi_ledger::Change;

use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::json::ok;
use crate::metrics_service::OPEN_METRICS;

/// Longest log level, in characters; a level may be a list of filters.
const LOG_LEVEL_CHARS_MAX: usize = 256;

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    version: &'static str,
    resources: [&'static str; 24],
}

pub(crate) async fn metadata(Call(context): Call) -> Result<Response, ApiError> {
    ok(&Metadata {
        name: "upesi admin",
        version: context.version,
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
            "/health",
            "/metrics",
            "/debug/profile",
            "/debug/heap",
            "/openapi.yaml",
            "/docs",
        ],
    })
}

pub(crate) async fn metrics(Call(context): Call) -> Response {
    (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], context.metrics.text().await).into_response()
}

#[derive(Serialize)]
struct Level {
    level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<String>>,
}

pub(crate) async fn log_level(Call(context): Call) -> Result<Response, ApiError> {
    ok(&Level { level: context.log_level.level(), targets: Some(context.log_level.targets()) })
}

pub(crate) async fn set_log_level(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let field = fields.required("level")?;
    let level = field.text_of(1, LOG_LEVEL_CHARS_MAX)?;
    fields.only(&["level"])?;
    let change = Change::new("log level", context.log_level.level(), level.clone());
    // The log tells of it itself: one of the two levels may keep the line back.
    let set = async || context.log_level.set_level(&level).map_err(|error| field.refuse(&error));
    context.elsewhere_unlogged(Permission::ProcessLog, change, set).await?;
    ok(&Level { level, targets: None })
}

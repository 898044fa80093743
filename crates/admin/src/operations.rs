//! What concerns the process and not the scheme: metadata, metrics, the log level.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::body::JsonBody;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::json::ok;

/// Longest log level, in characters; a level may be a list of filters.
const LOG_LEVEL_CHARS_MAX: usize = 256;

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    version: &'static str,
    resources: [&'static str; 21],
}

pub(crate) async fn metadata(State(context): State<AdminContext>) -> Result<Response, ApiError> {
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
            "/log-level",
            "/clock",
            "/health",
            "/metrics",
            "/debug/profile",
            "/debug/heap",
            "/openapi.yaml",
            "/docs",
        ],
    })
}

pub(crate) async fn metrics(State(context): State<AdminContext>) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (StatusCode::OK, [(CONTENT_TYPE, content_type)], context.metrics.text().await).into_response()
}

#[derive(Serialize)]
struct Level {
    level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<String>>,
}

pub(crate) async fn log_level(State(context): State<AdminContext>) -> Result<Response, ApiError> {
    ok(&Level { level: context.log_level.level(), targets: Some(context.log_level.targets()) })
}

pub(crate) async fn set_log_level(
    State(context): State<AdminContext>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let field = fields.required("level")?;
    let level = field.text_of(1, LOG_LEVEL_CHARS_MAX)?;
    fields.only(&["level"])?;
    // The log tells of it itself: one of the two levels may keep the line back.
    context.log_level.set_level(&level).map_err(|error| field.refuse(&error))?;
    ok(&Level { level, targets: None })
}

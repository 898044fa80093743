//! The controls: reading what DFSPs know and changing how they behave, over HTTP.
//!
//! - `GET /health` answers 200 once the simulators serve.
//! - `GET /_sim/dfsps` lists every DFSP with settings, counters and books.
//! - `PUT /_sim/dfsps/{id}` replaces the settings of one; members left out take their defaults.
//! - `GET /metrics` has the counters too, and durations, as OpenMetrics text, where the simulator measures.
//!
//! What a DFSP is told to do is in [`crate::order`].

use bytes::Bytes;
use serde::Serialize;
use upesi_http::{Full, HeaderValue, Method, Response, StatusCode, header};

use crate::dfsp::Dfsp;
use crate::settings::DfspSettings;
use crate::simulator::Shared;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

#[derive(Serialize)]
struct Problem<'text> {
    error: &'text str,
}

pub(crate) fn answer(shared: &Shared, method: &Method, path: &str, body: &[u8]) -> Response<Full<Bytes>> {
    match (method, path.strip_prefix("/_sim/dfsps")) {
        (&Method::GET, None) if path == "/health" => {
            json(StatusCode::OK, &serde_json::json!({"status": "OK"}))
        }
        (&Method::GET, None) if path == "/metrics" => match &shared.metrics {
            Some(metrics) => with_body(StatusCode::OK, OPEN_METRICS, metrics.text(&shared.dfsps)),
            None => problem(StatusCode::NOT_FOUND, "this simulator does not measure"),
        },
        (&Method::GET, Some("")) => {
            let reports: Vec<_> = shared.dfsps.iter().map(Dfsp::report).collect();
            json(StatusCode::OK, &reports)
        }
        (_, Some(rest)) => match rest.strip_prefix('/').and_then(|name| shared.by_name.get(name)) {
            Some(&index) => one(shared.dfsp(index), method, body),
            None => problem(StatusCode::NOT_FOUND, "no DFSP of that name; GET /_sim/dfsps lists them"),
        },
        _ => problem(
            StatusCode::NOT_FOUND,
            "unknown path; there are /health, /metrics, /_sim/dfsps and /_sim/dfsps/{id}",
        ),
    }
}

fn one(dfsp: &Dfsp, method: &Method, body: &[u8]) -> Response<Full<Bytes>> {
    match *method {
        Method::GET => json(StatusCode::OK, &dfsp.report()),
        Method::PUT => match serde_json::from_slice::<DfspSettings>(body) {
            Err(error) => problem(StatusCode::BAD_REQUEST, &format!("the settings cannot be read: {error}")),
            Ok(settings) => match settings.validate() {
                Err(error) => problem(StatusCode::BAD_REQUEST, &error.to_string()),
                Ok(()) => {
                    dfsp.set_settings(settings);
                    json(StatusCode::OK, &settings)
                }
            },
        },
        _ => problem(StatusCode::METHOD_NOT_ALLOWED, "use GET or PUT"),
    }
}

pub(crate) fn problem(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    json(status, &Problem { error: text })
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    // Cannot fail: no value has keys that are not texts.
    with_body(status, JSON, serde_json::to_vec(value).unwrap_or_default())
}

fn with_body(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

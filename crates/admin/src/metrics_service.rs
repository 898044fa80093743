//! The metrics on a port of their own: for a monitoring system that is to reach nothing else.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use upesi_http::{Bytes, Connection, Full, Incoming, Method, Request, Response, Service, StatusCode};

use crate::MetricsText;

/// The media type of the metrics.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `GET /metrics`, and nothing else.
#[derive(Clone, Debug)]
pub struct MetricsService(MetricsText);

impl MetricsService {
    /// Of this text, which other ports may show, too.
    pub const fn new(text: MetricsText) -> Self {
        Self(text)
    }
}

impl Service for MetricsService {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut response = Response::new(Full::default());
        match (is_read, request.uri().path()) {
            (true, "/metrics") => {
                let _waiting = connection.wait();
                *response.body_mut() = Full::new(self.0.text().await);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
            }
            (false, "/metrics") => *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED,
            _ => *response.status_mut() = StatusCode::NOT_FOUND,
        }
        response
    }
}

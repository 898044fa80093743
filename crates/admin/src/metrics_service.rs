//! The metrics on a separate port, for a monitoring system that must not reach the admin API.

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use upesi_http::{Bytes, Connection, Full, Incoming, Method, Pace, Request, Response, Service, StatusCode};

use crate::hosts::AllowedHosts;
use crate::metrics_text::{Format, MetricsText};
use crate::service::{NO_CACHE, answer};

/// Answers only `GET /metrics`.
#[derive(Clone, Debug)]
pub struct MetricsService {
    text: MetricsText,
    hosts: AllowedHosts,
    pace: Arc<Pace>,
}

impl MetricsService {
    /// `text` may be shared with other ports; `hosts` are the permitted host names.
    pub fn new(text: MetricsText, hosts: AllowedHosts) -> Self {
        Self { text, hosts, pace: Arc::default() }
    }
}

impl Service for MetricsService {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match (is_read, request.uri().path()) {
            (true, "/metrics") => self.pace.keep_probe(connection).await,
            _ => self.pace.keep_patiently(connection).await,
        }
        if let Err(error) = self.hosts.check(&request) {
            return answer(error);
        }
        let mut response = Response::new(Full::default());
        match (is_read, request.uri().path()) {
            (true, "/metrics") => {
                let _waiting = connection.wait();
                let format = Format::requested(request.headers());
                *response.body_mut() = Full::new(format.of(self.text.text().await));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
                headers.insert(CACHE_CONTROL, NO_CACHE);
            }
            (false, "/metrics") => *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED,
            _ => *response.status_mut() = StatusCode::NOT_FOUND,
        }
        response
    }

    async fn hold_back(&self, connection: &Connection) {
        self.pace.keep_patiently(connection).await;
    }
}

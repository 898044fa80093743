//! What the simulators serve: each DFSP's FSPIOP callbacks, the community's callback routes, and the controls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use upesi_http::{Full, HeaderMap, Incoming, Method, Request, Response, Service, StatusCode, body};
use upesi_types::TransferId;

use crate::dfsp::{Dfsp, count};
use crate::settings::{DfspSettings, Fault, hits};
use crate::simulator::Shared;
use crate::watch::{Direction, SeenMessage};
use crate::{callback, control, message, payee};

/// Largest body that a simulator takes.
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The base path of the community's callback service, which stands for the DFSP named in `FSPIOP-Destination`.
const COMMUNITY_BASE: &str = "fspiop";

pub(crate) struct SimService {
    shared: Arc<Shared>,
}

/// A path below a DFSP's base path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'path> {
    Prepare,
    Callback { id: &'path str, is_error: bool },
}

fn route<'path>(method: &Method, mut segments: std::str::Split<'path, char>) -> Option<Route<'path>> {
    if segments.next() != Some("transfers") {
        return None;
    }
    match (method, segments.next(), segments.next(), segments.next()) {
        (&Method::POST, None, None, None) => Some(Route::Prepare),
        (&Method::PUT | &Method::PATCH, Some(id), None, None) => {
            Some(Route::Callback { id, is_error: false })
        }
        (&Method::PUT, Some(id), Some("error"), None) => Some(Route::Callback { id, is_error: true }),
        _ => None,
    }
}

impl Service for SimService {
    async fn call(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let mut segments = head.uri.path().split('/');
        segments.next();
        let base = segments.next().unwrap_or_default();
        let deadline = Instant::now() + BODY_TIMEOUT;
        if base == "_sim" || base == "health" {
            let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else {
                return answer(StatusCode::BAD_REQUEST);
            };
            return control::answer(&self.shared, &head.method, head.uri.path(), &body);
        }
        let is_community = base == COMMUNITY_BASE;
        let receiver = if is_community { self.destination(&head.headers) } else { self.by_name(base) };
        let (Some(receiver), Some(route)) = (receiver, route(&head.method, segments)) else {
            return answer(StatusCode::NOT_FOUND);
        };
        let dfsp = self.shared.dfsp(receiver);
        let settings = dfsp.settings();
        if let Some(refusal) = self.fault(dfsp, &settings).await {
            return answer(refusal);
        }
        let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else {
            count(&dfsp.counters.unreadable);
            return answer(StatusCode::BAD_REQUEST);
        };
        let status = match route {
            Route::Prepare => payee::take_prepare(&self.shared, receiver, &head.headers, &body),
            Route::Callback { id, is_error } => {
                self.callback(receiver, id, is_error, &head.method, &head.headers, &body);
                if is_community { StatusCode::ACCEPTED } else { StatusCode::OK }
            }
        };
        if self.shared.watch.is_on() {
            self.shared.watch.show(SeenMessage {
                at: std::time::Instant::now(),
                dfsp: dfsp.name,
                direction: Direction::Received,
                path: head.uri.path()[base.len() + 1..].to_owned(),
                method: head.method,
                headers: head.headers,
                body,
                status: Some(status),
            });
        }
        answer(status)
    }
}

impl SimService {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn by_name(&self, name: &str) -> Option<u32> {
        self.shared.by_name.get(name).copied()
    }

    /// Whom a message on the community's routes is for: the DFSP it names, else the first one.
    fn destination(&self, headers: &HeaderMap) -> Option<u32> {
        let name = headers.get(message::DESTINATION).and_then(|value| value.to_str().ok());
        name.and_then(|name| self.by_name(name)).or(Some(0))
    }

    /// Applies the faults of receiving. They are drawn per message, so that a repetition has another chance.
    async fn fault(&self, dfsp: &Dfsp, settings: &DfspSettings) -> Option<StatusCode> {
        if settings.slow_read_per_mille == 0 && settings.http_error_per_mille == 0 {
            return None;
        }
        let key = dfsp.messages.fetch_add(1, Ordering::Relaxed);
        if hits(Fault::SlowRead, settings.slow_read_per_mille, self.shared.seed, key) {
            count(&dfsp.counters.slow_reads);
            tokio::time::sleep(Duration::from_millis(settings.slow_read_ms.into())).await;
        }
        if hits(Fault::HttpError, settings.http_error_per_mille, self.shared.seed, key) {
            count(&dfsp.counters.http_errors);
            let status = StatusCode::from_u16(settings.http_error_status).ok();
            return Some(
                status.filter(|status| status.as_u16() >= 400).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
            );
        }
        None
    }

    fn callback(
        &self,
        receiver: u32,
        id: &str,
        is_error: bool,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) {
        let counters = &self.shared.dfsp(receiver).counters;
        let parsed = TransferId::parse(id);
        let known = parsed.is_some_and(|id| callback::take(&self.shared, receiver, &id, is_error, body));
        let trace = headers.get(message::TRACEPARENT).and_then(|value| value.to_str().ok());
        let pushed = *method == Method::PUT && self.shared.channels.push(trace, id, is_error);
        if pushed {
            count(&counters.pushed);
        }
        if !known && !pushed {
            count(&counters.callbacks_unexpected);
        }
    }
}

fn answer(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_a_base_path_are_routed() {
        let callback = |id, is_error| Some(Route::Callback { id, is_error });
        for (method, path, expected) in [
            (Method::POST, "transfers", Some(Route::Prepare)),
            (Method::PUT, "transfers/x", callback("x", false)),
            (Method::PATCH, "transfers/x", callback("x", false)),
            (Method::PUT, "transfers/x/error", callback("x", true)),
            (Method::PATCH, "transfers/x/error", None),
            (Method::PUT, "transfers", None),
            (Method::POST, "transfers/x", None),
            (Method::POST, "quotes", None),
            (Method::PUT, "transfers/x/error/y", None),
        ] {
            assert_eq!(route(&method, path.split('/')), expected, "{method} {path}");
        }
    }
}

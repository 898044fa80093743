//! The HTTP service of the simulators: each DFSP's FSPIOP callbacks, Mojaloop's callback routes, orders, and the
//! controls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::Instant;
use upesi_http::{
    Connection, Full, HeaderMap, HeaderValue, Incoming, Method, Request, Response, Service, StatusCode, Uri,
    body, header,
};
use upesi_types::TransferId;

use super::metrics;
use crate::awaited::ArrivedCallback;
use crate::callback::{self, Role};
use crate::counters::count;
use crate::dfsp::Dfsp;
use crate::message::{self, Family};
use crate::metrics::Leg;
use crate::order::{carry_out, is_order};
use crate::party::decoded;
use crate::route::{RequestKind, Route, route};
use crate::settings::{DfspSettings, Fault, hits};
use crate::shared::SimulatorState;
use crate::watch::{Direction, SeenMessage};
use crate::{bulk, fx_transfer, lookups, payee, quoting, requests, strict};

/// Maximum length of a body that a simulator accepts.
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The base paths of Mojaloop's callback service, which stands for the DFSP named in `FSPIOP-Destination`, as a payee
/// or as an FXP. Either path accepts all messages. A DFSP with such a name keeps its own path.
const COMMUNITY_BASES: [&str; 2] = ["fspiop", "fxp"];

pub(crate) struct SimService {
    shared: Arc<SimulatorState>,
}

/// The head of a request, and the DFSP that receives it.
struct RequestHead<'a> {
    receiver: u32,
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    /// Whether the DFSP owns every party that is looked up.
    owns_it: bool,
}

impl Service for SimService {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let (base, path) =
            path[1.min(path.len())..].split_once('/').unwrap_or((&path[1.min(path.len())..], ""));
        let began = Instant::now();
        let deadline = began + BODY_TIMEOUT;
        if base == "_sim" || base == "health" || (base == "metrics" && path.is_empty()) {
            let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else {
                return answer(StatusCode::BAD_REQUEST);
            };
            return control(&self.shared, &head.method, head.uri.path(), &body);
        }
        let named = self.by_name(base);
        if let Some(dfsp) = named.filter(|_| is_order(&head.method, path)) {
            let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else {
                return answer(StatusCode::BAD_REQUEST);
            };
            return carry_out(path, &self.shared, dfsp, &body).await;
        }
        let is_community = named.is_none() && COMMUNITY_BASES.contains(&base);
        let receiver = if is_community { self.destination(&head.headers) } else { named };
        let (Some(receiver), Some((family, route))) = (receiver, route(&head.method, path)) else {
            return answer(StatusCode::NOT_FOUND);
        };
        let dfsp = self.shared.dfsp(receiver);
        let settings = dfsp.settings();
        if let Some(refusal) = self.fault(dfsp, &settings).await {
            if route == Route::Prepare {
                self.note_refused(family, body, deadline).await;
            }
            return answer(refusal);
        }
        let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else {
            count(&dfsp.counters.unreadable);
            return answer(StatusCode::BAD_REQUEST);
        };
        if let Some(signing) = &self.shared.signing
            && let Err(fault) = signing.verify(&head.method, &head.headers, &body)
        {
            count(&dfsp.counters.signatures_refused);
            tracing::warn!(dfsp = %dfsp.name, %fault, uri = %head.uri, "a message lacks its sender's signature");
            return answer(StatusCode::BAD_REQUEST);
        }
        let owns_it = is_community || settings.owns_every_party;
        let asked =
            RequestHead { receiver, method: &head.method, uri: &head.uri, headers: &head.headers, owns_it };
        // The time is read before the message is processed, because the effects of the message must be later.
        let arrived = self.shared.watch.is_on().then(std::time::Instant::now);
        let taken = if is_community { StatusCode::ACCEPTED } else { StatusCode::OK };
        let response = refuse_strictly(dfsp, family, &asked, base)
            .unwrap_or_else(|| answer(self.handle(&asked, family, route, &body).unwrap_or(taken)));
        if let Some(metrics) = &self.shared.metrics {
            metrics.handled(&head.method, family, began.elapsed());
        }
        if let Some(at) = arrived {
            self.shared.watch.show(SeenMessage {
                at,
                dfsp: dfsp.name,
                direction: Direction::Received,
                path: head.uri.path()[base.len() + 1..].to_owned(),
                method: head.method,
                headers: head.headers,
                body,
                status: Some(response.status()),
            });
        }
        response
    }
}

impl SimService {
    /// The status of the answer; `None` for callbacks and answers, which are accepted.
    fn handle(
        &self,
        head: &RequestHead<'_>,
        family: Family,
        route: Route<'_>,
        body: &Bytes,
    ) -> Option<StatusCode> {
        let receiver = head.receiver;
        match route {
            Route::Prepare => {
                self.observe_way(family, Leg::Request, head.headers);
                let shared = &self.shared;
                Some(match family {
                    Family::BulkTransfers => bulk::take(shared, receiver, head.headers, body),
                    _ => payee::take_prepare(shared, receiver, family, head.headers, body),
                })
            }
            Route::Callback { id, is_error } => {
                self.callback(head, family, id, is_error, body);
                None
            }
            Route::Answer { path, is_error } => {
                self.observe_way(family, Leg::Answer, head.headers);
                self.answer(receiver, path, is_error, head.headers, body.clone());
                None
            }
            Route::Asked(asked) => {
                self.observe_way(family, Leg::Request, head.headers);
                Some(self.asked(head, family, asked, body))
            }
        }
    }

    pub fn new(shared: Arc<SimulatorState>) -> Self {
        Self { shared }
    }

    fn by_name(&self, name: &str) -> Option<u32> {
        self.shared.by_name.get(name).copied()
    }

    /// The receiver of a message on Mojaloop's routes: the named DFSP, else the first one.
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

    /// Remembers a prepare that is rejected and may never be repeated. If it expires first, the hub still sends a
    /// callback.
    async fn note_refused(&self, family: Family, body: Incoming, deadline: Instant) {
        let Ok(body) = body::read(body, BODY_BYTES_MAX, deadline).await else { return };
        if let Some(id) = payee::prepared_id(family, &body) {
            self.shared.refused.keep(id, Bytes::new());
        }
    }

    /// Observes the transit time of a message, and the duration of the exchange that it ends, if its `tracestate`
    /// contains their starts.
    fn observe_way(&self, family: Family, leg: Leg, headers: &HeaderMap) {
        if let Some(metrics) = &self.shared.metrics
            && let Some(list) = metrics::left_in(headers)
        {
            metrics.arrived(family, leg, list, message::now());
        }
    }

    fn callback(&self, head: &RequestHead<'_>, family: Family, id: &str, is_error: bool, body: &Bytes) {
        let (receiver, headers) = (head.receiver, head.headers);
        let counters = &self.shared.dfsp(receiver).counters;
        let parsed = TransferId::parse(id);
        let take = if family == Family::BulkTransfers { bulk::take_callback } else { callback::take };
        let role = parsed.and_then(|id| take(&self.shared, receiver, &id, is_error, body));
        let is_put = *head.method == Method::PUT;
        // A callback to the payee of a transfer does not answer a request of its own.
        if is_put && role != Some(Role::Payee) {
            self.observe_way(family, Leg::Answer, headers);
        }
        let pushed = is_put
            && self.shared.channels.any()
            && self.push(receiver, headers, &format!("{}/{id}", family.as_str()), is_error);
        if role.is_some() || pushed {
            return;
        }
        let was_refused = parsed.is_some_and(|id| self.shared.refused.find(&id).is_some());
        count(if is_error && was_refused {
            &counters.callbacks_informative
        } else {
            &counters.callbacks_unexpected
        });
    }

    /// Notifies the script that waits for a callback on this path, if there is one.
    fn push(&self, receiver: u32, headers: &HeaderMap, path: &str, is_error: bool) -> bool {
        let trace = headers.get(message::TRACEPARENT).and_then(|value| value.to_str().ok());
        let pushed = self.shared.channels.push(trace, path, is_error);
        if pushed {
            count(&self.shared.dfsp(receiver).counters.pushed);
        }
        pushed
    }

    /// Hands an answer to its waiter.
    fn answer(&self, receiver: u32, path: &str, is_error: bool, headers: &HeaderMap, body: Bytes) {
        let dfsp = self.shared.dfsp(receiver);
        let trace = headers.get(message::TRACEPARENT).and_then(message::trace_of);
        let arrived = ArrivedCallback { at: std::time::Instant::now(), is_error, body };
        let awaited = dfsp.awaited.deliver(&decoded(path), trace, arrived);
        let pushed = self.push(receiver, headers, path, is_error);
        if awaited {
            count(&dfsp.counters.answers_received);
        } else if !pushed {
            count(&dfsp.counters.answers_unasked);
        }
    }

    fn asked(
        &self,
        head: &RequestHead<'_>,
        family: Family,
        asked: RequestKind<'_>,
        body: &[u8],
    ) -> StatusCode {
        let (shared, receiver, headers) = (&self.shared, head.receiver, head.headers);
        match (asked, family) {
            (RequestKind::Party { path }, _) => lookups::take(shared, receiver, headers, path, head.owns_it),
            (RequestKind::Posted, Family::Quotes) => quoting::take_quote(shared, receiver, headers, body),
            (RequestKind::Posted, Family::BulkQuotes) => quoting::take_bulk(shared, receiver, headers, body),
            (RequestKind::Posted, Family::FxQuotes) => fx_transfer::take(shared, receiver, headers, body),
            (RequestKind::Posted, _) => requests::take(shared, receiver, headers, body),
            (RequestKind::Again { id }, Family::TransactionRequests) => {
                requests::take_again(shared, receiver, headers, id)
            }
            (RequestKind::Again { id }, _) => quoting::take_again(shared, receiver, headers, family, id),
            (RequestKind::Authorization { id }, _) => {
                requests::take_authorization(shared, receiver, headers, id, head.uri.query())
            }
        }
    }
}

/// Rejects a message that a strict adapter rejects. Its path starts with this base.
fn refuse_strictly(
    dfsp: &Dfsp,
    family: Family,
    asked: &RequestHead<'_>,
    base: &str,
) -> Option<Response<Full<Bytes>>> {
    let path = &asked.uri.path()[base.len() + 1..];
    let flaw = strict::check(asked.method, family, path, asked.headers).err()?;
    count(&dfsp.counters.headers_refused);
    tracing::warn!(dfsp = %dfsp.name, ?flaw, uri = %asked.uri, "a strict adapter rejects this message");
    let (status, error) = flaw.answer();
    Some(with_body(status, JSON, error))
}

/// An answer without a body.
pub fn answer(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

fn control(shared: &SimulatorState, method: &Method, path: &str, body: &[u8]) -> Response<Full<Bytes>> {
    match (method, path.strip_prefix("/_sim/dfsps")) {
        (&Method::GET, None) if path == "/health" => {
            json(StatusCode::OK, &serde_json::json!({"status": "OK"}))
        }
        (&Method::GET, None) if path == "/metrics" => match &shared.metrics {
            Some(metrics) => with_body(StatusCode::OK, OPEN_METRICS, metrics.text(&shared.dfsps)),
            None => problem(StatusCode::NOT_FOUND, "this simulator has no metrics"),
        },
        (&Method::GET, Some("")) => {
            let reports: Vec<_> = shared.dfsps.iter().map(Dfsp::report).collect();
            json(StatusCode::OK, &reports)
        }
        (_, Some(rest)) => match rest.strip_prefix('/').and_then(|name| shared.by_name.get(name)) {
            Some(&index) => one(shared.dfsp(index), method, body),
            None => problem(StatusCode::NOT_FOUND, "no DFSP has this name; GET /_sim/dfsps lists them"),
        },
        _ => problem(
            StatusCode::NOT_FOUND,
            "unknown path; the known ones are /health, /metrics, /_sim/dfsps and /_sim/dfsps/{id}",
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
    json(status, &serde_json::json!({ "error": text }))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    // Cannot fail: all keys of the value are texts.
    with_body(status, JSON, serde_json::to_vec(value).unwrap_or_default())
}

pub(crate) fn with_body(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

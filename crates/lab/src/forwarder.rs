//! The forwarder baseline: the hub's four HTTP exchanges without a hub.
//!
//! It reads a request, parses its JSON, answers 202 (POST) or 200 (PUT), and forwards the message to the DFSP named in
//! `FSPIOP-Destination`, over the same server loop and connection pools that the hub uses. No ledger, no journal. What
//! a hub reaches of its throughput is what the ledger, the journal and the rules cost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use upesi_http::{
    BindError, Full, HeaderName, HeaderValue, Incoming, Limits, Method, Request, Response, Server, Service,
    StatusCode, Target, Uri, UrlError, Workers, WorkersError, body, header,
};
use upesi_sim::pools::{Pools, number_workers};

const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const FORWARD_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the end waits for requests in flight.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECTIONS_PER_DFSP_MAX: usize = 512;
/// Messages being forwarded at a time; above it the answer is 503.
const FORWARDS_MAX: usize = 65_536;

const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
const FSPIOP_URI: HeaderName = HeaderName::from_static("fspiop-uri");
const FSPIOP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");

/// Where the messages for one DFSP go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The DFSP's name, as in `FSPIOP-Destination`.
    pub dfsp: String,
    /// Its base URL; `/transfers…` is appended.
    pub url: String,
}

/// Why the forwarder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    /// A route is not `dfsp=url`.
    #[error("{0:?} is no route; write it as dfsp=http://host:port/path")]
    Route(String),
    /// A route's URL is unusable.
    #[error("the route of {dfsp}: {source}")]
    Url {
        /// Whose route.
        dfsp: String,
        /// Why.
        source: UrlError,
    },
    /// The port could not be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The threads could not be started.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// Signals could not be waited for.
    #[error("cannot wait for SIGTERM and SIGINT: {0}")]
    Signals(#[from] std::io::Error),
}

impl std::str::FromStr for Route {
    type Err = ForwarderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((dfsp, url)) if !dfsp.is_empty() && !url.is_empty() => {
                Ok(Self { dfsp: dfsp.to_owned(), url: url.to_owned() })
            }
            _ => Err(ForwarderError::Route(text.to_owned())),
        }
    }
}

struct Destination {
    dfsp: String,
    prefix: String,
    pools: Pools,
}

struct Forwarder {
    /// Sorted by name.
    destinations: Vec<Destination>,
    forwards: AtomicUsize,
}

/// Starts the forwarder on the workers; it runs until they stop.
///
/// # Errors
/// When a route is unusable or the port is taken.
pub fn serve(listen: SocketAddr, routes: &[Route], workers: &Workers) -> Result<Server, ForwarderError> {
    number_workers(workers);
    let mut destinations = Vec::with_capacity(routes.len());
    for Route { dfsp, url } in routes {
        let target =
            Target::parse(url).map_err(|source| ForwarderError::Url { dfsp: dfsp.clone(), source })?;
        destinations.push(Destination {
            dfsp: dfsp.clone(),
            prefix: target.path.path().trim_end_matches('/').to_owned(),
            pools: Pools::new(&target.origin, workers, CONNECTIONS_PER_DFSP_MAX, FORWARD_TIMEOUT),
        });
    }
    destinations.sort_by(|one, other| one.dfsp.cmp(&other.dfsp));
    let forwarder = Forwarder { destinations, forwards: AtomicUsize::new(0) };
    let bound = Server::bind(listen)?;
    Ok(Server::serve(bound, Limits::default(), workers, Arc::new(ForwarderService(Arc::new(forwarder)))))
}

/// Runs the forwarder on `worker_count` threads until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start.
pub fn run(listen: SocketAddr, routes: &[Route], worker_count: usize) -> Result<(), ForwarderError> {
    let workers = Workers::start(worker_count, "forwarder")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = serve(listen, routes, &workers)?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.shutdown(Instant::now() + SHUTDOWN_TIMEOUT).await;
        Ok(())
    });
    workers.shutdown();
    ended
}

struct ForwarderService(Arc<Forwarder>);

/// The members of a prepare that any hub has to read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prepare<'body> {
    transfer_id: &'body str,
    payer_fsp: &'body str,
    payee_fsp: &'body str,
    #[serde(borrow)]
    amount: Money<'body>,
    ilp_packet: &'body str,
    condition: &'body str,
    expiration: &'body str,
}

#[derive(Deserialize)]
struct Money<'body> {
    currency: &'body str,
    amount: &'body str,
}

/// The members of a fulfilment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fulfil<'body> {
    transfer_state: &'body str,
    fulfilment: Option<&'body str>,
    completed_timestamp: Option<&'body str>,
}

/// The members of a rejection.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rejection<'body> {
    #[serde(borrow)]
    error_information: ErrorInformation<'body>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation<'body> {
    error_code: &'body str,
    error_description: std::borrow::Cow<'body, str>,
}

/// Parses a body as what its path says, and looks at every member so that none is optimised away.
fn is_readable(is_prepare: bool, is_error: bool, body: &[u8]) -> bool {
    if is_prepare {
        serde_json::from_slice::<Prepare<'_>>(body).is_ok_and(|prepare| {
            let texts = [prepare.transfer_id, prepare.payer_fsp, prepare.payee_fsp, prepare.ilp_packet];
            let more =
                [prepare.condition, prepare.expiration, prepare.amount.currency, prepare.amount.amount];
            texts.iter().chain(&more).all(|text| !text.is_empty())
        })
    } else if is_error {
        serde_json::from_slice::<Rejection<'_>>(body).is_ok_and(|rejection| {
            let information = rejection.error_information;
            !information.error_code.is_empty() && !information.error_description.is_empty()
        })
    } else {
        serde_json::from_slice::<Fulfil<'_>>(body).is_ok_and(|fulfil| {
            let texts = [Some(fulfil.transfer_state), fulfil.fulfilment, fulfil.completed_timestamp];
            texts.iter().flatten().all(|text| !text.is_empty())
        })
    }
}

impl Service for ForwarderService {
    async fn call(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path();
        if path == "/health" {
            return answer(StatusCode::OK);
        }
        let is_prepare = head.method == Method::POST && path == "/transfers";
        let is_put = head.method == Method::PUT && path.starts_with("/transfers/");
        if !is_prepare && !is_put {
            return answer(StatusCode::NOT_FOUND);
        }
        let is_error = path.ends_with("/error");
        let Ok(body) = body::read(body, BODY_BYTES_MAX, Instant::now() + BODY_TIMEOUT).await else {
            return answer(StatusCode::BAD_REQUEST);
        };
        let destination = head.headers.get(DESTINATION).and_then(|name| self.0.find(name.as_bytes()));
        let Some(index) = destination.filter(|_| is_readable(is_prepare, is_error, &body)) else {
            return answer(StatusCode::BAD_REQUEST);
        };
        if self.0.forwards.fetch_add(1, Ordering::Relaxed) >= FORWARDS_MAX {
            self.0.forwards.fetch_sub(1, Ordering::Relaxed);
            return answer(StatusCode::SERVICE_UNAVAILABLE);
        }
        for name in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION] {
            head.headers.remove(name);
        }
        if is_put {
            head.headers.remove(header::ACCEPT);
        }
        if let Ok(value) = HeaderValue::from_str(path) {
            head.headers.insert(FSPIOP_URI, value);
        }
        head.headers.insert(FSPIOP_METHOD, HeaderValue::from_static(if is_prepare { "POST" } else { "PUT" }));
        let forwarder = self.0.clone();
        tokio::spawn(async move {
            let destination = &forwarder.destinations[index];
            let path = [destination.prefix.as_str(), head.uri.path()].concat();
            let uri = Uri::from_maybe_shared(path.into_bytes()).unwrap_or_default();
            if let Err(error) = destination.pools.send(head.method, uri, head.headers, body).await {
                tracing::debug!(%error, dfsp = destination.dfsp, "a message could not be forwarded");
            }
            forwarder.forwards.fetch_sub(1, Ordering::Relaxed);
        });
        answer(if is_prepare { StatusCode::ACCEPTED } else { StatusCode::OK })
    }
}

impl Forwarder {
    fn find(&self, name: &[u8]) -> Option<usize> {
        self.destinations.binary_search_by(|destination| destination.dfsp.as_bytes().cmp(name)).ok()
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
    fn routes_are_a_name_and_a_url() {
        let route: Route = "dfsp-1=http://127.0.0.1:9/dfsp-1?x=y".parse().unwrap();
        assert_eq!((route.dfsp.as_str(), route.url.as_str()), ("dfsp-1", "http://127.0.0.1:9/dfsp-1?x=y"));
        for text in ["", "dfsp-1", "=http://x", "dfsp-1="] {
            assert!(matches!(text.parse::<Route>(), Err(ForwarderError::Route(_))), "{text}");
        }
    }

    #[test]
    fn bodies_are_parsed_as_what_they_are() {
        let prepare = r#"{"transferId":"a","payerFsp":"b","payeeFsp":"c","amount":{"currency":"XXX","amount":"2"},
            "ilpPacket":"d","condition":"e","expiration":"f"}"#;
        let fulfil = r#"{"transferState":"COMMITTED","fulfilment":"x"}"#;
        let rejection = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"say \"no\""}}"#;
        for (is_prepare, is_error, body, expected) in [
            (true, false, prepare, true),
            (false, false, fulfil, true),
            (false, true, rejection, true),
            (true, false, fulfil, false),
            (false, false, rejection, false),
            (false, true, fulfil, false),
            (true, false, "", false),
        ] {
            assert_eq!(is_readable(is_prepare, is_error, body.as_bytes()), expected, "{body}");
        }
    }
}

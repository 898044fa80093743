//! The forwarder baseline: the hub's HTTP exchanges without a hub.
//!
//! The forwarder reads a request, parses its JSON, answers 202 (GET and POST) or 200 (PUT), and forwards the message to
//! the DFSP named in `FSPIOP-Destination`. It uses the same server loop and connection pools as the hub. A lookup has
//! no destination. The forwarder sends it to the DFSP whose prefix matches, by a table with one entry per DFSP, while a
//! hub queries its directory. The forwarder has no ledger, no journal and no directory. Their cost, and the cost of the
//! rules, is the difference to a hub's throughput.

mod message;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use upesi_engine::{Clock as _, SystemClock};
use upesi_http::{
    BindError, ClientTls, Connection, Full, HeaderMap, HeaderName, HeaderValue, Incoming, Limits, Method,
    Request, Response, Server, ServerTls, ServerTlsOptions, Service, StatusCode, Target, Uri, UrlError,
    Workers, WorkersError, body, header,
};
use upesi_jws::{self as jws, Freshness, KeyFileError, KeyRing, SignatureFault};
use upesi_pki::{PkiError, Trial};
use upesi_sim::{Pools, answer, secured};
use upesi_tls::TlsError;

use self::message::Message;
use crate::plan::security::Security;

const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const FORWARD_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time that the shutdown waits for requests in progress.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECTIONS_PER_DFSP_MAX: usize = 512;
/// Maximum number of messages being forwarded. Beyond it the answer is 503.
const FORWARDS_MAX: usize = 65_536;

const DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
const FSPIOP_URI: HeaderName = HeaderName::from_static("fspiop-uri");
const FSPIOP_METHOD: HeaderName = HeaderName::from_static("fspiop-http-method");

/// The destination of the messages for one DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The DFSP's name, as in `FSPIOP-Destination`.
    pub dfsp: String,
    /// Its base URL; the path of the message is appended.
    pub url: String,
}

/// A prefix of identifiers, and the DFSP that owns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix of the identifiers. No prefix may start with another one.
    pub prefix: String,
    pub dfsp: String,
}

/// A forwarder that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ForwarderError {
    #[error("{0:?} is not a route; write it as dfsp=http://host:port/path")]
    Route(String),
    /// A prefix is not `digits=dfsp`, or its DFSP has no route.
    #[error("{0:?} is not a prefix of a DFSP with a route; write it as 260001=dfsp-2")]
    Prefix(String),
    #[error("the route of {dfsp}: {source}")]
    Url { dfsp: String, source: UrlError },
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Files(#[from] UnusableFiles),
    #[error(transparent)]
    Workers(#[from] WorkersError),
    #[error("cannot wait for SIGTERM and SIGINT: {0}")]
    Signals(#[from] std::io::Error),
}

/// The texts before and after an equals sign; `None` if one of them is missing.
fn sides(text: &str) -> Option<(String, String)> {
    let (left, right) = text.split_once('=').filter(|(left, right)| !left.is_empty() && !right.is_empty())?;
    Some((left.to_owned(), right.to_owned()))
}

impl std::str::FromStr for Route {
    type Err = ForwarderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (dfsp, url) = sides(text).ok_or_else(|| ForwarderError::Route(text.to_owned()))?;
        Ok(Self { dfsp, url })
    }
}

impl std::str::FromStr for Prefix {
    type Err = ForwarderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (prefix, dfsp) = sides(text).ok_or_else(|| ForwarderError::Prefix(text.to_owned()))?;
        Ok(Self { prefix, dfsp })
    }
}

struct Destination {
    dfsp: String,
    name: HeaderValue,
    prefix: String,
    pools: Pools,
}

struct Forwarder {
    /// Sorted by name.
    destinations: Vec<Destination>,
    /// Prefixes with the index of their destination. Sorted.
    prefixes: Vec<(String, usize)>,
    forwards: AtomicUsize,
    security: ForwarderSecurity,
}

/// Starts the forwarder on the workers; it runs until they stop. Fails if a route or a prefix is unusable, or the port
/// is in use.
pub fn serve(
    listen: SocketAddr,
    routes: &[Route],
    prefixes: &[Prefix],
    workers: &Workers,
    security: ForwarderSecurity,
) -> Result<Server, ForwarderError> {
    let destinations = destinations(routes, workers, security.caller.as_ref())?;
    let port = security.port(workers);
    let forwarder = Forwarder { security, ..Forwarder::new(destinations, prefixes)? };
    let bound = Server::bind(listen)?;
    let service = Arc::new(ForwarderService(Arc::new(forwarder)));
    Ok(Server::serve_with(bound, Limits::default(), workers, service, port))
}

fn destinations(
    routes: &[Route],
    workers: &Workers,
    tls: Option<&ClientTls>,
) -> Result<Vec<Destination>, ForwarderError> {
    let destination = |Route { dfsp, url }: &Route| {
        let target =
            Target::parse(url).map_err(|source| ForwarderError::Url { dfsp: dfsp.clone(), source })?;
        Ok(Destination {
            dfsp: dfsp.clone(),
            name: HeaderValue::from_str(dfsp).map_err(|_| ForwarderError::Route(dfsp.clone()))?,
            prefix: target.path.path().trim_end_matches('/').to_owned(),
            pools: Pools::new(&target.origin, workers, CONNECTIONS_PER_DFSP_MAX, FORWARD_TIMEOUT, tls),
        })
    };
    routes.iter().map(destination).collect()
}

/// Runs the forwarder on `worker_count` threads until SIGTERM or SIGINT. Fails if it cannot start.
pub fn run(
    listen: SocketAddr,
    routes: &[Route],
    prefixes: &[Prefix],
    worker_count: usize,
    security: ForwarderSecurity,
) -> Result<(), ForwarderError> {
    let workers = Workers::start_on_cores(worker_count, "forwarder")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = serve(listen, routes, prefixes, &workers, security)?;
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

impl Service for ForwarderService {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path();
        if path == "/health" {
            return answer(StatusCode::OK);
        }
        let Some(message) = Message::of(&head.method, path) else { return answer(StatusCode::NOT_FOUND) };
        let Ok(body) = body::read(body, BODY_BYTES_MAX, Instant::now() + BODY_TIMEOUT).await else {
            return answer(StatusCode::BAD_REQUEST);
        };
        let destination = head.headers.get(DESTINATION);
        let destination = match (destination, message::identifier(path)) {
            (Some(name), _) => self.0.find(name.as_bytes()),
            (None, Some(identifier)) if message == Message::Lookup => self.0.owner(identifier),
            _ => None,
        };
        let Some(index) = destination.filter(|_| message.is_readable(&body)) else {
            return answer(StatusCode::BAD_REQUEST);
        };
        if let Err(fault) = self.0.security.verify(&head.method, &head.uri, &head.headers, &body) {
            tracing::debug!(%fault, "a message lacks its sender's signature");
            return answer(StatusCode::BAD_REQUEST);
        }
        if self.0.forwards.fetch_add(1, Ordering::Relaxed) >= FORWARDS_MAX {
            self.0.forwards.fetch_sub(1, Ordering::Relaxed);
            return answer(StatusCode::SERVICE_UNAVAILABLE);
        }
        for name in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION] {
            head.headers.remove(name);
        }
        let is_put = head.method == Method::PUT;
        if is_put {
            head.headers.remove(header::ACCEPT);
        }
        if message == Message::Lookup {
            head.headers.insert(DESTINATION, self.0.destinations[index].name.clone());
        }
        if let Ok(value) = HeaderValue::from_str(path) {
            head.headers.insert(FSPIOP_URI, value);
        }
        if let Ok(value) = HeaderValue::from_str(head.method.as_str()) {
            head.headers.insert(FSPIOP_METHOD, value);
        }
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
        answer(if is_put { StatusCode::OK } else { StatusCode::ACCEPTED })
    }
}

impl Forwarder {
    fn new(mut destinations: Vec<Destination>, prefixes: &[Prefix]) -> Result<Self, ForwarderError> {
        destinations.sort_by(|one, other| one.dfsp.cmp(&other.dfsp));
        let mut this = Self {
            destinations,
            prefixes: Vec::new(),
            forwards: AtomicUsize::new(0),
            security: ForwarderSecurity::default(),
        };
        for Prefix { prefix, dfsp } in prefixes {
            let index = this.find(dfsp.as_bytes());
            let index = index.ok_or_else(|| ForwarderError::Prefix(format!("{prefix}={dfsp}")))?;
            this.prefixes.push((prefix.clone(), index));
        }
        this.prefixes.sort();
        Ok(this)
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        self.destinations.binary_search_by(|destination| destination.dfsp.as_bytes().cmp(name)).ok()
    }

    /// The DFSP whose prefix the identifier has.
    fn owner(&self, identifier: &str) -> Option<usize> {
        // No prefix starts with another one. So only the last prefix before the identifier, in order, can match.
        let after = self.prefixes.partition_point(|(prefix, _)| prefix.as_str() <= identifier);
        let (prefix, index) = self.prefixes.get(after.checked_sub(1)?)?;
        identifier.starts_with(prefix).then_some(*index)
    }
}

/// The security of the forwarder's messages. There is none by default.
#[derive(Debug, Default)]
pub struct ForwarderSecurity {
    port: Option<ServerTls>,
    /// TLS towards DFSPs.
    caller: Option<ClientTls>,
    signers: Option<KeyRing>,
}

/// Files of a trial that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableFiles {
    #[error(transparent)]
    Trial(#[from] PkiError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(#[from] KeyFileError),
}

impl ForwarderSecurity {
    /// Reads the files of a trial. Fails if a file cannot be used.
    pub fn of_trial(trial: &Trial, security: Security) -> Result<Self, UnusableFiles> {
        let mut this = Self::default();
        if security.is_mutual() {
            this.port = Some(ServerTls::load(trial.port())?);
            this.caller = Some(ClientTls::load(trial.caller())?);
        }
        if security.is_signed() {
            this.signers = Some(KeyRing::load_all(&trial.signers(), false)?);
        }
        Ok(this)
    }

    /// TLS of the port. Connections are kept, so there are few handshakes.
    fn port(&self, workers: &Workers) -> Option<ServerTlsOptions> {
        self.port.clone().map(|tls| secured(tls, workers))
    }

    /// Verifies the signature of a message's sender. Queries need no signature.
    fn verify(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), SignatureFault> {
        let Some(keys) = self.signers.as_ref().filter(|_| *method != Method::GET) else { return Ok(()) };
        let request =
            jws::Request { method, uri, headers, body, base_path: "", accepts_unprotected_date: false };
        jws::verify(request, keys, Freshness::Any, SystemClock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_needs_a_name_and_a_url() {
        let route: Route = "dfsp-1=http://127.0.0.1:9/dfsp-1?x=y".parse().unwrap();
        assert_eq!((route.dfsp.as_str(), route.url.as_str()), ("dfsp-1", "http://127.0.0.1:9/dfsp-1?x=y"));
        for text in ["", "dfsp-1", "=http://x", "dfsp-1="] {
            assert!(matches!(text.parse::<Route>(), Err(ForwarderError::Route(_))), "{text}");
        }
    }

    #[test]
    fn prefix_leads_to_its_only_owner() {
        let workers = Workers::start(1, "forwarder").unwrap();
        let route = |name: &str| format!("{name}=http://127.0.0.1:9/{name}").parse::<Route>().unwrap();
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let routes = ["dfsp-2", "dfsp-10", "dfsp-1"].map(route);
        let destinations = destinations(&routes, &workers, None).unwrap();
        let prefixes = ["260009=dfsp-10", "260000=dfsp-1", "260001=dfsp-2"].map(prefix);
        let forwarder = Forwarder::new(destinations, &prefixes).unwrap();
        for (identifier, owner) in [
            ("260000000000000", Some("dfsp-1")),
            ("260001999999999", Some("dfsp-2")),
            ("260009000000001", Some("dfsp-10")),
            ("260002000000001", None),
            ("26000", None),
            ("", None),
            ("9", None),
        ] {
            let found = forwarder.owner(identifier).map(|index| forwarder.destinations[index].dfsp.as_str());
            assert_eq!(found, owner, "{identifier}");
        }
        let unknown = Forwarder::new(Vec::new(), &prefixes);
        assert!(matches!(unknown, Err(ForwarderError::Prefix(_))));
        for text in ["", "260001", "=dfsp-1", "260001="] {
            assert!(matches!(text.parse::<Prefix>(), Err(ForwarderError::Prefix(_))), "{text}");
        }
        workers.shutdown();
    }
}

//! A pool of kept-alive connections to one origin, with a maximum size.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::Full;
use live::{Failure, LiveConnection};
use multiplexed::{ExchangeSlot, Multiplexed};
use opening::{Opening, OpeningStep};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use upesi_tls::ClientTls;

use crate::Origin;

mod connector;
mod dial;
mod fault;
mod interim;
mod live;
mod multiplexed;
mod names;
mod opening;
mod outbound;

pub use fault::TlsFault;
pub use multiplexed::{Unanswered, exchange_http2};
pub use outbound::Outbound;

/// Handling of response bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResponseBody {
    /// Returns the body; a body larger than `response_body_bytes_max` is an error.
    #[default]
    Keep,
    /// Returns the body. A body that is larger than `response_body_bytes_max` or incomplete is returned as empty, and
    /// the connection is closed.
    KeepReadable,
    /// Reads and discards the body, so that the connection can be reused. A body that is larger than
    /// `response_body_bytes_max` or incomplete closes the connection.
    Discard,
}

/// A connection for one exchange.
enum Carrier {
    /// HTTP/1.1, used by one exchange at a time.
    Own(Box<LiveConnection>),
    Shared(ExchangeSlot),
}

/// Settings and limits of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Maximum number of open connections, busy and idle, and of concurrent requests over shared ones; at least one.
    pub connections_max: usize,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Maximum idle time of a connection. A connection that was idle for longer is not reused.
    pub idle_timeout: Duration,
    /// Maximum size of a response body.
    pub response_body_bytes_max: usize,
    pub response_body: ResponseBody,
    /// Whether a connection carries more than one request.
    pub keep_alive: bool,
    /// The limit of connections shared with other pools, and the permitted destinations.
    pub outbound: Outbound,
    /// TLS for `https` origins; without it they cannot be connected to.
    pub tls: Option<ClientTls>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            connections_max: 64,
            connect_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(30),
            response_body_bytes_max: 1024 * 1024,
            response_body: ResponseBody::Keep,
            keep_alive: true,
            outbound: Outbound::default(),
            tls: None,
        }
    }
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body; empty if the pool discards bodies.
    pub body: Bytes,
}

/// Reason why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection: refused, unreachable, unknown host, or an untrusted certificate.
    #[error("cannot connect to {origin}: {source}")]
    Connect {
        /// The origin of the attempt.
        origin: Origin,
        source: std::io::Error,
    },
    /// Opening a connection took longer than `connect_timeout`.
    #[error("connecting to {origin} took too long")]
    ConnectTimeout {
        /// The origin of the attempt.
        origin: Origin,
    },
    /// All connections of this pool, or of all pools together, were busy until the deadline. Nothing was sent.
    #[error("all connections to {origin} were busy until the deadline")]
    Busy {
        /// The origin of the pool.
        origin: Origin,
    },
    /// No complete response by the deadline. The peer may have processed the request.
    #[error("no response in time")]
    Timeout,
    /// The peer closed the connection before its response was complete. The peer may have processed the request.
    #[error("the connection was closed before the response was complete")]
    Closed {
        /// Whether the connection had carried a request before: then the peer probably closed it as idle.
        reused: bool,
    },
    /// The peer ended a new connection by a TLS alert, for example because it requires a client certificate.
    #[error("{0}")]
    Tls(#[source] rustls::Error),
    /// The peer sent too many interim responses (1xx). The peer may have processed the request.
    #[error(
        "the peer sent more than {responses_max} interim responses (1xx), or {bytes_max} bytes of them, and no answer"
    )]
    InterimResponses {
        /// Maximum number of interim responses to one request.
        responses_max: u32,
        /// Maximum number of their bytes in total.
        bytes_max: usize,
    },
    /// The peer violated the HTTP protocol.
    #[error("the response is not valid HTTP: {0}")]
    Protocol(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body of the response is larger than `response_body_bytes_max`.
    #[error("the response body is larger than {bytes_max} bytes")]
    ResponseTooLarge {
        status: StatusCode,
        /// The limit.
        bytes_max: usize,
    },
}

/// Kept-alive connections to one origin. A request uses the idle connection that was used last; if there is none, it
/// opens one, up to the maximum. If all are busy, requests wait in order. With an HTTP/2 peer, requests share a
/// connection as far as the peer allows, and then open another one; the maximum applies to concurrent requests.
///
/// The future of [`Pool::send`] drives its connection itself: no task exists per connection, and dropping the future
/// closes the connection that it uses. A shared connection has a task, and dropping the future resets its stream.
/// Connections belong to the runtime that opened them, so a pool may be used only as long as that runtime lives. A
/// connection that exceeds `idle_timeout` is closed at the next use of the pool or by [`Pool::close_expired`]. The same
/// applies to a connection whose certificates have been replaced.
#[derive(Debug)]
pub struct Pool {
    origin: Origin,
    host: HeaderValue,
    config: PoolConfig,
    /// One permit per open busy connection; requests wait for permits in order.
    permits: Semaphore,
    /// Ordered by the start of idling, the oldest first.
    idle: Mutex<VecDeque<Box<LiveConnection>>>,
    /// HTTP/2 connections that accept new requests.
    shared: Mutex<Vec<Arc<Multiplexed>>>,
    opening: Opening,
}

impl Pool {
    /// Creates a pool without connections.
    pub fn new(origin: Origin, config: PoolConfig) -> Self {
        // A host that was parsed from a URL is a valid header value. The peer answers an empty one with 400.
        let host = HeaderValue::try_from(origin.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""));
        let permits = Semaphore::new(config.connections_max.clamp(1, Semaphore::MAX_PERMITS));
        let (idle, shared) = (Mutex::new(VecDeque::new()), Mutex::default());
        let opening = Opening::new(origin.is_secure() && config.tls.is_some());
        Self { origin, host, config, permits, idle, shared, opening }
    }

    /// The origin of its connections.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Sends a request and returns the response, at the latest at the deadline.
    ///
    /// The request's URI must be in origin-form (`/path?query`). If `Host` or `Accept-Encoding` is missing, it is
    /// added; the latter requests no content coding. A request is repeated once on a fresh connection if no byte of it
    /// was sent because an idle connection had been closed. The same applies to a request that an HTTP/2 peer reports
    /// as not processed.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Answer, SendError> {
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.host.clone());
        }
        // Without it, a peer may choose any coding, and a coded body cannot be read here.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let permit = self.permit(deadline).await?;
        let mut carrier = match self.take_idle() {
            Some(live) => Carrier::Own(live),
            None => self.carrier(deadline).await?,
        };
        let mut result = carrier.exchange(request, deadline, &self.config).await;
        result = match result {
            Err(Failure::NotSent(request)) if carrier.may_repeat() => {
                // Returns its slot before requesting another one.
                drop(carrier);
                carrier = self.carrier(deadline).await?;
                carrier.exchange(*request, deadline, &self.config).await
            }
            result => result,
        };
        match result {
            Ok(answer) => {
                self.put_back(carrier);
                drop(permit);
                Ok(answer)
            }
            Err(failure) => {
                let reused = carrier.is_used();
                drop(carrier);
                // A failed connection must not be used for further requests.
                self.close_shared();
                Err(self.error_of(failure, reused))
            }
        }
    }

    fn error_of(&self, failure: Failure, reused: bool) -> SendError {
        match failure {
            Failure::Timeout => SendError::Timeout,
            Failure::NotSent(_) | Failure::Closed => SendError::Closed { reused },
            Failure::Interim => SendError::InterimResponses {
                responses_max: interim::RESPONSES_MAX,
                bytes_max: interim::BYTES_MAX,
            },
            Failure::Protocol(error) => SendError::Protocol(error),
            Failure::Tls(alert) => SendError::Tls(alert),
            Failure::TooLarge(status) => {
                SendError::ResponseTooLarge { status, bytes_max: self.config.response_body_bytes_max }
            }
        }
    }

    /// Closes the connections that have been idle for longer than `idle_timeout`.
    pub fn close_expired(&self) {
        let now = Instant::now();
        let mut idle = self.idle();
        let expired = idle.iter().take_while(|live| self.is_expired(live, now)).count();
        let closed: Vec<_> = idle.drain(..expired).collect();
        drop(idle);
        drop(closed);
        self.close_shared();
    }

    /// Closes all idle connections.
    pub fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        let shared: Vec<_> = self.shared().extract_if(.., |connection| connection.exchanges() == 0).collect();
        drop((idle, shared));
    }

    /// Number of open idle connections.
    pub fn connections_idle(&self) -> usize {
        let is_idle = |shared: &&Arc<Multiplexed>| shared.exchanges() == 0;
        self.idle().len() + self.shared().iter().filter(is_idle).count()
    }

    /// Number of shared connections, busy or idle.
    pub fn connections_shared(&self) -> usize {
        self.shared().len()
    }

    /// Number of connections that are busy, being opened or about to be; for a shared connection, the number of its
    /// requests.
    pub fn connections_busy(&self) -> usize {
        self.config.connections_max.max(1) - self.permits.available_permits()
    }

    async fn permit(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, SendError> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        match timeout_at(deadline, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(SendError::Busy { origin: self.origin.clone() }),
        }
    }

    fn take_idle(&self) -> Option<Box<LiveConnection>> {
        let now = Instant::now();
        loop {
            let mut live = self.idle().pop_back()?;
            if !self.is_expired(&live, now) && live.is_usable() {
                return Some(live);
            }
        }
    }

    fn put_back(&self, carrier: Carrier) {
        let Carrier::Own(mut live) = carrier else { return };
        if !self.config.keep_alive || self.config.outbound.is_short() || !live.is_usable() {
            return;
        }
        live.used = true;
        live.idle_since = Instant::now();
        let oldest = {
            let mut idle = self.idle();
            idle.push_back(live);
            let expired = idle.front().is_some_and(|oldest| self.is_expired(oldest, Instant::now()));
            if expired { idle.pop_front() } else { None }
        };
        drop(oldest);
    }

    /// A connection for a request while none is idle. If the peer may speak HTTP/2, one request at a time opens a
    /// connection, and the others check whether they can share it.
    async fn carrier(&self, deadline: Instant) -> Result<Carrier, SendError> {
        while self.opening.may_share() {
            if let Some(shared) = self.take_shared() {
                return Ok(Carrier::Shared(shared));
            }
            match self.opening.turn(deadline).await {
                OpeningStep::Opens(opens) => {
                    let opened = self.open(deadline).await;
                    opens.end(opened.is_ok());
                    return opened;
                }
                OpeningStep::Opened => {}
                OpeningStep::Failed => break,
                OpeningStep::Late => return Err(SendError::Busy { origin: self.origin.clone() }),
            }
        }
        self.open(deadline).await
    }

    async fn open(&self, deadline: Instant) -> Result<Carrier, SendError> {
        let origin = || self.origin.clone();
        let open = match self.connections_shared() {
            // This request is already counted as busy.
            0 => (self.connections_busy() + self.connections_idle()).saturating_sub(1),
            shared => shared,
        };
        let Ok(place) = timeout_at(deadline, self.config.outbound.place(open)).await else {
            return Err(SendError::Busy { origin: origin() });
        };
        let within = deadline.min(Instant::now() + self.config.connect_timeout);
        // Read before the configuration: if the certificates are replaced meanwhile, the connection counts as old.
        let generation = self.generation();
        let connecting = connector::connect(&self.origin, &self.config.outbound, self.config.tls.as_ref());
        let stream = match timeout_at(within, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(SendError::Connect { origin: origin(), source }),
            Err(_) => return Err(SendError::ConnectTimeout { origin: origin() }),
        };
        self.opening.note(stream.is_http2());
        if !stream.is_http2() {
            let live = LiveConnection::handshake(stream, place, generation).await;
            return live.map(Carrier::Own).map_err(|error| SendError::Protocol(error.into()));
        }
        match timeout_at(within, Multiplexed::handshake(stream, place, generation)).await {
            Ok(Ok(connection)) => {
                let shared = connection.take();
                if self.config.keep_alive && !self.config.outbound.is_short() {
                    self.shared().push(connection);
                }
                Ok(Carrier::Shared(shared))
            }
            Ok(Err(error)) => Err(SendError::Protocol(error.into())),
            Err(_) => Err(SendError::ConnectTimeout { origin: origin() }),
        }
    }

    /// A slot on a shared connection: on the one with the most requests, so that others become idle.
    fn take_shared(&self) -> Option<ExchangeSlot> {
        self.close_shared();
        let shared = self.shared();
        let roomy = shared.iter().filter(|connection| connection.has_room());
        roomy.max_by_key(|connection| connection.exchanges()).map(Multiplexed::take)
    }

    /// Releases the shared connections that accept no new requests; each closes after its last request.
    fn close_shared(&self) {
        let (now, generation) = (Instant::now(), self.generation());
        let is_kept = |connection: &mut Arc<Multiplexed>| {
            let is_late = |since| now.duration_since(since) > self.config.idle_timeout;
            connection.is_usable()
                && connection.generation == generation
                && !connection.idle_since().is_some_and(is_late)
        };
        let closed: Vec<_> = self.shared().extract_if(.., |connection| !is_kept(connection)).collect();
        drop(closed);
    }

    /// Whether a connection was idle for too long, or was opened with certificates that have been replaced.
    fn is_expired(&self, live: &LiveConnection, now: Instant) -> bool {
        now.duration_since(live.idle_since) > self.config.idle_timeout || live.generation != self.generation()
    }

    /// Generation of the current certificates; constant without TLS.
    fn generation(&self) -> u64 {
        match &self.config.tls {
            Some(tls) if self.origin.is_secure() => tls.generation(),
            _ => 0,
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Box<LiveConnection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, Vec<Arc<Multiplexed>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carrier {
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
        config: &PoolConfig,
    ) -> Result<Answer, Failure> {
        match self {
            Self::Own(live) => live.exchange(request, deadline, config).await,
            Self::Shared(shared) => shared.exchange(request, deadline, config).await,
        }
    }

    /// Whether the connection has carried a request before.
    fn is_used(&self) -> bool {
        match self {
            Self::Own(live) => live.used,
            Self::Shared(shared) => shared.is_used(),
        }
    }

    /// Whether a request that this connection did not process may be sent over another one.
    fn may_repeat(&self) -> bool {
        match self {
            Self::Own(live) => live.used,
            // Even a fresh connection may have more requests than its peer allows, because the peer has not yet stated
            // its limit.
            Self::Shared(_) => true,
        }
    }
}

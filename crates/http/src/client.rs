//! A pool of kept-alive connections to one origin, with a maximum.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::Full;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use upesi_tls::ClientTls;

use crate::Origin;
use live::{Failure, Live};

mod connector;
mod interim;
mod live;
mod outbound;

pub use outbound::Outbound;

/// What to do with the bodies of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResponseBody {
    /// Give it to the caller; one that is larger than `response_body_bytes_max` is an error.
    #[default]
    Keep,
    /// Give it to the caller; of one that is larger than `response_body_bytes_max`, or that breaks off, nothing, and it
    /// costs only the connection.
    KeepReadable,
    /// Read and forget it, so that the connection can serve again; one that is larger than
    /// `response_body_bytes_max`, or that breaks off, costs only the connection.
    Discard,
}

/// The bounds of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Connections open at a time, busy and idle; at least one.
    pub connections_max: usize,
    /// Time to open a connection.
    pub connect_timeout: Duration,
    /// How long a connection may idle; older ones are not used again.
    pub idle_timeout: Duration,
    /// Largest response body that is read.
    pub response_body_bytes_max: usize,
    /// What to do with response bodies.
    pub response_body: ResponseBody,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// The bound that it shares with other pools, and where connections may lead.
    pub outbound: Outbound,
    /// TLS for origins that want it; without it they cannot be connected to.
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
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; empty where the pool discards bodies.
    pub body: Bytes,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection: refused, unreachable, unknown host, a certificate that is not trusted.
    #[error("cannot connect to {origin}: {source}")]
    Connect {
        /// Where to.
        origin: Origin,
        /// What the system said.
        source: std::io::Error,
    },
    /// Opening a connection took longer than `connect_timeout`.
    #[error("connecting to {origin} took too long")]
    ConnectTimeout {
        /// Where to.
        origin: Origin,
    },
    /// All connections, or those of all pools together, were busy until the deadline; nothing was sent.
    #[error("all connections to {origin} were busy until the deadline")]
    Busy {
        /// Where to.
        origin: Origin,
    },
    /// No complete response by the deadline. The request may have been acted upon.
    #[error("no response in time")]
    Timeout,
    /// The peer closed the connection before its response was complete. The request may have been acted upon.
    #[error("the connection was closed before the response was complete")]
    Closed {
        /// Whether the connection had served before: then the peer probably closed it for being idle.
        reused: bool,
    },
    /// The peer sent interim responses (1xx) on and on. The request may have been acted upon.
    #[error(
        "the peer sent more than {responses_max} interim responses (1xx), or {bytes_max} bytes of them, and no answer"
    )]
    InterimResponses {
        /// Interim responses to one request at most.
        responses_max: u32,
        /// Bytes of them together at most.
        bytes_max: usize,
    },
    /// The peer does not speak HTTP/1.1 as it should.
    #[error("the response is not valid HTTP/1.1: {0}")]
    Protocol(#[source] hyper::Error),
    /// The response's body is larger than `response_body_bytes_max`.
    #[error("the response body is larger than {bytes_max} bytes")]
    ResponseTooLarge {
        /// The status that came with it.
        status: StatusCode,
        /// The limit.
        bytes_max: usize,
    },
}

/// Kept-alive connections to one origin. Uses idle connections first (the one that idled least), opens new ones up to
/// the maximum, and lets requests wait in order when all are busy.
///
/// The future that [`Pool::send`] gives drives its connection itself: there is no task per connection, and dropping the
/// future closes the connection it uses. Idle connections belong to the runtime they were opened on, so a pool may be
/// used only as long as that runtime lives. A connection that outlives `idle_timeout` is closed when the pool is next
/// used or by [`Pool::close_expired`]; so is one whose certificates have been replaced.
#[derive(Debug)]
pub struct Pool {
    origin: Origin,
    host: HeaderValue,
    config: PoolConfig,
    /// One permit per connection that may be open and busy; waiting is in order.
    permits: Semaphore,
    /// The one that idled longest first.
    idle: Mutex<VecDeque<Box<Live>>>,
}

impl Pool {
    /// A pool without connections yet.
    pub fn new(origin: Origin, config: PoolConfig) -> Self {
        // A host that parsed as part of a URL is a valid header value; an empty one makes the peer answer 400.
        let host = HeaderValue::try_from(origin.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""));
        let permits = Semaphore::new(config.connections_max.clamp(1, Semaphore::MAX_PERMITS));
        Self { origin, host, config, permits, idle: Mutex::new(VecDeque::new()) }
    }

    /// Where it connects to.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Sends a request and gives the response, at the latest at the deadline.
    ///
    /// The request's URI must be in origin-form (`/path?query`); a `Host` header is added where there is none. A
    /// request of which no byte was sent because an idle connection turned out to be closed is repeated once on a fresh
    /// one.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<Answer, SendError> {
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.host.clone());
        }
        let permit = self.permit(deadline).await?;
        let mut live = match self.take_idle() {
            Some(live) => live,
            None => self.open(deadline).await?,
        };
        let mut result = live.exchange(request, deadline, &self.config).await;
        result = match result {
            Err(Failure::NotSent(request)) if live.used => {
                // Its place is given back before another is asked for.
                drop(live);
                live = self.open(deadline).await?;
                live.exchange(*request, deadline, &self.config).await
            }
            result => result,
        };
        let reused = live.used;
        match result {
            Ok(answer) => {
                self.put_back(live);
                drop(permit);
                Ok(answer)
            }
            Err(Failure::Timeout) => Err(SendError::Timeout),
            Err(Failure::NotSent(_) | Failure::Closed) => Err(SendError::Closed { reused }),
            Err(Failure::Interim) => Err(SendError::InterimResponses {
                responses_max: interim::RESPONSES_MAX,
                bytes_max: interim::BYTES_MAX,
            }),
            Err(Failure::Protocol(error)) => Err(SendError::Protocol(error)),
            Err(Failure::TooLarge(status)) => {
                Err(SendError::ResponseTooLarge { status, bytes_max: self.config.response_body_bytes_max })
            }
        }
    }

    /// Closes the connections that have idled longer than `idle_timeout`.
    pub fn close_expired(&self) {
        let now = Instant::now();
        let mut idle = self.idle();
        let expired = idle.iter().take_while(|live| self.is_expired(live, now)).count();
        let closed: Vec<_> = idle.drain(..expired).collect();
        drop(idle);
        drop(closed);
    }

    /// Connections that are open and not in use.
    pub fn connections_idle(&self) -> usize {
        self.idle().len()
    }

    /// Connections in use, being opened, or about to be.
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

    fn take_idle(&self) -> Option<Box<Live>> {
        let now = Instant::now();
        loop {
            let mut live = self.idle().pop_back()?;
            if !self.is_expired(&live, now) && live.is_usable() {
                return Some(live);
            }
        }
    }

    fn put_back(&self, mut live: Box<Live>) {
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

    async fn open(&self, deadline: Instant) -> Result<Box<Live>, SendError> {
        let origin = || self.origin.clone();
        // Its own busy place is counted already.
        let open = (self.connections_busy() + self.connections_idle()).saturating_sub(1);
        let Ok(place) = timeout_at(deadline, self.config.outbound.place(open)).await else {
            return Err(SendError::Busy { origin: origin() });
        };
        let within = deadline.min(Instant::now() + self.config.connect_timeout);
        // Before the configuration is taken: one that is replaced meanwhile counts as old.
        let generation = self.generation();
        let connecting =
            connector::connect(&self.origin, self.config.outbound.guard(), self.config.tls.as_ref());
        match timeout_at(within, connecting).await {
            Ok(Ok(stream)) => Live::handshake(stream, place, generation).await.map_err(SendError::Protocol),
            Ok(Err(source)) => Err(SendError::Connect { origin: origin(), source }),
            Err(_) => Err(SendError::ConnectTimeout { origin: origin() }),
        }
    }

    /// Whether it idled too long, or was opened with certificates that have been replaced since.
    fn is_expired(&self, live: &Live, now: Instant) -> bool {
        now.duration_since(live.idle_since) > self.config.idle_timeout || live.generation != self.generation()
    }

    /// Of the certificates in force; without TLS always the same.
    fn generation(&self) -> u64 {
        match &self.config.tls {
            Some(tls) if self.origin.is_secure() => tls.generation(),
            _ => 0,
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Box<Live>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

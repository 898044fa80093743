//! Accepts connections and serves them on the workers.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accept::{Accept, AcceptState};
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use upesi_tls::Peer;

use crate::Workers;

mod accept;
mod connection;
mod failed_handshakes;
mod failures;
mod framing;
mod holders;
mod http2;
mod open_connections;
mod pace;
mod proxied;
mod room;
mod secured;
mod socket;
mod streams;
mod strict;
mod supervision;
mod transport;
mod turns;

pub use connection::{Connection, Direct, KnownAs, OtherIdentity, PeerIdentity, WaitingRequest};
pub use failures::Failures;
pub use pace::{OverPace, Pace, PaceLimits};
pub use proxied::{
    HEADER_BYTES_MAX as PROXY_HEADER_BYTES_MAX, NotAProxyHeader, PROXY_HEADERS_MAX, ProxyCounts, ProxyHeader,
    ProxyProtocol, ProxyRefusal,
};
pub use secured::{HandshakeCounts, HandshakeOutcome, ServerTlsOptions};
pub use strict::Refusal;

/// Answers requests. One value serves all connections of all workers.
pub trait Service: Send + Sync + 'static {
    /// Answers a request of this connection. Errors must already be answers.
    fn call(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// Records the participant of a new connection's certificate, before the first request.
    fn meet(&self, _connection: &Connection) {}

    /// Waits before [`Service::reject`], to limit the rate of its answers.
    fn hold_back(&self, _connection: &Connection) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Answers a request that violates HTTP; an HTTP/1.1 connection is closed afterwards. The default is the reason as
    /// text.
    fn reject(&self, _request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(refusal.reason.as_bytes())));
        *response.status_mut() = refusal.status;
        response
    }

    /// Answers a request on a connection over the limit; the connection is closed afterwards. The default is 503
    /// without a body.
    fn refuse(&self) -> Response<Full<Bytes>> {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }
}

/// Limits of one connection, and of all connections together.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest head: request line and headers; with HTTP/2 counted as in RFC 9113 §10.5.1. Longer heads are answered
    /// 431. At least 8 KiB, the smallest limit that hyper can enforce.
    pub head_bytes_max: usize,
    /// Time from the first byte of a head to its last. After it the connection is closed.
    pub head_deadline: Duration,
    /// Maximum idle time of a kept-alive connection between requests, and of a new one before its first request.
    pub idle_timeout: Duration,
    /// Maximum time in which a peer may read nothing of an answer. After it the connection is closed.
    pub unread_timeout: Duration,
    /// Maximum number of concurrent connections. For a further one, another connection is closed, in this order: a
    /// connection with an unread answer; an unidentified one (see [`Connection::become_known`]), of crowded
    /// addresses before others, the longest waiting first; a waiting one of a party with more than an equal part; one
    /// with a long idle time. If there is none, a request on the new connection is answered by [`Service::refuse`].
    pub connections_max: usize,
    /// Maximum number of unidentified connections of one address. For a further one, others of that address are closed.
    pub anonymous_per_address_max: usize,
    /// Maximum number of connections of one known party: a participant, or a certificate or address that acts for
    /// several. For a further one, another connection of that party is closed, if it waits for the rest of a request
    /// or has been idle for long. Otherwise the further one ends with its first answer.
    pub connections_per_participant_max: usize,
    /// Maximum number of concurrent requests of an HTTP/2 connection. A server processes at most `connections_max` at
    /// the same time, in addition to the first request of each connection. The limit of a party equals its limit of
    /// connections.
    pub streams_per_connection_max: u32,
}

impl Limits {
    /// Maximum number of open connections of a server: served, closing to make room, and being rejected.
    pub const fn open_max(&self) -> usize {
        self.connections_max.saturating_add(room::LEAVING_MAX + REFUSALS_MAX)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * 1024,
            head_deadline: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            unread_timeout: Duration::from_secs(10),
            connections_max: 10_000,
            anonymous_per_address_max: usize::MAX,
            connections_per_participant_max: 2_500,
            streams_per_connection_max: 32,
        }
    }
}

/// Maximum number of headers of one request; more are answered 431. hyper parses this many without allocating.
pub const HEADERS_MAX: usize = 100;

/// Maximum number of connections over the limit that receive a rejection at the same time; further ones are closed
/// without an answer.
pub const REFUSALS_MAX: usize = 32;

/// Length of the accept queue; the system may lower it (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Reason why the server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{address} is in use by another process; stop it or choose another port")]
    InUse { address: SocketAddr },
    /// Ports below 1024 need a privilege.
    #[error("no permission to listen on {address}; choose a port from 1024 on or grant the privilege")]
    Permission { address: SocketAddr },
    /// This machine has no such address.
    #[error("{address} is not an address of this machine")]
    NotLocal { address: SocketAddr },
    /// Any other error.
    #[error("cannot listen on {address}: {source}")]
    Other { address: SocketAddr, source: std::io::Error },
}

/// A listening socket that is not served yet: connections queue in the system.
#[derive(Debug)]
pub struct BoundServer {
    listener: std::net::TcpListener,
    local_addr: SocketAddr,
}

impl BoundServer {
    /// The address of the socket; for port 0, with the assigned port.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// A server that accepts and serves connections. Dropping it does not stop it; it runs until the workers stop.
#[derive(Debug)]
pub struct Server {
    local_addr: SocketAddr,
    shared: Arc<AcceptState>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Listens on an address, without serving yet.
    pub fn bind(address: SocketAddr) -> Result<BoundServer, BindError> {
        let bound = std::net::TcpListener::bind(address).and_then(|listener| {
            // The standard library's queue has 128 places. A burst of connections would fill them, and clients retry
            // only after a second.
            rustix::net::listen(&listener, BACKLOG)?;
            listener.set_nonblocking(true)?;
            let local_addr = listener.local_addr()?;
            Ok(BoundServer { listener, local_addr })
        });
        bound.map_err(|source| match source.kind() {
            std::io::ErrorKind::AddrInUse => BindError::InUse { address },
            std::io::ErrorKind::PermissionDenied => BindError::Permission { address },
            std::io::ErrorKind::AddrNotAvailable => BindError::NotLocal { address },
            _ => BindError::Other { address, source },
        })
    }

    /// Starts to accept (on worker 0) and to serve. Each connection is served by one worker; the workers take turns.
    pub fn serve<S: Service>(bound: BoundServer, limits: Limits, workers: &Workers, service: Arc<S>) -> Self {
        Self::serve_with(bound, limits, workers, service, None)
    }

    /// Like [`Self::serve`], with TLS if it is given.
    pub fn serve_with<S: Service>(
        bound: BoundServer,
        limits: Limits,
        workers: &Workers,
        service: Arc<S>,
        secured: Option<ServerTlsOptions>,
    ) -> Self {
        Self::serve_behind(bound, limits, workers, service, secured, None)
    }

    /// Like [`Self::serve_with`]. If load balancers are given, all connections must come through them.
    pub fn serve_behind<S: Service>(
        bound: BoundServer,
        limits: Limits,
        workers: &Workers,
        service: Arc<S>,
        secured: Option<ServerTlsOptions>,
        balancers: Option<ProxyProtocol>,
    ) -> Self {
        let shared = Arc::new(AcceptState::new(&limits, workers, secured.as_ref()));
        let (stop, stopped) = watch::channel(false);
        let workers_of_server = workers.iter().cloned().collect();
        let accept = Accept::new(&limits, workers_of_server, service, shared.clone(), stopped, secured);
        workers.get(0).spawn(accept.run(bound.listener, balancers));
        Self { local_addr: bound.local_addr, shared, stop }
    }

    /// The address of the socket.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Number of open connections, including connections that are being rejected.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Number of connections rejected since the start because the limit was reached.
    pub fn connections_refused(&self) -> usize {
        self.shared.refused()
    }

    /// Number of connections closed since the start to make room for new ones.
    pub fn connections_made_way(&self) -> usize {
        self.shared.made_way()
    }

    /// Number of connections since the start that exceeded the limit of their party.
    pub fn connections_over_share(&self) -> usize {
        self.shared.over_share()
    }

    /// Number of failed accepts since the start, for example for lack of descriptors.
    pub fn accepts_failed(&self) -> usize {
        self.shared.failed()
    }

    /// Ends the connections whose certificates are no longer trusted, each after its request in flight. Returns their
    /// number. Calls `trusts` once per certificate.
    pub fn recheck(&self, trusts: impl Fn(&Peer) -> bool) -> usize {
        self.shared.recheck(trusts)
    }

    /// Stops accepting, and ends every connection after its request in flight.
    pub fn begin_shutdown(&self) {
        self.stop.send_replace(true);
        self.shared.finish_all();
    }

    /// Stops accepting, ends every connection after its request in flight, and waits until all are closed or the
    /// deadline has passed. Returns the number of connections that were still open then.
    pub async fn shutdown(&self, deadline: Instant) -> usize {
        self.begin_shutdown();
        let _ = timeout_at(deadline, self.shared.all_closed()).await;
        self.connections()
    }
}

/// An answer with the header that closes the connection.
fn last(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

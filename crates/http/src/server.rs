//! Accepting connections and serving them on the workers.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accept::{Accept, Shared};
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
mod framing;
mod holders;
mod http2;
mod open_connections;
mod pace;
mod proxied;
mod room;
mod secured;
mod strict;
mod supervision;
mod transport;
mod turns;

pub use accept::Failures;
pub use connection::{Connection, Direct, KnownAs, OtherIdentity, PeerIdentity, Waiting};
pub use holders::OverShare;
pub use pace::{OverPace, Pace, PaceLimits};
pub use proxied::{
    HEADER_BYTES_MAX as PROXY_HEADER_BYTES_MAX, NotAProxyHeader, PROXY_HEADERS_MAX, ProxyCounts, ProxyHeader,
    ProxyProtocol, ProxyRefusal,
};
pub use secured::{HandshakeCounts, Outcome, Secured};
pub use strict::Refusal;

/// Answers requests. One value serves all connections of all workers.
pub trait Service: Send + Sync + 'static {
    /// Answers one request that came by this connection. What can go wrong must already be an answer.
    fn call(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// Notes the participant of a new connection's certificate, before the first request.
    ///
    /// # Errors
    /// Its participant has as many connections as it may: the connection's first request is answered by
    /// [`Service::refuse`].
    fn meet(&self, _connection: &Connection) -> Result<(), OverShare> {
        Ok(())
    }

    /// Waits before [`Service::reject`], so that its answers come at a pace.
    fn hold_back(&self, _connection: &Connection) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Answers a request that HTTP forbids, whatever it asks for; with HTTP/1.1 the connection is closed afterwards.
    /// The reason as text unless the edge has its own form of saying so.
    fn reject(&self, _request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(refusal.reason.as_bytes())));
        *response.status_mut() = refusal.status;
        response
    }

    /// Answers a request on a connection over the cap; the connection is closed afterwards. 503 without a body unless
    /// the edge has its own form of saying so.
    fn refuse(&self) -> Response<Full<Bytes>> {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }
}

/// What one connection, and all of them together, may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest head (request line and headers; with HTTP/2 as RFC 9113 §10.5.1 counts); longer ones are answered 431.
    /// At least 8 KiB, the smallest that hyper can enforce.
    pub head_bytes_max: usize,
    /// Time from the first byte of a head to its last. Then the connection is closed.
    pub head_deadline: Duration,
    /// How long a kept-alive connection may idle between requests, and a new one before its first.
    pub idle_timeout: Duration,
    /// How long a peer may read nothing of an answer. Then the connection is closed.
    pub unread_timeout: Duration,
    /// Connections served at a time. For a further one another makes room, in this order: a connection with an unread
    /// answer; a stranger's (see [`Connection::become_known`]), the longest waiting first; a waiting one of a party
    /// with more than an equal part; one with a long idle time. If there is none, a request on the new connection is
    /// answered by [`Service::refuse`].
    pub connections_max: usize,
    /// Strangers of one address served at a time; for a further one others of that address make room.
    pub strangers_per_address_max: usize,
    /// Connections of one known party served at a time: a participant, or a certificate or address that speaks for
    /// several. For a further one another of that party makes room.
    pub connections_per_participant_max: usize,
    /// Requests that an HTTP/2 connection may have in flight. Beside the first request of each connection, a server has
    /// at most `connections_max` in flight. A party has at most as many as connections.
    pub streams_per_connection_max: u32,
}

impl Limits {
    /// Connections that a server has open at most: those that it serves, those that are making room, those that it
    /// refuses.
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
            strangers_per_address_max: usize::MAX,
            connections_per_participant_max: 2_500,
            streams_per_connection_max: 32,
        }
    }
}

/// Most headers of one request; more are answered 431. It is the number up to which hyper parses without allocating.
pub const HEADERS_MAX: usize = 100;

/// Connections over the cap that are answered with a refusal at a time; still more are closed without a word.
pub const REFUSALS_MAX: usize = 32;

/// Connections that wait to be accepted; the system may lower it (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Why an address could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{address} is in use by another process; stop it or choose another port")]
    InUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Ports below 1024 need a privilege.
    #[error("no permission to listen on {address}; choose a port from 1024 on or grant the privilege")]
    Permission {
        /// The address asked for.
        address: SocketAddr,
    },
    /// This machine has no such address.
    #[error("{address} is not an address of this machine")]
    NotLocal {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A listening socket that nobody serves yet: connections queue in the system.
#[derive(Debug)]
pub struct BoundServer {
    listener: std::net::TcpListener,
    local_addr: SocketAddr,
}

impl BoundServer {
    /// Where it listens; with port 0 asked for, the port that was given.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

/// A server that accepts and serves. Dropping it leaves it running until the workers stop.
#[derive(Debug)]
pub struct Server {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Listens on an address, without serving yet.
    pub fn bind(address: SocketAddr) -> Result<BoundServer, BindError> {
        let bound = std::net::TcpListener::bind(address).and_then(|listener| {
            // The standard library asks for 128: a crowd would fill that, and clients try again after a second only.
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

    /// Starts to accept (on worker 0) and to serve, each connection wholly on one worker, in turn.
    pub fn serve<S: Service>(bound: BoundServer, limits: Limits, workers: &Workers, service: Arc<S>) -> Self {
        Self::serve_with(bound, limits, workers, service, None)
    }

    /// The same over TLS, if it is given.
    pub fn serve_with<S: Service>(
        bound: BoundServer,
        limits: Limits,
        workers: &Workers,
        service: Arc<S>,
        secured: Option<Secured>,
    ) -> Self {
        Self::serve_behind(bound, limits, workers, service, (secured, None))
    }

    /// The same behind load balancers, if there are any: then all connections come by them.
    pub fn serve_behind<S: Service>(
        bound: BoundServer,
        limits: Limits,
        workers: &Workers,
        service: Arc<S>,
        (secured, balancers): (Option<Secured>, Option<ProxyProtocol>),
    ) -> Self {
        let shared = Arc::new(Shared::new(&limits, workers, secured.as_ref()));
        let (stop, stopped) = watch::channel(false);
        let workers_of_server = workers.iter().cloned().collect();
        let accept = Accept::new(&limits, workers_of_server, service, shared.clone(), stopped, secured);
        workers.get(0).spawn(accept.run(bound.listener, balancers));
        Self { local_addr: bound.local_addr, shared, stop }
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Connections open now, those being refused included.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Connections refused since the start because the cap was reached.
    pub fn connections_refused(&self) -> usize {
        self.shared.refused()
    }

    /// Connections closed since the start for the sake of new ones.
    pub fn connections_made_way(&self) -> usize {
        self.shared.made_way()
    }

    /// Times since the start that the system gave no connection, for want of descriptors.
    pub fn accepts_failed(&self) -> usize {
        self.shared.failed()
    }

    /// Lets the connections finish whose certificates are not trusted any more: each ends after the request in flight.
    /// Gives their number. Each certificate is asked for once.
    pub fn recheck(&self, trusts: impl Fn(&Peer) -> bool) -> usize {
        self.shared.recheck(trusts)
    }

    /// Stops accepting, and lets every connection finish the request in flight.
    pub fn begin_shutdown(&self) {
        self.stop.send_replace(true);
        self.shared.finish_all();
    }

    /// Stops accepting, lets every connection finish the request in flight, and waits until all are closed or the
    /// deadline has come. Gives the number of connections that were still open then.
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

//! HTTP servers and clients on hyper: the server loop of HTTP/1.1 and HTTP/2, and client pools with limits.
//!
//! - [`Workers`]: a fixed set of threads, each with its own single-threaded runtime.
//! - [`server`]: bind, accept, pass connections round-robin to the workers, serve them within [`server::Limits`].
//! - [`body`]: read a request body within limits of size and time.
//! - [`client`]: a pool of kept-alive connections to one origin, with a maximum.
//! - [`Guard`]: permitted destinations of connections.
//! - [`Breaker`] and [`Jitter`]: when to call a failing peer again.
//! - [`server::ServerTlsOptions`]: TLS of a server; [`PoolConfig::tls`]: TLS of a pool.
//! - [`url`]: absolute `http://` and `https://` URLs split into an origin and a path.
//! - [`header_block`]: headers as the bytes that the journal stores.

mod address;
pub mod body;
mod breaker;
pub mod client;
mod frames;
mod guard;
pub mod header_block;
mod jitter;
pub mod server;
pub mod url;
mod workers;

pub use address::check_address;
pub use body::BodyError;
pub use breaker::{Breaker, BreakerDecision, BreakerState};
pub use jitter::Jitter;
// Types in the signatures above, so that users can name them without a dependency of their own.
pub use bytes::Bytes;
pub use client::{Answer, Outbound, Pool, PoolConfig, ResponseBody, SendError, TlsFault};
pub use guard::{Guard, GuardError, GuardRules, Network, NotANetwork};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
pub use http_body_util::Full;
pub use hyper::body::Incoming;
pub use server::{
    BindError, BoundServer, Connection, Failures, HandshakeCounts, HandshakeOutcome, KnownAs, Limits,
    OtherIdentity, OverPace, Pace, PaceLimits, PeerIdentity, ProxyCounts, ProxyHeader, ProxyProtocol,
    ProxyRefusal, Server, ServerTlsOptions, Service,
};
pub use upesi_tls::{CertificateFacts, ClientTls, Fingerprint, Peer, ServerTls, VerifiedIssuer};
pub use url::{Origin, Schemes, Target, UrlError, too_large_port};
pub use workers::{WorkerHandle, Workers, WorkersError, available_cores, current_worker};

/// Primitives of `server/supervision` and `server/open_connections`. The crate `models` compiles these modules with
/// Loom's primitives and runs them through all orders of events.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

    pub(crate) use tokio::sync::Notify;
}

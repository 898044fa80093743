//! The HTTP/1.1 server loop and the bounded client pools that every edge shares, on hyper directly.
//!
//! - [`Workers`]: a fixed set of threads, each with its own single-threaded runtime.
//! - [`server`]: bind, accept, hand connections round-robin to the workers, serve them within [`server::Limits`].
//! - [`body`]: read a request body within a size and a time.
//! - [`client`]: a pool of kept-alive connections to one origin, with a maximum.
//! - [`Breaker`] and [`Jitter`]: when to call a peer again that fails.
//! - [`url`]: absolute `http://` URLs split into an origin and a path.
//! - [`header_block`]: headers as the bytes in which the journal carries them.

mod address;
mod backoff;
pub mod body;
mod breaker;
pub mod client;
pub mod header_block;
pub mod server;
mod sync;
pub mod url;
mod workers;

pub use address::check_address;
pub use backoff::Jitter;
pub use body::BodyError;
pub use breaker::{Breaker, BreakerState, Passage};
pub use client::{Answer, Outbound, Pool, PoolConfig, ResponseBody, SendError};
pub use server::{BindError, BoundServer, Connection, Limits, OverPace, Pace, PaceLimits, Server, Service};
pub use url::{Origin, Target, UrlError};
pub use workers::{WorkerHandle, Workers, WorkersError, available_cores, current_worker};

// The types in the signatures above, so that a user needs no dependency of its own to name them.
pub use bytes::Bytes;
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
pub use http_body_util::Full;
pub use hyper::body::Incoming;

//! Serving without a listening socket, for tests and fuzzers.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{self, Accepted, Bounds};
use super::http2;
use super::supervision::Supervisor;
use super::{Limits, Service};

/// Serves connections that nobody accepted, over whatever can be read and written, by the same code as a
/// [`Server`](super::Server) those of its socket. It has no clock: time passes for them where it is told to.
pub struct Direct<S> {
    service: Arc<S>,
    bounds: Bounds,
    supervisor: Arc<Supervisor>,
}

impl<S: Service> Direct<S> {
    /// A server of connections that are handed to it. How many there are at a time is for the caller to say.
    pub fn new(limits: &Limits, service: Arc<S>) -> Self {
        Self { service, bounds: Bounds::of(limits), supervisor: Arc::new(Supervisor::new(limits)) }
    }

    /// Serves one connection to its end; one over the cap is refused by [`Service::refuse`].
    pub async fn serve<T>(&self, stream: T, is_over_cap: bool)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let guard = self.supervisor.watch(0, None, None);
        let (service, bounds) = (self.service.clone(), self.bounds.clone());
        let accepted = Accepted { service, over_cap: is_over_cap, address: None, guard, bounds };
        connection::serve(stream, accepted).await;
    }

    /// Serves one connection of HTTP/2 to its end.
    pub async fn serve_http2<T>(&self, stream: T)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let guard = self.supervisor.watch(0, None, None);
        let (service, bounds) = (self.service.clone(), self.bounds.clone());
        http2::serve(stream, Accepted { service, over_cap: false, address: None, guard, bounds }).await;
    }

    /// Lets the time between two looks at the connections pass: a quarter of the shorter time limit, at most 250 ms.
    pub fn sweep(&self) {
        self.supervisor.sweep();
    }

    /// Tells all connections to finish, as the shutdown of a server does.
    pub fn finish_all(&self) {
        self.supervisor.finish_all();
    }
}

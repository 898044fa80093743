//! Serving without a listening socket, for tests and fuzzers.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Accepted, Bounds};
use crate::server::supervision::Supervisor;
use crate::server::{Limits, Service, http2};

/// Serves streams that were not accepted from a socket, by the same code as a [`Server`](crate::server::Server).
/// It has no clock: [`Direct::sweep`] advances the time.
pub struct Direct<S> {
    service: Arc<S>,
    bounds: Bounds,
    supervisor: Arc<Supervisor>,
}

impl<S: Service> Direct<S> {
    /// Creates a server for given streams. The caller limits their number.
    pub fn new(limits: &Limits, service: Arc<S>) -> Self {
        Self { service, bounds: Bounds::of(limits), supervisor: Arc::new(Supervisor::new(limits)) }
    }

    /// Serves one connection to its end; if it is over the limit, it is rejected by [`Service::refuse`].
    pub async fn serve<T>(&self, stream: T, is_over_cap: bool)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        super::serve(stream, self.accept(is_over_cap)).await;
    }

    /// Serves one connection of HTTP/2 to its end.
    pub async fn serve_http2<T>(&self, stream: T)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        http2::serve(stream, self.accept(false)).await;
    }

    fn accept(&self, over_cap: bool) -> Accepted<S> {
        let guard = self.supervisor.watch(0, None, None);
        let (service, bounds) = (self.service.clone(), self.bounds.clone());
        // Only connections with a holder take turns.
        Accepted { service, over_cap, address: None, room: None, guard, bounds, turns: Arc::default() }
    }

    /// Advances the time by the interval between two checks of the connections: a quarter of the shorter time limit, at
    /// most 250 ms.
    pub fn sweep(&self) {
        self.supervisor.sweep();
    }

    /// Asks all connections to finish, as the shutdown of a server does.
    pub fn finish_all(&self) {
        self.supervisor.finish_all();
    }
}

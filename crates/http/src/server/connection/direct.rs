//! Serving without a listening socket, for tests and fuzzers.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Accepted, Bounds};
use crate::server::supervision::Supervisor;
use crate::server::{Limits, Service, http2};

/// Serves streams that were not accepted from a socket, by the same code as a [`Server`](crate::server::Server).
/// The server has no clock: [`Direct::sweep`] advances the time.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Incoming;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::server::Connection;
    use crate::server::supervision::Order;

    struct Answers;

    impl Service for Answers {
        async fn call(&self, _: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
            Response::new(Full::from("answered"))
        }
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// The bytes that a kept-alive connection still sends if it receives this order just after these bytes.
    async fn last_bytes(order: Order, arrived: &str) -> String {
        let direct = Direct::new(&Limits::default(), Arc::new(Answers));
        let accepted = direct.accept(false);
        let watched = accepted.guard.0.clone();
        let (mut peer, stream) = duplex(4096);
        peer.write_all(REQUEST.as_bytes()).await.unwrap();
        let mut serving = pin!(super::super::serve(stream, accepted));
        let mut answer = Vec::new();
        while !answer.ends_with(b"answered") {
            tokio::select! {
                biased;
                () = &mut serving => panic!("the connection ended"),
                read = peer.read_buf(&mut answer) => assert_ne!(read.unwrap(), 0),
            }
        }
        peer.write_all(arrived.as_bytes()).await.unwrap();
        watched.tell(order);
        let reading = async move {
            let mut last = String::new();
            peer.read_to_string(&mut last).await.unwrap();
            last
        };
        tokio::join!(serving, reading).1
    }

    #[tokio::test]
    async fn request_that_has_arrived_is_answered_before_the_connection_ends() {
        for order in [Order::Yield, Order::Finish] {
            let last = last_bytes(order, REQUEST).await;
            assert!(last.starts_with("HTTP/1.1 200") && last.ends_with("answered"), "{order:?}: {last}");
        }
        for (order, arrived) in [
            (Order::Yield, ""),
            (Order::Yield, "GET / HT"),
            (Order::Finish, ""),
            (Order::Distrust, REQUEST),
            (Order::Abort, REQUEST),
        ] {
            assert_eq!(last_bytes(order, arrived).await, "", "{order:?} {arrived}");
        }
    }
}

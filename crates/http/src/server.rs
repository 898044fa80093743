//! Accepting connections and serving them on the workers.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::Workers;

/// Answers requests. One value serves all connections of all workers.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. What can go wrong must already be an answer.
    fn call(&self, request: Request<Incoming>) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// What one connection, and all of them together, may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest head (request line and headers); longer ones are answered 431. At least 8 KiB.
    pub head_bytes_max: usize,
    /// Time for a head to arrive, and how long a kept-alive connection may idle between requests; then it is closed.
    pub head_timeout: Duration,
    /// Connections served at a time; one more is accepted, answered 503 and closed.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes_max: 64 * 1024, head_timeout: Duration::from_secs(60), connections_max: 10_000 }
    }
}

/// Most headers of one request; more are answered 431. It is the number up to which hyper parses without allocating.
pub const HEADERS_MAX: usize = 100;

/// How long accepting pauses after the system refused a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

#[derive(Debug)]
struct Shared {
    connections: AtomicUsize,
    /// Connections turned away because of the cap.
    refused: AtomicUsize,
    /// Told when the last connection ends.
    idle: Notify,
}

impl Server {
    /// Listens on an address, without serving yet.
    pub fn bind(address: SocketAddr) -> Result<BoundServer, BindError> {
        let bound = std::net::TcpListener::bind(address).and_then(|listener| {
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
    pub fn serve<S: Service>(
        bound: BoundServer,
        limits: Limits,
        workers: Arc<Workers>,
        service: Arc<S>,
    ) -> Self {
        let shared = Arc::new(Shared {
            connections: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            idle: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let local_addr = bound.local_addr;
        let accept = Accept { limits, workers: workers.clone(), service, shared: shared.clone(), stopped };
        workers.get(0).spawn(accept.run(bound.listener));
        Self { local_addr, shared, stop }
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Connections answered 503 since the start because the cap was reached.
    pub fn connections_refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Stops accepting, lets every connection finish the request in flight, and waits until all are closed or the
    /// deadline has come. Gives the number of connections that were still open then.
    pub async fn shutdown(&self, deadline: Instant) -> usize {
        self.stop.send_replace(true);
        let all_closed = async {
            loop {
                let mut told = pin!(self.shared.idle.notified());
                told.as_mut().enable();
                if self.connections() == 0 {
                    return;
                }
                told.await;
            }
        };
        let _ = timeout_at(deadline, all_closed).await;
        self.connections()
    }
}

struct Accept<S> {
    limits: Limits,
    workers: Arc<Workers>,
    service: Arc<S>,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
}

impl<S: Service> Accept<S> {
    async fn run(mut self, listener: std::net::TcpListener) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the listening socket cannot be polled"),
        };
        let mut stopped = self.stopped.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = told_to_stop(&mut stopped) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => self.hand_over(stream),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn hand_over(&mut self, stream: std::net::TcpStream) {
        let _ = stream.set_nodelay(true);
        if self.shared.connections.load(Ordering::Relaxed) >= self.limits.connections_max {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return refuse(&stream);
        }
        let open = Open::new(self.shared.clone());
        let (limits, stopped) = (self.limits.clone(), self.stopped.clone());
        // Its own counted pointer: the service's count would bounce between the workers' caches at every request.
        let service = Arc::new(Shareable { service: self.service.clone() });
        self.workers.round_robin().spawn(async move {
            let _open = open;
            match TcpStream::from_std(stream) {
                Ok(stream) => connection(stream, &limits, service, stopped).await,
                Err(error) => tracing::warn!(%error, "an accepted connection cannot be polled"),
            }
        });
    }
}

/// Errors that concern the connection being accepted, not the listener.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Says 503 without reading the request: whatever it asks for, it is too much now. Never waits.
fn refuse(stream: &std::net::TcpStream) {
    use std::io::Write;
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let _ = (&mut &*stream).write(answer);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Counts one connection as long as it lives.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: Arc<Shared>) -> Self {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.connections.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

struct Shareable<S> {
    service: Arc<S>,
}

async fn connection<S: Service>(
    stream: TcpStream,
    limits: &Limits,
    shareable: Arc<Shareable<S>>,
    mut stopped: watch::Receiver<bool>,
) {
    let answer = service_fn(|request| {
        let shareable = shareable.clone();
        async move { Ok::<_, Infallible>(shareable.service.call(request).await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(true)
        .pipeline_flush(true)
        .half_close(false)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_header_size(limits.head_bytes_max)
        .max_buf_size(limits.head_bytes_max)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => Some(ended),
        () = told_to_stop(&mut stopped) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Peers vanish and send garbage all the time; hyper has answered what can be answered.
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        // The server's handle is gone: it runs until the workers stop.
        std::future::pending::<()>().await;
    }
}

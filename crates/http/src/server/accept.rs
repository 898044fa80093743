//! The accept loop: counts, refuses, hands over.

use std::net::TcpListener as StdListener;
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connection::{self, Serving};
use super::open_connections::OpenConnections;
use super::supervision::Supervisor;
use super::{Limits, REFUSALS_MAX, Service};
use crate::{WorkerHandle, Workers};

/// How long accepting pauses after the system refused to give a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the handle, the accept loop and the connections have in common.
#[derive(Debug)]
pub(super) struct Shared {
    open: Arc<OpenConnections>,
    refused: AtomicUsize,
    /// One per worker.
    supervisors: Vec<Arc<Supervisor>>,
}

impl Shared {
    pub(super) fn new(limits: &Limits, workers: &Workers) -> Self {
        let supervisors: Vec<_> = workers.iter().map(|_| Arc::new(Supervisor::new(limits))).collect();
        for (worker, supervisor) in workers.iter().zip(&supervisors) {
            worker.spawn(supervisor.clone().run());
        }
        Self { open: Arc::new(OpenConnections::new()), refused: AtomicUsize::new(0), supervisors }
    }

    pub(super) fn connections(&self) -> usize {
        self.open.count()
    }

    pub(super) async fn all_closed(&self) {
        self.open.all_closed().await;
    }

    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn finish_all(&self) {
        for supervisor in &self.supervisors {
            supervisor.finish_all();
        }
    }
}

pub(super) struct Accept<S> {
    limits: Limits,
    workers: Vec<WorkerHandle>,
    next: usize,
    service: Arc<S>,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
}

impl<S: Service> Accept<S> {
    pub(super) const fn new(
        limits: Limits,
        workers: Vec<WorkerHandle>,
        service: Arc<S>,
        shared: Arc<Shared>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { limits, workers, next: 0, service, shared, stopped }
    }

    pub(super) async fn run(mut self, listener: StdListener) {
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
            // Back to a plain socket: it must be polled by the runtime of the worker that gets it.
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

    fn hand_over(&mut self, stream: StdStream) {
        let open = self.shared.connections();
        let over_cap = open >= self.limits.connections_max;
        if over_cap {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            if open >= self.limits.connections_max + REFUSALS_MAX {
                return;
            }
        }
        // Without it small answers would wait for the peer's acknowledgement of earlier ones; where it fails the
        // connection is already gone.
        let _ = stream.set_nodelay(true);
        let worker = self.next % self.workers.len();
        self.next = self.next.wrapping_add(1);
        let open = self.shared.open.open();
        let head_bytes_max = self.limits.head_bytes_max;
        let serving = Arc::new(Serving { service: self.service.clone(), over_cap });
        let supervisor = self.shared.supervisors[worker].clone();
        self.workers[worker].spawn(async move {
            let _open = open;
            match TcpStream::from_std(stream) {
                Ok(stream) => connection::serve(stream, head_bytes_max, serving, &supervisor).await,
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

async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        // The server's handle is gone: it runs until the workers stop.
        std::future::pending::<()>().await;
    }
}

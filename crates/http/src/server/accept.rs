//! The accept loop: counts connections, makes room, rejects, and passes connections to workers.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::net::{IpAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use upesi_tls::Peer;

use super::connection::{self, Accepted, Bounds};
use super::failures::Failures;
use super::holders::origin_of;
use super::proxied::{ArrivedConnection, ProxyProtocol, Reading};
use super::room::ConnectionRoom;
use super::secured::{EstablishedTls, ServerTlsOptions};
use super::supervision::{Order, Phase, Supervisor};
use super::{Limits, Service, http2};
use crate::{WorkerHandle, Workers};

/// Pause of accepting after the system could not return a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Interval between a new connection's checks of whether the connections that make room for it have closed, and limit
/// of that wait. They close as soon as their workers run, which may take a while on busy cores.
const ROOM_PAUSE: Duration = Duration::from_millis(1);
const ROOM_WAIT_MAX: Duration = Duration::from_millis(500);

/// State shared by the handle, the accept loop and the connections.
#[derive(Debug)]
pub(super) struct AcceptState {
    room: Arc<ConnectionRoom>,
    failed: AtomicUsize,
}

impl AcceptState {
    /// With TLS, handshakes have a supervisor of their own, after the supervisors of the workers.
    pub(super) fn new(limits: &Limits, workers: &Workers, secured: Option<&ServerTlsOptions>) -> Self {
        let handles: Vec<_> = workers.iter().chain(secured.map(|secured| &secured.worker)).collect();
        let supervisors: Vec<_> = handles.iter().map(|_| Arc::new(Supervisor::new(limits))).collect();
        for (worker, supervisor) in handles.iter().zip(&supervisors) {
            worker.spawn(supervisor.clone().run());
        }
        Self { room: Arc::new(ConnectionRoom::new(limits, supervisors)), failed: AtomicUsize::new(0) }
    }

    pub(super) fn connections(&self) -> usize {
        self.room.open().count()
    }

    pub(super) async fn all_closed(&self) {
        self.room.open().all_closed().await;
    }

    pub(super) fn refused(&self) -> usize {
        self.room.refused()
    }

    pub(super) fn made_way(&self) -> usize {
        self.room.made_way()
    }

    pub(super) fn over_share(&self) -> usize {
        self.room.over_share()
    }

    pub(super) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn recheck(&self, trusts: impl Fn(&Peer) -> bool) -> usize {
        let mut known: HashMap<Vec<u8>, bool> = HashMap::new();
        let mut judge = |peer: &Peer| {
            if let Some(trusted) = known.get(peer.certificate()) {
                return *trusted;
            }
            let trusted = trusts(peer);
            known.insert(peer.certificate().to_vec(), trusted);
            trusted
        };
        self.room.supervisors().iter().map(|supervisor| supervisor.finish_untrusted(&mut judge)).sum()
    }

    pub(super) fn finish_all(&self) {
        for supervisor in self.room.supervisors() {
            supervisor.finish_all();
        }
    }
}

pub(super) struct Accept<S> {
    open_max: usize,
    bounds: Bounds,
    workers: Vec<WorkerHandle>,
    /// Number of connections so far.
    number: usize,
    service: Arc<S>,
    shared: Arc<AcceptState>,
    stopped: watch::Receiver<bool>,
    failures: Failures,
    secured: Option<ServerTlsOptions>,
}

impl<S: Service> Accept<S> {
    pub(super) fn new(
        limits: &Limits,
        workers: Vec<WorkerHandle>,
        service: Arc<S>,
        shared: Arc<AcceptState>,
        stopped: watch::Receiver<bool>,
        secured: Option<ServerTlsOptions>,
    ) -> Self {
        let failures = Failures::default();
        let (open_max, bounds) = (limits.open_max(), Bounds::of(limits));
        Self { open_max, bounds, workers, number: 0, service, shared, stopped, failures, secured }
    }

    pub(super) async fn run(mut self, listener: StdListener, balancers: Option<ProxyProtocol>) {
        let (reading, mut arrivals) = balancers.map(Reading::new).unzip();
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the listening socket cannot be polled"),
        };
        let mut stopped = self.stopped.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = told_to_stop(&mut stopped) => return,
                Some((stream, address)) = next_of(arrivals.as_mut()) => {
                    self.take(stream, address).await;
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            // Back to a plain socket, because the runtime of the worker that serves it must poll it.
            let accepted = match (accepted, &reading) {
                (Ok((stream, peer)), Some(reading)) => {
                    reading.begin(stream, peer.ip());
                    continue;
                }
                (accepted, _) => accepted,
            };
            match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer.ip()))) {
                Ok((stream, peer)) => self.take(stream, origin_of(peer)).await,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.shared.failed.fetch_add(1, Ordering::Relaxed);
                    if let Some(times) = self.failures.note(Instant::now()) {
                        tracing::warn!(%error, times, "cannot accept connections; retrying");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn take(&mut self, stream: StdStream, address: IpAddr) {
        wait_while(|| self.shared.room.is_crowded()).await;
        self.hand_over(stream, address);
    }

    fn hand_over(&mut self, stream: StdStream, address: IpAddr) {
        let over_cap = !self.shared.room.is_there_for(address);
        if over_cap {
            self.shared.room.refuse();
            if self.shared.connections() >= self.open_max {
                return;
            }
        }
        // Without it, small answers would wait for the peer's acknowledgement of earlier ones. If it fails, the
        // connection is already closed.
        let _ = stream.set_nodelay(true);
        let worker = self.number % self.workers.len();
        self.number = self.number.wrapping_add(1);
        if let Some(secured) = &self.secured {
            // A rejection would cost a handshake.
            if !over_cap && self.shared.room.is_there_for_handshake(address, secured.handshakes_max) {
                self.secure(stream, address, worker, secured.clone());
            }
            return;
        }
        let (open, seat) = self.shared.room.take(address);
        let guard = self.shared.room.supervisors()[worker].watch(self.number, Some(seat), None);
        let (service, bounds) = (self.service.clone(), self.bounds.clone());
        let (turns, room) = (self.shared.room.turns(worker), Some(Arc::clone(&self.shared.room)));
        let accepted = Accepted { service, over_cap, address: Some(address), room, guard, bounds, turns };
        self.workers[worker].spawn(async move {
            let _open = open;
            match TcpStream::from_std(stream) {
                Ok(stream) => connection::serve(stream, accepted).await,
                Err(error) => tracing::warn!(%error, "an accepted connection cannot be polled"),
            }
        });
    }
}

impl<S: Service> Accept<S> {
    /// Performs the handshake on its own thread, then passes the connection to the worker that serves it.
    fn secure(&self, stream: StdStream, address: IpAddr, worker: usize, secured: ServerTlsOptions) {
        let (open, seat) = self.shared.room.take(address);
        let (number, shared) = (self.number, self.shared.clone());
        let (worker, to) = (self.workers[worker].clone(), worker);
        let (service, bounds) = (self.service.clone(), self.bounds.clone());
        let guard = shared.room.handshakes().watch(number, Some(seat), None);
        guard.0.enter(Phase::Head);
        let handshaking = shared.room.take_handshake();
        secured.worker.clone().spawn(async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let mut handshake = pin!(secured.establish(stream, address));
            let established = poll_fn(|context| match guard.0.order(context) {
                Order::Serve => handshake.as_mut().poll(context),
                Order::Yield | Order::Finish | Order::Distrust | Order::Abort => {
                    secured.made_way(address);
                    Poll::Ready(None)
                }
            });
            let Some(EstablishedTls { mut stream, peer, is_http2 }) = established.await else { return };
            drop(handshaking);
            // The seat moves along: the connection is still unidentified.
            let Some(seat) = guard.0.take_seat() else { return };
            let guard = shared.room.supervisors()[to].watch(number, Some(seat), peer);
            let turns = shared.room.turns(to);
            worker.spawn(async move {
                let _open = open;
                match stream.get_mut().0.attach() {
                    Ok(()) => {
                        let (address, room) = (Some(address), Some(Arc::clone(&shared.room)));
                        let over_cap = false;
                        let accepted = Accepted { service, over_cap, address, room, guard, bounds, turns };
                        match is_http2 {
                            true => http2::serve(stream, accepted).await,
                            false => connection::serve(stream, accepted).await,
                        }
                    }
                    Err(error) => tracing::warn!(%error, "an accepted connection cannot be polled"),
                }
            });
        });
    }
}

/// The next connection whose PROXY header has been read; without load balancers there is none.
async fn next_of(arrivals: Option<&mut mpsc::Receiver<ArrivedConnection>>) -> Option<ArrivedConnection> {
    match arrivals {
        Some(arrivals) => arrivals.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits while connections that must close have not closed. They do so when their workers run, and new connections must
/// not overtake that.
async fn wait_while(is_crowded: impl Fn() -> bool) {
    let until = Instant::now() + ROOM_WAIT_MAX;
    while is_crowded() && Instant::now() < until {
        tokio::time::sleep(ROOM_PAUSE).await;
    }
}

/// Whether an error concerns the connection being accepted, and not the listener.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        // The server's handle was dropped: the server runs until the workers stop.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn new_connection_waits_for_a_place_for_a_limited_time() {
        for (crowded_ms, waited_ms) in [(0, 0), (1, 1), (400, 400), (3_600_000, 500)] {
            let start = Instant::now();
            let ends = start + Duration::from_millis(crowded_ms);
            wait_while(|| Instant::now() < ends).await;
            assert_eq!(start.elapsed(), Duration::from_millis(waited_ms), "crowded for {crowded_ms} ms");
        }
    }
}

//! Connections that load balancers pass on: their first bytes tell from where they come.

use std::io;
use std::net::{IpAddr, TcpStream as StdStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use super::accept::Failures;
use super::addresses::origin_of;
use super::proxy_header::{HEADER_BYTES_MAX, NotAProxyHeader, ProxyHeader};
use crate::guard::Network;

/// Connections whose header is awaited at a time; still more are closed.
pub const PROXY_HEADERS_MAX: usize = 256;

/// The balancers that stand before a server, each of whose connections begins with a header of the PROXY protocol.
#[derive(Clone, Debug)]
pub struct ProxyProtocol {
    /// From where they call. Connections from elsewhere are closed.
    pub from: Vec<Network>,
    /// Time for the header.
    pub header_timeout: Duration,
    /// What became of connections that are closed.
    pub counts: Arc<ProxyCounts>,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProxyRefusal {
    /// It comes from no balancer that is listed.
    Unlisted,
    /// It does not begin with a header, or that cannot be read.
    Malformed,
    /// The header did not come in time.
    Late,
    /// It was closed before its header was whole.
    Closed,
    /// Too many others were waiting for theirs.
    Crowded,
}

impl ProxyRefusal {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Unlisted, Self::Malformed, Self::Late, Self::Closed, Self::Crowded];

    /// As a label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unlisted => "unlisted",
            Self::Malformed => "malformed",
            Self::Late => "late",
            Self::Closed => "closed",
            Self::Crowded => "crowded",
        }
    }
}

/// Counts of closed connections by reason, and the log of them.
#[derive(Debug, Default)]
pub struct ProxyCounts {
    counts: [AtomicU64; ProxyRefusal::ALL.len()],
    failures: Mutex<Failures>,
}

impl ProxyCounts {
    /// Connections that were closed for this since the start.
    pub fn of(&self, refusal: ProxyRefusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    fn count(&self, refusal: ProxyRefusal, reason: &dyn std::fmt::Display, peer: IpAddr) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = failures.note(Instant::now()) {
            let refusal = refusal.name();
            tracing::warn!(
                refusal, %reason, %peer, times,
                "connections without the header of a listed balancer were closed; this is the last of them"
            );
        }
    }
}

/// A connection and the address that it comes from.
pub(super) type Arrived = (StdStream, IpAddr);

/// Reads the headers of connections.
pub(super) struct Reading {
    protocol: Arc<ProxyProtocol>,
    places: Arc<Semaphore>,
    arrived: mpsc::Sender<Arrived>,
}

impl Reading {
    /// With the connections whose headers have been read.
    pub(super) fn new(protocol: ProxyProtocol) -> (Self, mpsc::Receiver<Arrived>) {
        let (arrived, arrivals) = mpsc::channel(PROXY_HEADERS_MAX);
        let places = Arc::new(Semaphore::new(PROXY_HEADERS_MAX));
        (Self { protocol: Arc::new(protocol), places, arrived }, arrivals)
    }

    /// Reads the header of a connection that has been accepted, beside the others.
    pub(super) fn begin(&self, stream: TcpStream, peer: IpAddr) {
        let peer = peer.to_canonical();
        if !self.protocol.from.iter().any(|network| network.contains(peer)) {
            return self.protocol.counts.count(ProxyRefusal::Unlisted, &"it is not listed", peer);
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return self.protocol.counts.count(ProxyRefusal::Crowded, &"many others wait", peer);
        };
        tokio::spawn(finish(stream, peer, Arc::clone(&self.protocol), self.arrived.clone(), place));
    }
}

async fn finish(
    mut stream: TcpStream,
    peer: IpAddr,
    protocol: Arc<ProxyProtocol>,
    arrived: mpsc::Sender<Arrived>,
    _place: OwnedSemaphorePermit,
) {
    let read = timeout(protocol.header_timeout, source(&mut stream)).await;
    let (refusal, reason): (_, Box<dyn std::fmt::Display + Send>) = match read {
        Ok(Ok(source)) => {
            // A balancer's own connection, as of its health checks, is from the balancer.
            let address = origin_of(source.unwrap_or(peer));
            if let Ok(stream) = stream.into_std() {
                // The server has stopped otherwise.
                let _ = arrived.send((stream, address)).await;
            }
            return;
        }
        Ok(Err(Unread::Malformed(error))) => (ProxyRefusal::Malformed, Box::new(error)),
        Ok(Err(Unread::Closed(error))) => (ProxyRefusal::Closed, Box::new(error)),
        Err(_) => (ProxyRefusal::Late, Box::new("its header did not come in time")),
    };
    protocol.counts.count(refusal, &reason, peer);
}

enum Unread {
    Malformed(NotAProxyHeader),
    Closed(io::Error),
}

/// Reads a header and not a byte more.
async fn source(stream: &mut TcpStream) -> Result<Option<IpAddr>, Unread> {
    let mut header = [0; HEADER_BYTES_MAX];
    let mut length = 0;
    loop {
        match ProxyHeader::read(&header[..length]).map_err(Unread::Malformed)? {
            ProxyHeader::Whole(source) => return Ok(source),
            ProxyHeader::Needs(bytes) => {
                let next = &mut header[length..length + bytes];
                stream.read_exact(next).await.map_err(Unread::Closed)?;
                length += bytes;
            }
        }
    }
}

//! Connections through load balancers: their first bytes contain the client's address.

mod header;

use std::io;
use std::net::{IpAddr, TcpStream as StdStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

pub use self::header::{HEADER_BYTES_MAX, NotAProxyHeader, ProxyHeader};
use super::failures::Failures;
use super::holders::origin_of;
use crate::guard::Network;

/// Maximum number of connections whose header is awaited; further ones are closed.
pub const PROXY_HEADERS_MAX: usize = 256;

/// The load balancers in front of a server. Each of their connections begins with a header of the PROXY protocol.
#[derive(Clone, Debug)]
pub struct ProxyProtocol {
    /// Networks of the load balancers. Connections from other addresses are closed.
    pub from: Vec<Network>,
    /// Time limit of the header.
    pub header_timeout: Duration,
    /// Counts of the connections that were closed.
    pub counts: Arc<ProxyCounts>,
}

/// Reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProxyRefusal {
    /// The connection does not come from a listed load balancer.
    Unlisted,
    /// The connection does not begin with a valid header.
    Malformed,
    /// The header did not arrive in time.
    Late,
    /// The connection was closed before its header was complete.
    Closed,
    /// Too many other connections were waiting for their headers.
    Crowded,
}

impl ProxyRefusal {
    pub const ALL: [Self; 5] = [Self::Unlisted, Self::Malformed, Self::Late, Self::Closed, Self::Crowded];

    /// The reason as a label of a metric.
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

/// Counts and logs closed connections by reason.
#[derive(Debug, Default)]
pub struct ProxyCounts {
    counts: [AtomicU64; ProxyRefusal::ALL.len()],
    failures: Mutex<Failures>,
}

impl ProxyCounts {
    /// Number of connections closed for this reason since the start.
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
                "closed connections without a PROXY header of a listed load balancer; only the last one is shown"
            );
        }
    }
}

/// A connection and the address of its client.
pub(super) type ArrivedConnection = (StdStream, IpAddr);

/// Reads the headers of connections.
pub(super) struct Reading {
    protocol: Arc<ProxyProtocol>,
    places: Arc<Semaphore>,
    arrived: mpsc::Sender<ArrivedConnection>,
}

impl Reading {
    /// Also returns the channel of the connections whose headers have been read.
    pub(super) fn new(protocol: ProxyProtocol) -> (Self, mpsc::Receiver<ArrivedConnection>) {
        let (arrived, arrivals) = mpsc::channel(PROXY_HEADERS_MAX);
        let places = Arc::new(Semaphore::new(PROXY_HEADERS_MAX));
        (Self { protocol: Arc::new(protocol), places, arrived }, arrivals)
    }

    /// Reads the header of an accepted connection, in parallel to others.
    pub(super) fn begin(&self, stream: TcpStream, peer: IpAddr) {
        let peer = peer.to_canonical();
        if !self.protocol.from.iter().any(|network| network.contains(peer)) {
            return self.protocol.counts.count(
                ProxyRefusal::Unlisted,
                &"the address is not in fspiop.proxy_protocol_from",
                peer,
            );
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return self.protocol.counts.count(
                ProxyRefusal::Crowded,
                &"too many connections wait for their header",
                peer,
            );
        };
        tokio::spawn(finish(stream, peer, Arc::clone(&self.protocol), self.arrived.clone(), place));
    }
}

async fn finish(
    mut stream: TcpStream,
    peer: IpAddr,
    protocol: Arc<ProxyProtocol>,
    arrived: mpsc::Sender<ArrivedConnection>,
    _place: OwnedSemaphorePermit,
) {
    let read = timeout(protocol.header_timeout, source(&mut stream)).await;
    let (refusal, reason): (_, Box<dyn std::fmt::Display + Send>) = match read {
        Ok(Ok(source)) => {
            // A load balancer's own connection, for example for a health check, has the load balancer's address.
            let address = origin_of(source.unwrap_or(peer));
            if let Ok(stream) = stream.into_std() {
                // If this fails, the server has stopped.
                let _ = arrived.send((stream, address)).await;
            }
            return;
        }
        Ok(Err(ProxyHeaderError::Malformed(error))) => (ProxyRefusal::Malformed, Box::new(error)),
        Ok(Err(ProxyHeaderError::Closed(error))) => (ProxyRefusal::Closed, Box::new(error)),
        Err(_) => (ProxyRefusal::Late, Box::new("its header did not arrive in time")),
    };
    protocol.counts.count(refusal, &reason, peer);
}

enum ProxyHeaderError {
    Malformed(NotAProxyHeader),
    Closed(io::Error),
}

/// Reads a header and no byte more.
async fn source(stream: &mut TcpStream) -> Result<Option<IpAddr>, ProxyHeaderError> {
    let mut header = [0; HEADER_BYTES_MAX];
    let mut length = 0;
    loop {
        match ProxyHeader::read(&header[..length]).map_err(ProxyHeaderError::Malformed)? {
            ProxyHeader::Whole(source) => return Ok(source),
            ProxyHeader::Needs(bytes) => {
                let next = &mut header[length..length + bytes];
                stream.read_exact(next).await.map_err(ProxyHeaderError::Closed)?;
                length += bytes;
            }
        }
    }
}

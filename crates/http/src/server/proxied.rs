//! Connections through load balancers: their first bytes contain the client's address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream as StdStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

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
    /// It does not come from a listed load balancer.
    Unlisted,
    /// It does not begin with a valid header.
    Malformed,
    /// The header did not arrive in time.
    Late,
    /// It was closed before its header was complete.
    Closed,
    /// Too many other connections were waiting for their headers.
    Crowded,
}

impl ProxyRefusal {
    /// All reasons.
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
pub(super) type Arrived = (StdStream, IpAddr);

/// Reads the headers of connections.
pub(super) struct Reading {
    protocol: Arc<ProxyProtocol>,
    places: Arc<Semaphore>,
    arrived: mpsc::Sender<Arrived>,
}

impl Reading {
    /// Also returns the channel of the connections whose headers have been read.
    pub(super) fn new(protocol: ProxyProtocol) -> (Self, mpsc::Receiver<Arrived>) {
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
    arrived: mpsc::Sender<Arrived>,
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
        Ok(Err(Unread::Malformed(error))) => (ProxyRefusal::Malformed, Box::new(error)),
        Ok(Err(Unread::Closed(error))) => (ProxyRefusal::Closed, Box::new(error)),
        Err(_) => (ProxyRefusal::Late, Box::new("its header did not arrive in time")),
    };
    protocol.counts.count(refusal, &reason, peer);
}

enum Unread {
    Malformed(NotAProxyHeader),
    Closed(io::Error),
}

/// Reads a header and no byte more.
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

// The header of the PROXY protocol, versions 1 and 2, in which a load balancer states a client's address.
//
// Rules: `proxy-protocol.txt` of HAProxy, §2. If the text allows alternatives, this parser is strict, since it reads
// only listed load balancers.

/// Minimum length of every header: `PROXY UNKNOWN` and its line end.
const BYTES_MIN: usize = 15;
/// Longest header of version 1, including its line end (§2.1).
const V1_BYTES_MAX: usize = 107;
/// First bytes of version 2.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Fixed part of version 2.
const V2_FIXED_BYTES: usize = 16;
/// Longest header of version 2. Addresses need 216 bytes at most, which leaves space for further fields (TLV).
pub const HEADER_BYTES_MAX: usize = 2_048;

/// Result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The beginning of a header, which has at least this many bytes more.
    Needs(usize),
    /// Exactly one complete header, with the client's address. `None` if the connection is the load balancer's own, or
    /// of a kind without such an address.
    Whole(Option<IpAddr>),
}

/// The bytes do not begin a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection does not begin with a header of the PROXY protocol: {0}")]
pub struct NotAProxyHeader(&'static str);

impl ProxyHeader {
    /// Parses the first bytes of a connection. A caller that reads only the bytes needed never reads beyond the header.
    pub fn read(bytes: &[u8]) -> Result<Self, NotAProxyHeader> {
        if bytes.len() < BYTES_MIN {
            return Ok(Self::Needs(BYTES_MIN - bytes.len()));
        }
        if bytes.starts_with(V2_SIGNATURE) {
            return version_2(bytes);
        }
        let line = bytes.strip_prefix(b"PROXY ").ok_or(NotAProxyHeader("it begins differently"))?;
        match line.iter().position(|byte| *byte == b'\n') {
            Some(end) if end + 1 < line.len() => Err(NotAProxyHeader("there is more data after it")),
            Some(end) if bytes.len() <= V1_BYTES_MAX => {
                let text =
                    line[..end].strip_suffix(b"\r").ok_or(NotAProxyHeader("its line ends in LF alone"))?;
                version_1(text).map(Self::Whole)
            }
            None if bytes.len() < V1_BYTES_MAX => {
                let ends = usize::from(line.last() != Some(&b'\r'));
                Ok(Self::Needs((1 + ends).min(V1_BYTES_MAX - bytes.len())))
            }
            _ => Err(NotAProxyHeader("its line is too long")),
        }
    }
}

/// `TCP4 SOURCE DESTINATION PORT PORT`, with single blanks; after `UNKNOWN` any text.
fn version_1(line: &[u8]) -> Result<Option<IpAddr>, NotAProxyHeader> {
    if line.strip_prefix(b"UNKNOWN").is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b' ')) {
        return Ok(None);
    }
    let malformed = NotAProxyHeader("its line is malformed");
    let text = str::from_utf8(line).map_err(|_| malformed)?;
    let parts: Vec<_> = text.split(' ').collect();
    let [family, source, destination, ports @ ..] = &*parts else { return Err(malformed) };
    let address = |text: &str| match *family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    };
    let is_sound =
        ports.len() == 2 && ports.iter().all(|port| is_port(port)) && address(destination).is_some();
    match address(source) {
        Some(source) if is_sound => Ok(Some(source)),
        _ => Err(malformed),
    }
}

fn is_port(text: &str) -> bool {
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    is_plain && text.parse::<u16>().is_ok()
}

fn version_2(bytes: &[u8]) -> Result<ProxyHeader, NotAProxyHeader> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<V2_FIXED_BYTES>() else {
        return Ok(ProxyHeader::Needs(V2_FIXED_BYTES - bytes.len()));
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if V2_FIXED_BYTES + length > HEADER_BYTES_MAX {
        return Err(NotAProxyHeader("it is too long"));
    }
    // The last four bits are the command: the load balancer's own connection, or a forwarded one.
    let is_passed_on = match version_and_command {
        0x20 => false,
        0x21 => true,
        _ => return Err(NotAProxyHeader("its version or command is unknown")),
    };
    // Length of both addresses and ports, and of the source within them.
    let (addresses, source) = match family {
        // Unspecified, and local sockets, which have no network address.
        0x00 => (0, 0),
        0x31 => (216, 0),
        0x11 => (12, 4),
        0x21 => (36, 16),
        _ => return Err(NotAProxyHeader("its address family is not supported")),
    };
    if is_passed_on && length < addresses {
        return Err(NotAProxyHeader("its addresses are truncated"));
    }
    match rest.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(ProxyHeader::Needs(length - rest.len())),
        std::cmp::Ordering::Greater => Err(NotAProxyHeader("there is more data after it")),
        std::cmp::Ordering::Equal if !is_passed_on => Ok(ProxyHeader::Whole(None)),
        std::cmp::Ordering::Equal => Ok(ProxyHeader::Whole(address_of(&rest[..source]))),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(v6)
}

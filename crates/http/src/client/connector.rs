//! Opens connections. Only this module knows the transports, and it counts the bytes that a peer sends before its
//! answer.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upesi_tls::{ClientTls, HTTP_2};

use super::dial::dial;
use super::interim::Interim;
use super::names::{Found, Names};
use crate::frames::{Frames, Noted};
use crate::{Guard, Origin};

/// An open connection.
#[derive(Debug)]
pub(super) struct Stream {
    transport: Transport,
    follower: Follower,
}

/// Checks the bytes that the peer sends.
#[derive(Debug)]
enum Follower {
    Http1(Interim),
    Http2(Frames, Arc<Noted>),
}

impl Follower {
    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Http1(interim) => interim.read(bytes),
            Self::Http2(frames, noted) => frames.follow(bytes, noted),
        }
    }

    const fn begin_write(&mut self) {
        if let Self::Http1(interim) = self {
            interim.request_begins();
        }
    }

    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        if let (Self::Http2(frames, _), Poll::Ready(Ok(bytes))) = (self, written) {
            frames.wrote(*bytes);
        }
    }
}

impl Stream {
    /// Whether both sides have agreed on HTTP/2.
    pub(super) const fn is_http2(&self) -> bool {
        matches!(self.follower, Follower::Http2(..))
    }

    /// Observations of the connection, used with HTTP/2 only.
    pub(super) fn noted(&self) -> Arc<Noted> {
        match &self.follower {
            Follower::Http1(_) => Arc::default(),
            Follower::Http2(_, noted) => Arc::clone(noted),
        }
    }
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
    Given(Box<dyn Given>),
}

/// A stream that was passed in instead of being connected here.
pub(super) trait Given: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> Given for T {}

/// A passed-in stream as an HTTP/2 connection.
pub(super) fn given(stream: Box<dyn Given>) -> Stream {
    let follower = Follower::Http2(Frames::of_server(), Arc::default());
    Stream { transport: Transport::Given(stream), follower }
}

/// Opens a connection to a destination that the guard allows. It uses TLS if the origin requires it; the server's
/// certificate must name the origin's host.
pub(super) async fn connect(
    origin: &Origin,
    outbound: &Outbound,
    tls: Option<&ClientTls>,
) -> io::Result<Stream> {
    let stream = outbound.connect(origin.host(), origin.port()).await?;
    stream.set_nodelay(true)?;
    let mut follower = Follower::Http1(Interim::new());
    let transport = match (origin.is_secure(), tls) {
        (false, _) => Transport::Plain(stream),
        (true, Some(tls)) => {
            let name = ServerName::try_from(origin.host().to_owned())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let config = tls.config().map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
            let connected = TlsConnector::from(config).connect(name, stream).await?;
            if connected.get_ref().1.alpn_protocol() == Some(HTTP_2) {
                follower = Follower::Http2(Frames::of_server(), Arc::default());
            }
            Transport::Secure(Box::new(connected))
        }
        (true, None) => return Err(io::Error::new(io::ErrorKind::Unsupported, NoTls)),
    };
    Ok(Stream { transport, follower })
}

/// There are no trust anchors for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trust anchors are set for https://")]
pub(super) struct NoTls;

/// Hands a call to the transport.
macro_rules! of_transport {
    ($stream:expr, $call:ident($($argument:expr),*)) => {
        match &mut $stream.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream).$call($($argument),*),
            Transport::Secure(stream) => Pin::new(&mut **stream).$call($($argument),*),
            Transport::Given(stream) => Pin::new(&mut **stream).$call($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(of_transport!(self.as_mut(), poll_read(context, into)))?;
        Poll::Ready(self.follower.read(&into.filled()[before..]))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.follower.begin_write();
        let written = of_transport!(self.as_mut(), poll_write(context, from));
        self.follower.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.follower.begin_write();
        let written = of_transport!(self.as_mut(), poll_write_vectored(context, from));
        self.follower.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Secure(stream) => stream.is_write_vectored(),
            Transport::Given(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_transport!(self, poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_transport!(self, poll_shutdown(context))
    }
}

// Coordinates the opening of connections to a peer that may speak HTTP/2: one request at a time, since others could
// share its connection.

/// The known protocol of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Spoken {
    Unknown,
    /// HTTP/1.1, which needs a connection for each concurrent request.
    Http1,
    Http2,
}

/// State of one pool.
#[derive(Debug)]
pub(super) struct Opening {
    spoken: AtomicU8,
    is_opening: AtomicBool,
    has_failed: AtomicBool,
    ended: Notify,
}

/// Instruction for a request without a connection.
pub(super) enum Turn<'a> {
    /// Open a connection.
    Opens(Opens<'a>),
    /// Check again: another request has opened one.
    Opened,
    /// Open a connection in parallel: another request tried to, and failed.
    Failed,
    /// The deadline has passed.
    Late,
}

impl Opening {
    /// `may_share`: whether the peer may speak HTTP/2.
    pub(super) const fn new(may_share: bool) -> Self {
        let spoken = if may_share { Spoken::Unknown } else { Spoken::Http1 };
        Self {
            spoken: AtomicU8::new(spoken as u8),
            is_opening: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            ended: Notify::const_new(),
        }
    }

    /// Whether a connection may be shared.
    pub(super) fn may_share(&self) -> bool {
        self.spoken.load(Ordering::Relaxed) != Spoken::Http1 as u8
    }

    /// Records the protocol of the peer.
    pub(super) fn note(&self, is_http2: bool) {
        let spoken = if is_http2 { Spoken::Http2 } else { Spoken::Http1 };
        self.spoken.store(spoken as u8, Ordering::Relaxed);
    }

    /// Takes the turn, or waits for the end of another request's turn.
    pub(super) async fn turn(&self, deadline: Instant) -> Turn<'_> {
        // Before the check, so that an end right after it is noticed.
        let mut ended = pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_opening.swap(true, Ordering::AcqRel) {
            return Turn::Opens(Opens { opening: self, has_failed: true });
        }
        match timeout_at(deadline, ended).await {
            Err(_) => Turn::Late,
            Ok(()) if self.has_failed.load(Ordering::Acquire) => Turn::Failed,
            Ok(()) => Turn::Opened,
        }
    }
}

/// The turn of one request. Dropped without an outcome, it has failed.
pub(super) struct Opens<'a> {
    opening: &'a Opening,
    has_failed: bool,
}

impl Opens<'_> {
    /// Ends the turn. `is_open`: whether a connection was opened.
    pub(super) fn end(mut self, is_open: bool) {
        self.has_failed = !is_open;
    }
}

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.opening.has_failed.store(self.has_failed, Ordering::Release);
        self.opening.is_opening.store(false, Ordering::Release);
        self.opening.ended.notify_waiters();
    }
}

// A limit on the connections of all pools together, and on their destinations.

/// Number of connections below which a pool may use the part that is reserved for pools with few.
const FEW: usize = 4;

/// A limit that many pools share, so that outbound connections leave descriptors to the rest of the process.
///
/// A quarter is reserved for pools with fewer than four connections, because peers that do not answer occupy many
/// connections. The default has no limit and permits all destinations.
///
/// The pools also share resolved addresses: results are cached for a while, and each peer may have few lookups at the
/// same time.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    parts: Option<Arc<Parts>>,
    guard: Guard,
    names: Names,
    /// `None`: each host counts as a peer of its own.
    peer: Option<Arc<str>>,
}

#[derive(Debug)]
struct Parts {
    connections_max: usize,
    common: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// Permit for one connection.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>);

impl Outbound {
    /// At most `connections_max` connections at the same time; at least two.
    pub fn bounded(connections_max: usize) -> Self {
        let connections_max = connections_max.clamp(2, Semaphore::MAX_PERMITS);
        let kept = (connections_max / 4).max(1);
        let parts = Parts {
            connections_max,
            common: Arc::new(Semaphore::new(connections_max - kept)),
            kept: Arc::new(Semaphore::new(kept)),
        };
        Self { parts: Some(Arc::new(parts)), ..Self::default() }
    }

    /// The same limit for one peer, which has its own share of name lookups.
    #[must_use]
    pub fn of(&self, peer: &str) -> Self {
        Self { peer: Some(peer.into()), ..self.clone() }
    }

    /// The same limit, with the destinations that the guard allows.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// The permitted destinations.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Connects to a host if the guard allows all of its addresses.
    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        self.guard.check_port(port)?;
        let found = self.addresses_of(host).await?;
        let mut dialled = dial(&found.addresses, port).await;
        if dialled.is_err() && found.is_kept {
            // The host may have new addresses by now.
            self.names.forget(host);
            let found = self.addresses_of(host).await?;
            dialled = dial(&found.addresses, port).await;
        }
        let stream = dialled?;
        self.guard.check_own(&stream)?;
        Ok(stream)
    }

    async fn addresses_of(&self, host: &str) -> io::Result<Found> {
        let peer = self.peer.as_deref().unwrap_or(host);
        let found = self.names.of(host, peer, self.guard.names()).await?;
        self.guard.check_addresses(&found.addresses)?;
        Ok(found)
    }

    /// Number of connections that are open or being opened; `None` without a limit.
    pub fn open(&self) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        Some(parts.connections_max - parts.common.available_permits() - parts.kept.available_permits())
    }

    /// Whether connections are so scarce that none should be kept idle.
    pub(super) fn is_short(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.common.available_permits() == 0)
    }

    /// Waits for a permit of one more connection, for a pool with `open_of_pool` connections.
    pub(super) async fn place(&self, open_of_pool: usize) -> Place {
        let Some(parts) = &self.parts else { return Place(None) };
        if let Ok(permit) = Arc::clone(&parts.common).try_acquire_owned() {
            return Place(Some(permit));
        }
        let part = if open_of_pool < FEW { &parts.kept } else { &parts.common };
        // The semaphores are never closed.
        Place(Arc::clone(part).acquire_owned().await.ok())
    }
}

impl PartialEq for Outbound {
    /// Whether both share the same limit and guard.
    fn eq(&self, other: &Self) -> bool {
        let is_same_bound = match (&self.parts, &other.parts) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_bound && self.guard == other.guard
    }
}

impl Eq for Outbound {}

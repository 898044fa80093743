//! Opening connections: the one place that knows which transport carries them, and that keeps count of what a peer
//! sends before it answers.

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

/// What keeps count of what the peer sends.
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

    /// What is noted of the connection; of use with HTTP/2 only.
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

/// What nobody connected.
pub(super) trait Given: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> Given for T {}

/// What is given, as a connection of HTTP/2.
pub(super) fn given(stream: Box<dyn Given>) -> Stream {
    let follower = Follower::Http2(Frames::of_server(), Arc::default());
    Stream { transport: Transport::Given(stream), follower }
}

/// Opens a connection to where the guard allows, with TLS if the origin wants it: the server's certificate must name
/// the origin's host.
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

/// Nothing says whom to trust.
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

// Who opens a connection to a peer that may speak HTTP/2: one request at a time, since others could share it.

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Spoken {
    Unknown,
    /// HTTP/1.1, which needs a connection for each request at a time.
    Http1,
    Http2,
}

/// The state of one pool.
#[derive(Debug)]
pub(super) struct Opening {
    spoken: AtomicU8,
    is_opening: AtomicBool,
    has_failed: AtomicBool,
    ended: Notify,
}

/// What a request without a connection does.
pub(super) enum Turn<'a> {
    /// Opens one.
    Opens(Opens<'a>),
    /// Looks again: another request has opened one.
    Opened,
    /// Opens one beside others: another request tried to, and could not.
    Failed,
    /// Its deadline has come.
    Late,
}

impl Opening {
    /// Of a peer that may speak HTTP/2, or surely does not.
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

    /// Notes what the peer speaks.
    pub(super) fn note(&self, is_http2: bool) {
        let spoken = if is_http2 { Spoken::Http2 } else { Spoken::Http1 };
        self.spoken.store(spoken as u8, Ordering::Relaxed);
    }

    /// Takes the turn, or waits for the end of that of another.
    pub(super) async fn turn(&self, deadline: Instant) -> Turn<'_> {
        // Before the look, so that an end right after it is heard of.
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

/// The turn of one request; given up without an outcome, it has failed.
pub(super) struct Opens<'a> {
    opening: &'a Opening,
    has_failed: bool,
}

impl Opens<'_> {
    /// Notes whether a connection was opened.
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

// A bound on the connections of all pools together, and on where they lead.

/// Connections up to which a pool may use the part that is kept for those that have few.
const FEW: usize = 4;

/// A bound that many pools share, so that connections to the outside leave descriptors to the rest of the process.
///
/// A quarter is kept for pools with fewer than four connections: peers that do not answer hold many, and must not take
/// all. The default has no bound and leads anywhere.
///
/// The pools share the addresses of names, too: answers are kept for a while, and a peer has few lookups at a time.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    parts: Option<Arc<Parts>>,
    guard: Guard,
    names: Names,
    /// `None`: each host is a peer of its own.
    peer: Option<Arc<str>>,
}

#[derive(Debug)]
struct Parts {
    connections_max: usize,
    common: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// The right to one connection.
#[derive(Debug)]
pub(super) struct Place(#[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>);

impl Outbound {
    /// So many connections at a time; at least two.
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

    /// The same towards one peer, which has its own share of lookups.
    #[must_use]
    pub fn of(&self, peer: &str) -> Self {
        Self { peer: Some(peer.into()), ..self.clone() }
    }

    /// The same, and only to where the guard allows.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// Where connections may lead.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Connects to a host, if the guard allows all of its addresses.
    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        self.guard.check_port(port)?;
        let found = self.addresses_of(host).await?;
        let mut dialled = dial(&found.addresses, port).await;
        if dialled.is_err() && found.is_kept {
            // The host may have other addresses by now.
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

    /// Connections open or being opened; `None` without a bound.
    pub fn open(&self) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        Some(parts.connections_max - parts.common.available_permits() - parts.kept.available_permits())
    }

    /// Whether connections are so short that none should be kept idle.
    pub(super) fn is_short(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.common.available_permits() == 0)
    }

    /// Waits for the right to one more connection of a pool that has so many.
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
    /// Whether both are the same bound and guard.
    fn eq(&self, other: &Self) -> bool {
        let is_same_bound = match (&self.parts, &other.parts) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same_bound && self.guard == other.guard
    }
}

impl Eq for Outbound {}

//! Opens connections. Only this module knows the transports, and it counts the bytes that a peer sends before its
//! answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upesi_tls::{ClientTls, HTTP_2};

use super::interim::Interim;
use super::outbound::Outbound;
use crate::Origin;
use crate::frames::{FrameObservations, Frames};

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
    Http2(Frames, Arc<FrameObservations>),
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
    pub(super) fn noted(&self) -> Arc<FrameObservations> {
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
    Given(Box<dyn ProvidedStream>),
}

/// A stream that was passed in instead of being connected here.
pub(super) trait ProvidedStream: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> ProvidedStream for T {}

/// A passed-in stream as an HTTP/2 connection.
pub(super) fn given(stream: Box<dyn ProvidedStream>) -> Stream {
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

/// Trust anchors for TLS are missing.
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

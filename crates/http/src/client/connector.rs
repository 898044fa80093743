//! Opening connections: the one place that knows which transport carries them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::Origin;

/// How connections are opened. TLS becomes a second variant here and in the stream; nothing else needs to know.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Connector {
    /// TCP without encryption.
    #[default]
    Plain,
}

/// An open transport.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
}

impl Connector {
    pub(super) async fn connect(&self, origin: &Origin) -> io::Result<Stream> {
        match self {
            Self::Plain => {
                let stream = TcpStream::connect((origin.host(), origin.port())).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Plain(stream))
            }
        }
    }
}

impl Stream {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

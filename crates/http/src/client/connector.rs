//! Opening connections: the one place that knows which transport carries them, and that keeps count of what a peer
//! sends before it answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::interim::Interim;
use crate::Origin;

/// How connections are opened. TLS becomes a second variant here and in the stream; nothing else needs to know.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Connector {
    /// TCP without encryption.
    #[default]
    Plain,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Stream {
    transport: Transport,
    interim: Interim,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
}

impl Connector {
    pub(super) async fn connect(&self, origin: &Origin) -> io::Result<Stream> {
        let transport = match self {
            Self::Plain => {
                let stream = TcpStream::connect((origin.host(), origin.port())).await?;
                stream.set_nodelay(true)?;
                Transport::Plain(stream)
            }
        };
        Ok(Stream { transport, interim: Interim::new() })
    }
}

impl Stream {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.as_mut().inner().poll_read(context, into))?;
        Poll::Ready(self.interim.read(&into.filled()[before..]))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.interim.request_begins();
        self.inner().poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.interim.request_begins();
        self.inner().poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

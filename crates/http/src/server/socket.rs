//! The socket below TLS: limited during the handshake, and able to move to another runtime afterwards.

use std::io;
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Maximum number of bytes read from a client before its handshake is complete: its certificates (64 KiB at most), the
/// rest of the handshake, and the bytes right after it.
const HANDSHAKE_BYTES_MAX: usize = 128 * 1024;

/// The client exceeded this limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handshake is longer than {HANDSHAKE_BYTES_MAX} bytes")]
struct OverBudget;

pub(super) fn is_over_budget(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OverBudget>())
}

/// A socket that belongs to a runtime, or to none.
#[derive(Debug)]
pub(super) struct Socket {
    at: SocketPlace,
    /// Number of bytes that may still be read before the handshake is complete; `None` afterwards.
    left_bytes: Option<usize>,
}

#[derive(Debug)]
enum SocketPlace {
    Runtime(TcpStream),
    Nowhere(StdStream),
    /// Moving failed; the connection is lost.
    Lost,
}

impl Socket {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { at: SocketPlace::Runtime(stream), left_bytes: Some(HANDSHAKE_BYTES_MAX) }
    }

    /// Detaches the socket from its runtime after the handshake.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        self.left_bytes = None;
        if let SocketPlace::Runtime(stream) = std::mem::replace(&mut self.at, SocketPlace::Lost) {
            self.at = SocketPlace::Nowhere(stream.into_std()?);
        }
        Ok(())
    }

    /// Attaches the socket to the current runtime.
    pub(super) fn attach(&mut self) -> io::Result<()> {
        if let SocketPlace::Nowhere(stream) = std::mem::replace(&mut self.at, SocketPlace::Lost) {
            self.at = SocketPlace::Runtime(TcpStream::from_std(stream)?);
        }
        Ok(())
    }

    pub(super) fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        match &mut self.at {
            SocketPlace::Runtime(stream) => Ok(Pin::new(stream)),
            SocketPlace::Nowhere(_) | SocketPlace::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.stream()?.poll_read(context, into))?;
        if let Some(left) = &mut self.left_bytes {
            let read = into.filled().len() - before;
            let Some(less) = left.checked_sub(read) else {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, OverBudget)));
            };
            *left = less;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn bytes_are_limited_until_the_handshake_is_complete() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(listener.accept().await.unwrap().0);
        let send = async move |bytes: usize| {
            caller.write_all(&vec![1; bytes]).await.unwrap();
            caller
        };
        let mut whole = vec![0; HANDSHAKE_BYTES_MAX];
        let (read, mut caller) = tokio::join!(socket.read_exact(&mut whole), send(HANDSHAKE_BYTES_MAX + 1));
        read.unwrap();
        let over = socket.read_u8().await.unwrap_err();
        assert!(is_over_budget(&over), "{over}");
        socket.detach().unwrap();
        assert_eq!(socket.read_u8().await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        socket.attach().unwrap();
        caller.write_all(&[2; 3]).await.unwrap();
        socket.read_exact(&mut whole[..3]).await.unwrap();
        assert_eq!(whole[..3], [2; 3]);
    }
}

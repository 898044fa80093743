//! What is under hyper, a socket but in tests: notes when a head begins, follows where requests end, and closes without
//! losing the last answer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::supervision::{Phase, Watched};

/// What is read and thrown away at most while closing.
const LINGER_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) struct Transport<T> {
    stream: T,
    watched: Arc<Watched>,
    peer_closed: bool,
    closing: Option<Closing>,
    framing: Framing,
}

struct Closing {
    lingers: bool,
    discarded_bytes: usize,
}

impl<T> Transport<T> {
    pub(super) const fn new(stream: T, watched: Arc<Watched>) -> Self {
        Self { stream, watched, peer_closed: false, closing: None, framing: Framing::new() }
    }
}

impl<T: AsyncRead + Unpin> Transport<T> {
    /// A socket that is closed while the peer still sends answers with a reset, which can overtake the answer that says
    /// why. So the sending side is closed first, and what the peer still sends is read until it closes too.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [MaybeUninit::uninit(); 4096];
        loop {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            let Some(closing) = &mut self.closing else { return Poll::Ready(Ok(())) };
            if read.is_pending() {
                return if closing.lingers { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
            let length = buffer.filled().len();
            closing.lingers = true;
            closing.discarded_bytes += length;
            if length == 0 || closing.discarded_bytes > LINGER_BYTES_MAX {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Transport<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        if into.filled().len() == before {
            self.peer_closed = into.remaining() > 0;
            return Poll::Ready(Ok(()));
        }
        if self.watched.phase() == Phase::Idle {
            self.watched.enter(Phase::Head);
        }
        self.framing.follow(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Transport<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            // Idle: the last request was complete, and only if more is already here was there another.
            let lingers = self.watched.phase() != Phase::Idle;
            self.closing = Some(Closing { lingers, discarded_bytes: 0 });
            self.watched.enter(Phase::Closing);
        }
        if self.peer_closed { Poll::Ready(Ok(())) } else { self.poll_linger(context) }
    }
}

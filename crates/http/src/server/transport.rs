//! The transport under hyper, normally a socket. It records the beginning of a head, follows the end of each request,
//! and closes without losing the last answer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::streams::Streams;
use super::supervision::{Phase, SupervisedConnection};
use crate::frames::Frames;

/// Maximum number of bytes that are read and discarded while closing.
const LINGER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that a connection reads before the others of its worker have their turn. Without this limit,
/// a body that has already arrived is read to its end at once, and small requests wait behind all such bodies.
const TURN_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Transport<T> {
    stream: T,
    watched: Arc<SupervisedConnection>,
    peer_closed: bool,
    closing: Option<Closing>,
    follower: Follower,
    /// Number of bytes read since the connection last waited.
    turn_bytes: usize,
    /// Whether written bytes wait for the peer to read.
    is_blocked: bool,
}

struct Closing {
    lingers: bool,
    discarded_bytes: usize,
}

/// Checks the bytes that are read.
enum Follower {
    Http1(Framing),
    Http2(Frames, Arc<Streams>),
}

impl<T> Transport<T> {
    /// The transport of HTTP/1.1.
    pub(super) const fn new(stream: T, watched: Arc<SupervisedConnection>) -> Self {
        Self::with(stream, watched, Follower::Http1(Framing::new()))
    }

    /// The transport of HTTP/2.
    pub(super) const fn multiplexed(
        stream: T,
        watched: Arc<SupervisedConnection>,
        streams: Arc<Streams>,
    ) -> Self {
        Self::with(stream, watched, Follower::Http2(Frames::of_client(), streams))
    }

    const fn with(stream: T, watched: Arc<SupervisedConnection>, follower: Follower) -> Self {
        Self {
            stream,
            watched,
            peer_closed: false,
            closing: None,
            follower,
            turn_bytes: 0,
            is_blocked: false,
        }
    }

    /// Checks the bytes that were read.
    fn follow(&mut self, read: &mut [u8]) -> io::Result<()> {
        match &mut self.follower {
            Follower::Http1(framing) => {
                if self.watched.phase() == Phase::Idle {
                    self.watched.enter(Phase::Head);
                }
                framing.follow(read);
            }
            Follower::Http2(frames, streams) => {
                frames.follow(read, &streams.noted)?;
                streams.head(frames.is_head_open());
            }
        }
        Ok(())
    }

    /// Records written bytes.
    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        self.note_blocked(written.is_pending());
        if let (Follower::Http2(frames, _), Poll::Ready(Ok(bytes))) = (&mut self.follower, written) {
            frames.wrote(*bytes);
            // The last answer is already being written.
            if self.watched.phase() == Phase::Closing {
                self.watched.enter(Phase::Closing);
            }
        }
    }

    /// Records whether written bytes wait for the peer.
    fn note_blocked(&mut self, is_blocked: bool) {
        if self.is_blocked == is_blocked {
            return;
        }
        self.is_blocked = is_blocked;
        let since_tick = if is_blocked { self.watched.tick() } else { 0 };
        match &self.follower {
            Follower::Http1(_) => self.watched.stalled_since(since_tick),
            Follower::Http2(_, streams) => streams.blocked_since(since_tick),
        }
    }
}

impl<T: AsyncRead + Unpin> Transport<T> {
    /// Reads from the stream, or yields its turn.
    fn poll_stream(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.turn_bytes >= TURN_BYTES_MAX {
            self.turn_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let length = into.filled().len() - before;
        self.turn_bytes = if read.is_pending() { 0 } else { self.turn_bytes + length };
        read
    }

    /// Closing a socket while the peer still sends causes a reset, which can overtake the answer with the reason. So
    /// the sending side is closed first, and the remaining bytes of the peer are read until it closes, too.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [MaybeUninit::uninit(); 16 * 1024];
        loop {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            let read = self.poll_stream(context, &mut buffer);
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
        if let Follower::Http2(_, streams) = &self.follower
            && !streams.may_read.load(Ordering::Relaxed)
        {
            // The end of the turn wakes the task.
            return Poll::Pending;
        }
        let before = into.filled().len();
        ready!(self.poll_stream(context, into))?;
        if into.filled().len() == before {
            self.peer_closed = into.remaining() > 0;
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.follow(&mut into.filled_mut()[before..]))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Transport<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, from);
        self.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, from);
        self.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.note_blocked(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            // In the idle phase the last request was complete. There is another one only if more bytes have already
            // arrived.
            let lingers = self.watched.phase() != Phase::Idle;
            self.closing = Some(Closing { lingers, discarded_bytes: 0 });
            self.turn_bytes = 0;
            self.watched.enter(Phase::Closing);
            if let Follower::Http2(_, streams) = &self.follower {
                streams.close();
            }
        }
        if self.peer_closed { Poll::Ready(Ok(())) } else { self.poll_linger(context) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use super::*;
    use crate::server::supervision::{Guard, Supervisor};

    /// A peer that always has more to send.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let length = into.initialize_unfilled().len();
            into.advance(length);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(from.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of polls of the connection until `poll` is ready. Only the connection itself wakes the task.
    fn turns(
        mut poll: impl FnMut(Pin<&mut Transport<Endless>>, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> usize {
        let Guard(watched) =
            &Arc::new(Supervisor::new(&crate::server::Limits::default())).watch(1, None, None);
        let mut transport = Transport::new(Endless, watched.clone());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        for turn in 1..10_000 {
            match poll(Pin::new(&mut transport), &mut context) {
                Poll::Ready(done) => return done.map(|()| turn).unwrap(),
                Poll::Pending => assert_eq!(wakes.0.load(Ordering::Relaxed), turn),
            }
        }
        panic!("it never ended");
    }

    #[test]
    fn buffered_body_is_read_turn_by_turn() {
        let (mut bytes, mut scratch) = (0, vec![0; 10_000]);
        let wanted = 10 * TURN_BYTES_MAX;
        let turns = turns(|mut transport, context| {
            let before = bytes;
            while bytes < wanted {
                let mut buffer = ReadBuf::new(&mut scratch);
                ready!(transport.as_mut().poll_read(context, &mut buffer))?;
                bytes += buffer.filled().len();
                assert!(bytes - before < TURN_BYTES_MAX + 10_000, "{} in one turn", bytes - before);
            }
            Poll::Ready(Ok(()))
        });
        assert!((9..=11).contains(&turns), "{turns}");
    }

    #[test]
    fn discarded_bytes_are_read_turn_by_turn() {
        let turns = turns(|mut transport, context| {
            if transport.closing.is_none() {
                transport.watched.enter(Phase::Busy);
            }
            transport.as_mut().poll_shutdown(context)
        });
        let expected = LINGER_BYTES_MAX / TURN_BYTES_MAX;
        assert!(turns.abs_diff(expected) <= 1, "{turns}");
    }
}

//! A connection and its peer on one thread, turn by turn: neither has a turn while it waits for the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Turns after which the two are taken to keep each other busy with nothing.
const TURNS_MAX: usize = 100_000;
const READ_BYTES: usize = 4096;

/// Nobody but the two can wake either, so that a turn in which nobody was woken is the last.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection that is served, and what its peer has received.
pub(in crate::targets) struct Exchange<F> {
    /// None once it has ended.
    serving: Option<Pin<Box<F>>>,
    peer: DuplexStream,
    woken: Arc<Woken>,
    waker: Waker,
    received: Vec<u8>,
}

impl<F: Future<Output = ()>> Exchange<F> {
    pub(in crate::targets) fn begin(serving: F, peer: DuplexStream) -> Self {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut exchange =
            Self { serving: Some(Box::pin(serving)), peer, woken, waker, received: Vec::new() };
        exchange.settle();
        exchange
    }

    /// Has the peer send this, and the two go on until both wait.
    pub(in crate::targets) fn send(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut context = Context::from_waker(&self.waker);
            match Pin::new(&mut self.peer).poll_write(&mut context, rest) {
                Poll::Ready(Ok(length)) => rest = &rest[length..],
                // The connection has ended.
                Poll::Ready(Err(_)) => break,
                Poll::Pending => panic!("the pipe is full of what is not read"),
            }
        }
        self.settle();
    }

    /// Gives both their turns until both wait.
    pub(in crate::targets) fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.woken.0.store(false, Ordering::Relaxed);
            let mut context = Context::from_waker(&self.waker);
            let poll = |serving: &mut Pin<Box<F>>| serving.as_mut().poll(&mut context).is_ready();
            if self.serving.as_mut().is_some_and(poll) {
                self.serving = None;
            }
            self.receive();
            if !self.woken.0.load(Ordering::Relaxed) {
                return;
            }
        }
        panic!("the connection is woken again and again, and nothing comes of it");
    }

    pub(in crate::targets) const fn has_ended(&self) -> bool {
        self.serving.is_none()
    }

    /// Has the peer end its side, after which the connection must end; gives what the peer has received.
    pub(in crate::targets) fn end(mut self) -> Vec<u8> {
        let mut context = Context::from_waker(&self.waker);
        let closed = Pin::new(&mut self.peer).poll_shutdown(&mut context);
        assert!(closed.is_ready(), "a pipe is closed at once");
        self.settle();
        assert!(self.has_ended(), "the peer has ended, and its connection is kept");
        self.received
    }

    fn receive(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        let mut space = [0; READ_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.peer).poll_read(&mut context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.received.extend_from_slice(buffer.filled());
                }
                Poll::Ready(Ok(())) | Poll::Pending => return,
                Poll::Ready(Err(error)) => panic!("a pipe cannot be read: {error}"),
            }
        }
    }
}

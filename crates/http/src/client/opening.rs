//! Coordinates the opening of connections to a peer that may speak HTTP/2: one request at a time, since others could
//! share its connection.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The known protocol of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum PeerProtocol {
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
pub(super) enum OpeningStep<'a> {
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
        let spoken = if may_share { PeerProtocol::Unknown } else { PeerProtocol::Http1 };
        Self {
            spoken: AtomicU8::new(spoken as u8),
            is_opening: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            ended: Notify::const_new(),
        }
    }

    /// Whether a connection may be shared.
    pub(super) fn may_share(&self) -> bool {
        self.spoken.load(Ordering::Relaxed) != PeerProtocol::Http1 as u8
    }

    /// Records the protocol of the peer.
    pub(super) fn note(&self, is_http2: bool) {
        let spoken = if is_http2 { PeerProtocol::Http2 } else { PeerProtocol::Http1 };
        self.spoken.store(spoken as u8, Ordering::Relaxed);
    }

    /// Takes the turn, or waits for the end of another request's turn.
    pub(super) async fn turn(&self, deadline: Instant) -> OpeningStep<'_> {
        // Before the check, so that an end right after it is noticed.
        let mut ended = pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_opening.swap(true, Ordering::AcqRel) {
            return OpeningStep::Opens(Opens { opening: self, has_failed: true });
        }
        match timeout_at(deadline, ended).await {
            Err(_) => OpeningStep::Late,
            Ok(()) if self.has_failed.load(Ordering::Acquire) => OpeningStep::Failed,
            Ok(()) => OpeningStep::Opened,
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

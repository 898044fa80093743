//! Counts open connections, and waits for the last of them to close.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicUsize, Notify};

/// Counts connections.
#[derive(Debug)]
pub(super) struct OpenConnections {
    count: AtomicUsize,
    /// Notified when the last one closes.
    all_closed: Notify,
}

impl OpenConnections {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), all_closed: Notify::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Counts one more connection until the result is dropped.
    pub(super) fn open(self: &Arc<Self>) -> OpenConnection {
        self.count.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }

    /// Waits until no connection is open.
    pub(super) async fn all_closed(&self) {
        loop {
            // Before the check, so that a close right after it is noticed.
            let mut told = pin!(self.all_closed.notified());
            told.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            told.await;
        }
    }
}

#[derive(Debug)]
pub(super) struct OpenConnection(Arc<OpenConnections>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.all_closed.notify_waiters();
        }
    }
}

//! The last durable record, and how followers of the journal wait for the next one.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, fence};

/// The sequence number of the last durable record. Publishing it needs no lock while no follower waits.
pub(crate) struct DurableSeq {
    seq: AtomicU64,
    is_closed: AtomicBool,
    /// Number of followers that wait or are about to wait.
    waiting: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl DurableSeq {
    pub(crate) fn new(seq: u64) -> Self {
        Self {
            seq: AtomicU64::new(seq),
            is_closed: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// Announces that all records up to `seq` are durable.
    pub(crate) fn publish(&self, seq: u64) {
        self.seq.store(seq, Ordering::Release);
        self.wake();
    }

    /// Announces that the last record was published.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Waits until a record after `seq` is durable and returns the last durable one. Returns `None` after the
    /// last one.
    pub(crate) fn wait_past(&self, seq: u64) -> Option<u64> {
        if let Some(reached) = self.past(seq) {
            return Some(reached);
        }
        let mut guard = self.lock();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Either this thread sees the published number, or the publisher sees that this thread waits.
        fence(Ordering::SeqCst);
        let found = loop {
            let is_closed = self.is_closed.load(Ordering::Acquire);
            let reached = self.past(seq);
            if reached.is_some() || is_closed {
                break reached;
            }
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(guard);
        found
    }

    fn past(&self, seq: u64) -> Option<u64> {
        Some(self.get()).filter(|reached| *reached > seq)
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            // With the lock held, no follower is between its check and its wait.
            let _guard = self.lock();
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

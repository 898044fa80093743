//! A gate to memory that signal handlers use. The memory is freed only after the gate is closed and all handlers have
//! left.
//!
//! A handler may interrupt any code, so it enters and leaves by a few atomic operations. The gate stores only the
//! address of the memory and never reads the memory.

use std::ptr;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicPtr, AtomicUsize, fence, yield_now};

/// A gate to a `T`, open or closed.
pub(crate) struct Gate<T> {
    /// Null while the gate is closed.
    target: AtomicPtr<T>,
    /// Number of handlers that may hold the address.
    inside: AtomicUsize,
}

impl<T> Gate<T> {
    /// A gate for a null pointer and a zero. The caller creates both, because Loom cannot create its atomics in a
    /// `const fn`.
    pub(crate) const fn new(target: AtomicPtr<T>, inside: AtomicUsize) -> Self {
        Self { target, inside }
    }

    /// Opens the gate. A handler that receives `target` sees everything that was written there before.
    pub(crate) fn open(&self, target: *mut T) {
        self.target.store(target, Ordering::Release);
    }

    /// Returns the target, or null if the gate is closed. The target stays valid until [`Self::leave`], which must
    /// follow each call.
    pub(crate) fn enter(&self) -> *mut T {
        self.inside.fetch_add(1, Ordering::Relaxed);
        // With the fence in `close`: either this load finds the gate closed, or `close` sees that this handler is
        // inside.
        fence(Ordering::SeqCst);
        self.target.load(Ordering::Acquire)
    }

    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::Release);
    }

    /// Closes the gate and waits until all handlers have left. Then no handler has the address, and the caller sees
    /// everything that the handlers wrote.
    pub(crate) fn close(&self) {
        self.target.store(ptr::null_mut(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.inside.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    }
}

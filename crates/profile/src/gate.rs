//! The gate to memory that signal handlers use: it closes behind the last of them before the memory is given back.
//!
//! A handler may interrupt anything, so entering and leaving are a few atomic operations and nothing else. The gate
//! knows the address of what is behind it and never looks there.

use std::ptr;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicPtr, AtomicUsize, fence, yield_now};

/// Leads to a `T`, or nowhere.
pub(crate) struct Gate<T> {
    /// Null while it is closed.
    target: AtomicPtr<T>,
    /// Those who may have the address.
    inside: AtomicUsize,
}

impl<T> Gate<T> {
    /// A gate of a null pointer and a zero. They are made by the caller, because Loom's cannot be made in a `const fn`.
    pub(crate) const fn new(target: AtomicPtr<T>, inside: AtomicUsize) -> Self {
        Self { target, inside }
    }

    /// Opens it. Whoever is led to `target` sees all that was written there before.
    pub(crate) fn open(&self, target: *mut T) {
        self.target.store(target, Ordering::Release);
    }

    /// Gives where it leads; null: it is closed. Each entering is followed by [`Self::leave`], until which the target
    /// stays.
    pub(crate) fn enter(&self) -> *mut T {
        self.inside.fetch_add(1, Ordering::Relaxed);
        // With the fence in `close`: either this finds the gate closed, or who closes it finds somebody inside.
        fence(Ordering::SeqCst);
        self.target.load(Ordering::Acquire)
    }

    /// Ends a visit.
    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::Release);
    }

    /// Closes it and waits until all have left. Then nobody has the address, and all that was written there is seen.
    pub(crate) fn close(&self) {
        self.target.store(ptr::null_mut(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.inside.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    }
}

//! Loom's counterparts of the items in `sync.rs` of `engine`, `tables`, `http` and `profile`.

use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::mem;
use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use loom::thread::yield_now;

/// A small number, so that all shards can be emptied in all orders.
pub(crate) const SHARDS: usize = 2;

/// A fixed state: Loom repeats the actions of a thread, so that each attempt must hash alike.
pub(crate) type RandomState = BuildHasherDefault<DefaultHasher>;

/// The guarantees of [`std::sync::OnceLock`] for `set` by one thread: a thread that sees the value also sees all writes
/// before it. A `get` that is not ordered after the `set` may miss it.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.value.get()).flatten()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }
}

/// The guarantees of [`tokio::sync::Notify`]: a permit of `notify_one` is kept for one waiter, and `notify_waiters`
/// reaches each [`Notified`] that was created before it.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    state: Mutex<Waiting>,
    /// Number of calls of `notify_waiters`. It is not a Loom atomic, so that reading it orders nothing: only the lock
    /// does.
    calls: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    has_permit: bool,
    wakers: Vec<Waker>,
}

/// A waiter, or a future one.
#[derive(Debug)]
pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    calls_before: usize,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        let mut state = self.state();
        state.has_permit = true;
        wake(state);
    }

    pub(crate) fn notify_waiters(&self) {
        let state = self.state();
        self.calls.fetch_add(1, Ordering::SeqCst);
        wake(state);
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified { notify: self, calls_before: self.calls.load(Ordering::SeqCst) }
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes all waiters. A waiter that is not addressed waits again.
fn wake(mut state: MutexGuard<'_, Waiting>) {
    let wakers = mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

impl Notified<'_> {
    /// Joins the waiters, under the lock as tokio does.
    pub(crate) fn enable(self: Pin<&mut Self>) -> bool {
        let _state = self.notify.state();
        self.is_told()
    }

    fn is_told(&self) -> bool {
        self.notify.calls.load(Ordering::SeqCst) != self.calls_before
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.notify.state();
        if self.is_told() || mem::take(&mut state.has_permit) {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

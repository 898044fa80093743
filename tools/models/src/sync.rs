//! Loom's counterparts of what `sync.rs` of `engine`, `tables`, `http` and `profile` name.

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

/// Few, so that all of them can be emptied in all orders.
pub(crate) const SHARDS: usize = 2;

/// The same at each attempt: Loom repeats what a thread has done.
pub(crate) type RandomState = BuildHasherDefault<DefaultHasher>;

/// What [`std::sync::OnceLock`] promises of `set` by one thread: whoever sees the value sees what was written before
/// it. A `get` without order to the `set` may miss it.
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

/// What [`tokio::sync::Notify`] promises: a permit of `notify_one` is kept for one who waits, and `notify_waiters`
/// reaches each [`Notified`] that was made before it.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    state: Mutex<Waiting>,
    /// How often all were told. Not Loom's, so that what is seen of it orders nothing: only the lock does.
    calls: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    has_permit: bool,
    wakers: Vec<Waker>,
}

/// One who waits, or is about to.
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

/// Wakes all who wait; who is not meant waits again.
fn wake(mut state: MutexGuard<'_, Waiting>) {
    let wakers = mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

impl Notified<'_> {
    /// Takes its place among those who wait, under the lock as tokio does.
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

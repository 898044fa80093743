//! Loom's counterparts of what `sync.rs` of `engine`, `archive`, `store` and `http` name.

use std::future::poll_fn;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use loom::thread::yield_now;

/// Few, so that all of them can be emptied in all orders.
pub(crate) const SHARDS: usize = 2;

/// The same at each attempt: Loom repeats what a thread has done.
pub(crate) type RandomState = BuildHasherDefault<DefaultHasher>;

/// What [`std::sync::OnceLock`] promises of `set` by one thread: whoever sees the value sees what was written before it.
/// A `get` without order to the `set` may miss it.
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

/// What [`tokio::sync::Notify`] promises of `notify_one` and a single waiter: a permit is kept for whoever waits next.
#[derive(Default)]
pub(crate) struct Notify {
    state: Mutex<Notified>,
}

#[derive(Default)]
struct Notified {
    has_permit: bool,
    waiter: Option<Waker>,
}

impl Notify {
    pub(crate) fn notify_one(&self) {
        let mut state = self.state();
        state.has_permit = true;
        let waiter = state.waiter.take();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if mem::take(&mut state.has_permit) {
                return Poll::Ready(());
            }
            state.waiter = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, Notified> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Loom's counterparts of what `sync.rs` of `engine` and of `archive` name.

use std::future::poll_fn;
use std::mem;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::yield_now;

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

//! What `queue`, `reply_batcher` and `progress` are built of. The crate `models` compiles these three against Loom's, which runs them
//! through all orders of events.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

pub(crate) use tokio::sync::Notify;

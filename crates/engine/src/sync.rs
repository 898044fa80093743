//! The synchronisation primitives of `queue`, `reply_batcher`, `progress` and `durable_seq`. The crate `models`
//! compiles these four modules against Loom's primitives, which run them in all orders of events.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

pub(crate) use tokio::sync::Notify;

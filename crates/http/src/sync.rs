//! What `server/supervision` and `server/open_connections` are built of. The crate `models` compiles these against
//! Loom's, which runs them through all orders of events.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

pub(crate) use tokio::sync::Notify;

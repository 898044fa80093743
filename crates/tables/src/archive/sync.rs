//! What `filter` is built of. The crate `models` compiles it against Loom's, which runs it through all orders of
//! events.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard};

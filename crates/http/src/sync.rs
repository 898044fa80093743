//! What `server/supervision` is built of. The crate `models` compiles it against Loom's, which runs it through all orders of
//! events.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

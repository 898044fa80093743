//! What `resident` is built of. The crate `models` compiles it against Loom's, which runs it through all orders of
//! events.

pub(crate) use std::hash::RandomState;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64};
pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Parts of a table in memory, each with a lock of its own: a power of two, at most 256. A model has fewer.
pub(crate) const SHARDS: usize = 256;

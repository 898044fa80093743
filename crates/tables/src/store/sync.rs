//! Primitives of `resident`. The crate `models` compiles it with Loom's primitives and runs it through all orders of
//! events.

pub(crate) use std::hash::RandomState;
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU64};
pub(crate) use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Number of parts of a table in memory, each with its own lock: a power of two, at most 256. A model has fewer.
pub(crate) const SHARDS: usize = 256;

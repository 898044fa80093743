//! Primitives of `filter`. The crate `models` compiles it with Loom's primitives and runs it through all orders of
//! events.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard};

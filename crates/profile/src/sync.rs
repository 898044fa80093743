//! What `gate` is built of. The crate `models` compiles it against Loom's, which runs it through all orders of events.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};
pub(crate) use std::thread::yield_now;

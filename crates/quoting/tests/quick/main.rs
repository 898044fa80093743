//! The tests that take seconds.

mod common;
mod kept;
mod policy;
mod quotes;
mod strangers;

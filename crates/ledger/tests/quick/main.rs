//! The tests that take seconds.

mod approval_model;
mod bulk_model;
mod codec;
mod purity;
#[path = "../support/mod.rs"]
mod support;

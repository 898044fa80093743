//! The tests that take seconds.

mod common;
mod signatures;
mod submitted;

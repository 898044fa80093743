//! The tests that take seconds.

mod admission;
mod shares;

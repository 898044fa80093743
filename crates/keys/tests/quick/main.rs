//! The tests that take seconds.

mod files;
mod tokens;

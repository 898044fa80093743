//! The tests that take seconds.

mod error_codes;
mod robustness;

//! The tests that take seconds.

mod documented;
mod house;
mod imports;
mod prose;
mod wrap;

//! The tests that take seconds.

mod catch_up;
mod common;
mod delivery;
mod direct;
mod owed;
mod requests;

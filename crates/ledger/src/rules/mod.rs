//! The rules: how commands are decided, and how events change the state.
//!
//! Each area has a folder: one file per command, `fold.rs` for its events, `query.rs` for its questions.

pub(crate) mod admin;
pub(crate) mod callbacks;
pub mod command;
pub(crate) mod couriers;
pub(crate) mod fold;
pub(crate) mod money;
pub(crate) mod operators;
pub(crate) mod retention;
pub(crate) mod scheme;
pub(crate) mod settlement;
pub(crate) mod tick;

//! The core: facts, decisions, events and records, and the state with its snapshots.

pub(crate) mod actor;
pub(crate) mod callback;
pub(crate) mod config;
pub(crate) mod courier;
pub(crate) mod decision;
pub(crate) mod effects;
pub(crate) mod event;
pub(crate) mod facts;
pub(crate) mod limits;
pub(crate) mod outbox;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod snapshot;
pub(crate) mod state;

//! Account lookup: finds the DFSP that serves a party, and the party's data.
//!
//! - [`Directory`] handles `participants/…` and `parties/…` for the gateway. The order of its checks, and the messages
//!   to DFSPs, are in `directory/lookup.rs` and `directory/participants.rs`.
//! - [`oracle::Oracle`] knows the DFSP that serves a party. It is the built-in directory in the hub's store, or an
//!   [`oracle::ExternalOracle`] over the oracle HTTP interface. The registry of oracles determines which one to use.
//!   The built-in directory and the registry are in the crate `parties`; the admin API changes them there.
//! - Lookups without an answer end with an error callback at their deadline: `pending.rs`.
//!
//! Nothing here uses the engine's queue, so a slow oracle does not affect transfers. Requests to one oracle are limited
//! in number and time; above the limit they are rejected.

mod config;
mod directory;
mod metrics;
pub mod oracle;
mod pending;
#[cfg(test)]
mod scripted;
mod timed;

pub use config::{ConfigError, DirectoryConfig, OracleConfig};
pub use directory::{Directory, OnMiss};
pub use metrics::DirectoryMetrics;

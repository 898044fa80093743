//! Account lookup: which DFSP serves a party, and who the party is.
//!
//! - [`Directory`] takes `participants/…` and
//!   `parties/…` from the gateway. The order of what it checks, and what DFSPs are told, is in `directory/lookup.rs`,
//!   `directory/participants.rs`.
//! - [`oracle::Oracle`] knows who serves a party: the built-in directory in the hub's
//!   own store, or [`oracle::ExternalOracle`] over the oracle HTTP interface. The registry of oracles names the one to
//!   ask. Both are in the crate `parties`, with which the admin API changes them.
//! - Lookups without an answer end with an error callback at their deadline: `pending.rs`.
//!
//! Nothing here goes through the engine's queue: however slow an oracle is, transfers do not notice. What waits for one
//! oracle is bounded in number and time, and refused beyond that.

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

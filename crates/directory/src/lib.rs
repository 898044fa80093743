//! Account lookup (L4): which DFSP serves a party, and who the party is.
//!
//! - [`Directory`] takes `participants/…` and
//!   `parties/…` from the gateway. The order of what it checks, and what DFSPs are told, is in `directory/lookup.rs`,
//!   `directory/participants.rs` and `directory/batch.rs`.
//! - [`oracle::Oracle`] knows who serves a party: [`builtin`] in the hub's own store, or
//!   [`oracle::ExternalOracle`] over the oracle HTTP interface. [`registry`] says which of them is asked.
//! - Lookups that nobody answers end with an error callback at their deadline: `pending.rs`.
//!
//! Nothing here goes through the engine's queue: however slow an oracle is, transfers do not notice. What waits for one
//! oracle is bounded in number and time, and refused beyond that.

pub mod builtin;
mod config;
mod directory;
pub mod import;
mod metrics;
pub mod oracle;
pub mod party;
mod pending;
pub mod registry;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod test_support;
mod timed;

pub use config::{ConfigError, DirectoryConfig, OracleConfig};
pub use directory::Directory;
pub use metrics::DirectoryMetrics;

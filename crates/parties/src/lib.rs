//! Registered parties and oracles, in the hub's store.
//!
//! - [`builtin`]: which DFSP serves a party, the built-in directory.
//! - [`registry`]: the external oracles, and which of them is asked for a party.
//! - [`import`]: many parties from a file, in chunks that may be repeated.
//!
//! Operators change them by the admin API; lookups and DFSPs' own registrations come through the crate `directory`.

pub mod builtin;
pub mod import;
pub mod party;
pub mod registry;
#[cfg(test)]
mod test_support;

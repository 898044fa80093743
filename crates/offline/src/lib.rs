//! What operators do with a data directory without a running hub: audit, audit trail, journal, export, backup, restore
//! and trim.

mod apart;
pub mod audit;
pub mod backup;
pub mod directory;
pub mod export;
pub mod journal;
pub mod names;
pub mod reserve;
#[cfg(test)]
mod tests;
pub mod trail;
pub mod trim;

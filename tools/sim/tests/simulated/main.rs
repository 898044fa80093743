//! Simulated DFSPs over real sockets.

mod bulks;
mod common;
mod conversions;
mod metrics;
mod oracle;
mod orders;
mod payments;
mod peers;
mod registration;
mod routes;
mod secured;
#[path = "common/watched.rs"]
mod watched;

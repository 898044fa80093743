//! Simulated DFSPs over real sockets.

mod bulks;
mod common;
mod conversions;
mod metrics;
mod oracle;
mod orders;
mod payments;
mod peers;
mod routes;
mod secured;

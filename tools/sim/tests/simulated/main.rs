//! Simulated DFSPs over real sockets.

mod bulks;
mod common;
mod conversions;
mod measurements;
mod oracle;
mod orders;
mod payments;
mod peers;
mod routes;
mod secured;

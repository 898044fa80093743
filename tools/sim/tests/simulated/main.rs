//! Simulated DFSPs over real sockets.

mod bulks;
mod common;
mod oracle;
mod orders;
mod payments;
mod peers;
mod routes;

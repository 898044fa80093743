//! Simulated DFSPs over real sockets.

mod bulks;
mod common;
mod fx_transfers;
mod measurements;
mod oracle;
mod orders;
mod payments;
mod peers;
mod routes;
mod secured;

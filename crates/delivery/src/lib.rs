//! Messages out (L4): callbacks of the ledger and messages relayed between DFSPs.
//!
//! - [`lanes`] delivers: one lane per DFSP, so that a slow or dead one delays nobody else.
//! - [`owed`] brings the engine's outbox to the lanes and renders its callbacks.
//! - [`relayed`] forwards messages between DFSPs over the same lanes.

pub mod lanes;
pub mod owed;
pub mod relayed;

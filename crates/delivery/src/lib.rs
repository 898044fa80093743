//! Messages out (L4): callbacks of the ledger and messages relayed between DFSPs.
//!
//! - [`lanes`] delivers: one lane per DFSP, so that a slow or dead one delays no other.
//! - [`owed`] brings the callbacks of the engine's outbox to the lanes.
//! - [`relayed`] forwards messages between DFSPs over the same lanes.
//! - `render` puts the headers and the body of either together.

pub mod lanes;
pub mod owed;
pub mod relayed;
mod render;

pub use render::{OutgoingRequest, Unroutable};

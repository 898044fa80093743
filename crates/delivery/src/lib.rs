//! Messages out: callbacks of the ledger and messages relayed between DFSPs.
//!
//! - [`Handler`] takes each [`Request`] from the gateway, of whatever resource.
//! - [`lanes`] delivers: one lane per DFSP, so that a slow or dead one delays no other.
//! - [`owed`] brings the callbacks of the engine's outbox to the lanes.
//! - [`relayed`] forwards messages between DFSPs over the same lanes.
//! - `render` puts the headers and the body of either together; [`Signer`] signs those that the hub makes itself.

mod handler;
pub mod lanes;
pub mod owed;
pub mod relayed;
mod render;
mod shares;
mod signer;

pub use handler::{Accepted, Handler, Request};
pub use render::{OutgoingRequest, Unroutable};
pub use shares::{Shares, share_of};
pub use signer::Signer;

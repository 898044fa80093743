//! Outbound messages: callbacks of the ledger, and messages relayed between DFSPs.
//!
//! - [`Handler`] processes each [`Request`] from the gateway, for any resource.
//! - [`lanes`] delivers: one lane per DFSP, so that a slow or unavailable DFSP delays no other.
//! - [`owed`] passes the callbacks of the engine's outbox to the lanes.
//! - [`relayed`] forwards messages between DFSPs over the same lanes.
//! - [`rejection`] defines code and text of the errors that DFSPs receive.
//! - `render` creates the headers and the body of both kinds; [`Signer`] signs messages that the hub creates.

mod handler;
pub mod lanes;
pub mod owed;
pub mod rejection;
pub mod relayed;
mod render;
mod shares;
mod signer;

pub use handler::{Accepted, Handler, Request};
pub use render::{OutgoingRequest, Unroutable};
pub use shares::{Shares, share_of};
pub use signer::Signer;

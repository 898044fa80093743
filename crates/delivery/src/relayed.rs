//! Messages relayed between DFSPs: the common part of lookups, quotes and requests.
//!
//! - [`Outgoing`] is a message to a DFSP: a sender's own, forwarded with its bytes and signature, or one that the hub
//!   creates.
//! - [`Forwarded`] records the receivers of the hub's requests, so that no other DFSP answers.
//! - [`Relay`] sends it over the receiver's lane, immediately and from the calling worker. A [`Failure`] names the
//!   error that the sender gets.
//!
//! A relay stores nothing. The sender of an accepted request gets the receiver's answer or, if the receiver cannot be
//! reached, an error of the hub. If the hub crashes in between, the request is lost, and the sender's own deadline ends
//! it. A relay never holds money.

mod failure;
mod forwarded;
mod message;
mod metrics;
mod relay;
mod transport;

pub use failure::{ErrorInformation, Failure};
pub use forwarded::{Forwarded, ResponseCounters};
pub use message::{Address, Author, Outgoing};
pub use metrics::RelayMetrics;
pub use relay::{Permit, Relay, RelayConfig};
pub use transport::{Transport, TransportFuture};

pub use crate::lanes::TransportError;

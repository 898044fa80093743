//! Messages relayed between DFSPs: what lookups, quotes and requests have in common.
//!
//! - [`Outgoing`] is a message to a DFSP: a sender's own, forwarded with its bytes and signature, or one that the hub
//!   makes.
//! - [`Forwarded`] remembers whom the hub asked, so that no other DFSP answers.
//! - [`Relay`] sends it over the receiver's lane, at once and from the worker that calls. A [`Failure`] names the error
//!   that the sender gets.
//!
//! A relay keeps nothing. The sender of an accepted request hears of it from the receiver or, if that cannot be
//! reached, from the hub. A hub that crashes in between forgets the request, as the sender's own deadline foresees. A
//! relay never holds money.

mod failure;
mod forwarded;
mod message;
mod metrics;
mod relay;
mod transport;

pub use failure::{ErrorInformation, Failure};
pub use forwarded::{Forwarded, Timed};
pub use message::{Address, Author, Outgoing};
pub use metrics::RelayMetrics;
pub use relay::{Permit, Relay, RelayConfig};
pub use transport::{Transport, TransportFuture};

pub use crate::lanes::TransportError;

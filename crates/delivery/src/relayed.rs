//! Messages passed on between DFSPs (L4): what lookups, quotes and requests have in common.
//!
//! - [`Received`] is a request that passed the gateway's checks, with the [`Content`] of its body.
//! - [`Outgoing`] is a message to a DFSP: someone's own, passed on with its bytes and signature, or one that the hub makes.
//! - [`Relay`] sends them over the receivers' lanes, at once and from the worker that has them in hand, and says why where
//!   it cannot: [`Failure`], which knows the error that the sender is to be told.
//! - [`Conversation`] is what the gateway hands requests to.
//!
//! A relay keeps nothing. That a request was accepted means that its sender will hear of it: from the receiver, or, where
//! the receiver cannot be reached, from the hub. A hub that crashes in between forgets it, as the sender's own deadline
//! foresees; money is never in a relay.

mod conversation;
mod failure;
mod message;
mod metrics;
mod relay;
mod transport;

pub use conversation::{Accepted, Conversation, TakeFuture};
pub use failure::{ErrorInformation, Failure};
pub use message::{Address, Author, Outgoing, Received};
pub use metrics::RelayMetrics;
pub use relay::{Relay, RelayConfig, Ticket};
pub use transport::{Transport, TransportFuture};
pub use upesi_fspiop::message::{BatchContent, BatchEntry, Message as Content, QuoteContent};

pub use crate::lanes::TransportError;

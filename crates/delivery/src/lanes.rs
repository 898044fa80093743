//! Delivery of callbacks (L4): one lane per DFSP, so that a slow or dead one delays nobody else.
//!
//! The journal's thread offers notices as soon as they are durable ([`Outlet`]); a lane sends them in order per transfer,
//! several at a time, repeats what fails, and says what was delivered or parked ([`Backlog`]). What goes out, and where
//! to, is asked for at each attempt ([`Renderer`]). Delivery is at least once.
//!
//! A lane holds a bounded number of notices. What does not fit is not lost: it stands in the outbox, and the lane fetches
//! it from there once it has room ([`Backlog::pending`]). The same way it resumes after a restart. Notices that
//! are to be repeated have a share of their own: new ones never wait for them.
//!
//! Beside the notices a lane takes messages that are sent at once or not at all, such as lookups and quotes
//! ([`Courier::send`]). They share the lane's breaker, but not its slots and connections: neither kind waits for the other.

mod backoff;
mod breaker;
mod config;
mod contract;
mod courier;
mod lane;
mod metrics;
mod status;

pub use backoff::Jitter;
pub use breaker::{Breaker, Passage};
pub use config::{ConfigError, CourierConfig};
pub use contract::{
    Backlog, BacklogError, BacklogFuture, Delivery, DirectError, Leg, OutgoingRequest, Page, Position,
    Refusal, Renderer, Repetition, Room, Unroutable,
};
pub use courier::{Courier, Outlet};
pub use lane::stepped::{Done, Sending, Settled, SteppedLane};
pub use metrics::{Histogram, LaneMetrics};
pub use status::{BreakerState, Failure, LaneStatus};
pub use upesi_ledger::{CallbackKey, ParticipantId};

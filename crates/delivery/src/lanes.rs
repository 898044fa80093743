//! Delivery of callbacks: one lane per DFSP, so that a slow or dead one delays no other.
//!
//! The journal's thread offers callbacks as soon as they are durable ([`Outlet`]). A lane sends them in order per
//! transfer, several at a time, repeats failed ones, and reports each as delivered or parked ([`Backlog`]). URL,
//! headers and body are made anew at each attempt ([`Renderer`]). Delivery is at least once.
//!
//! A lane holds a bounded number of callbacks. The others are not lost: they stand in the outbox, and the lane fetches
//! them from there once it has room ([`Backlog::pending`]). It resumes after a restart the same way. Callbacks that are
//! to be repeated have a share of their own: new ones never wait for them.
//!
//! A lane also takes messages that are sent at once or not at all, such as lookups and quotes ([`Courier::send`]). They
//! share the lane's breaker, but not its slots and connections: neither kind waits for the other.

mod backlog;
mod callback;
mod config;
mod courier;
mod lane;
mod metrics;
mod renderer;
mod status;

pub use backlog::{Backlog, BacklogError, BacklogFuture, Page, Room};
pub use callback::{HopTiming, OwedCallback, Position, Refusal, Repetition};
pub use config::{ConfigError, CourierConfig};
pub use courier::{Courier, Outlet};
pub use lane::direct::TransportError;
pub use lane::stepped::{Done, Sending, Settled, SteppedLane};
pub use metrics::{Histogram, LaneMetrics};
pub use renderer::Renderer;
pub use status::{Failure, LaneStatus};
pub use upesi_ledger::{CallbackKey, ParticipantId};

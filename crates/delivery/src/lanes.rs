//! Delivery of callbacks: one lane per DFSP, so that a slow or unavailable DFSP delays no other.
//!
//! The journal's thread offers callbacks as soon as they are durable ([`LaneDispatcher`]). A lane sends them in order
//! per transfer, several at the same time. It repeats failed callbacks, and reports each as delivered or parked
//! ([`Backlog`]). URL, headers and body are rendered again for each attempt ([`Renderer`]). Delivery is at least once.
//!
//! A lane holds a limited number of callbacks. The others are not lost: they remain in the outbox, and the lane fetches
//! them from there when it has capacity ([`Backlog::pending`]). It resumes after a restart in the same way. Callbacks
//! that wait for repetition have a share of their own, so they never delay new ones.
//!
//! A lane also sends messages that are sent immediately or not at all, such as lookups and quotes ([`Courier::send`]).
//! They share the lane's breaker, but not its slots and connections, so neither kind waits for the other.

mod backlog;
mod callback;
mod config;
mod courier;
mod lane;
mod metrics;
mod renderer;
mod status;

pub use backlog::{Backlog, BacklogError, BacklogFuture, LaneCapacity, Page};
pub use callback::{HopTiming, OwedCallback, Position, Refusal, Repetition};
pub use config::{ConfigError, CourierConfig};
pub use courier::{Courier, LaneDispatcher};
pub use lane::direct::TransportError;
pub use lane::stepped::{DeliveryAttempt, Done, OutboxReports, ParkedCallback, SteppedLane};
pub use metrics::{Histogram, LaneMetrics};
pub use renderer::Renderer;
pub use status::{Failure, LaneStatus};
pub use upesi_ledger::{CallbackKey, ParticipantId};

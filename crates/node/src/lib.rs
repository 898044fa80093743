//! The hub as a process: gateway, engine, courier and admin API together, from start to shutdown, alone or as a node of
//! a cluster.

mod clock;
pub mod cluster;
mod couriers;
mod descriptors;
mod edge;
mod error;
mod follower_state;
mod following;
mod hub;
mod issuers;
mod keys;
mod lane_metrics;
mod leading;
pub mod logging;
mod metrics;
mod node;
mod options;
mod ports;
mod process;
mod resources;
mod response_metrics;
mod retention;
mod serve;
mod settlement_metrics;
mod signatures;
mod standby;
mod tls;

pub use descriptors::raise_limit;
pub use error::HubError;
pub use hub::Hub;
pub use serve::serve;

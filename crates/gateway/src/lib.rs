#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod answer;
mod authenticator;
mod config;
mod gateway;
mod headers;
mod large_bodies;
mod metrics;
mod operations;
mod request;
mod route;
mod senders;
mod strangers;

pub use admission::AdmissionSettings;
pub use authenticator::{Authenticator, TrustEveryone};
pub use config::GatewayConfig;
pub use gateway::Gateway;
pub use request::read_request;

#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod answer;
mod authenticator;
mod config;
mod gateway;
mod headers;
mod interpret;
mod large_bodies;
mod metrics;
mod operations;
mod receive;
mod route;
mod strangers;
mod transfer_request;

pub use admission::AdmissionSettings;
pub use answer::outcome;
pub use authenticator::{Authenticator, TrustEveryone};
pub use config::GatewayConfig;
pub use gateway::Gateway;
pub use transfer_request::read_transfer_request;

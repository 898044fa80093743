#![doc = include_str!("../README.md")]

mod access;
mod admission;
mod answer;
mod authenticator;
mod caller;
mod config;
mod gateway;
mod headers;
mod large_bodies;
mod metrics;
pub mod nodes;
mod operations;
mod rates;
mod request;
mod route;
mod senders;
mod strangers;

pub use admission::AdmissionSettings;
pub use authenticator::{Authenticator, TrustEveryone};
pub use caller::{AddressLists, IPV6_PREFIX_MAX};
pub use config::GatewayConfig;
pub use gateway::{Gateway, GatewayContext};
pub use http::request::Parts;
pub use operations::{FollowerHealth, Health};
pub use rates::{RateLimits, RateSettings, Rates};
pub use request::read_request;

#![doc = include_str!("../README.md")]

mod access_log;
mod admission;
mod answer;
mod authenticator;
mod caller;
mod config;
mod gateway;
mod large_bodies;
mod metrics;
pub mod nodes;
mod operations;
mod rates;
mod request;
mod role;
mod route;

pub use admission::AdmissionSettings;
pub use authenticator::{Authenticator, TrustEveryone};
pub use caller::{AddressLists, CERTIFICATES_SEEN, FIRST_EXPIRY_SEEN, IPV6_PREFIX_MAX};
pub use config::GatewayConfig;
pub use gateway::{Gateway, GatewayContext};
pub use http::request::Parts;
pub use large_bodies::LargeBodies;
pub use rates::{RateLimits, RateSettings, Rates};
pub use request::read_request;
pub use role::{FollowerHealth, FollowerRole, FollowerState, HubRole, HubRoles, LeaderRole};

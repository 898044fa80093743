#![doc = include_str!("../README.md")]

mod account_types;
mod accounts;
mod body;
mod callbacks;
mod changes;
mod context;
mod debug;
mod directory;
mod docs;
mod endpoints;
mod enums;
mod error;
mod extract;
mod field;
mod funds;
mod health;
mod imports;
mod json;
mod lanes;
mod limits;
mod operations;
mod oracles;
mod participants;
mod positions;
mod quotes;
mod routes;
mod service;
mod settlement_models;
mod transactions;
mod transfers;

pub use context::{AdminContext, FindQuote, FixedLog, LogLevel, Metrics};
pub use debug::Holders;
pub use directory::DirectoryHandle;
pub use endpoints::check_endpoint;
pub use lanes::{Lane, LaneStatus, NoLanes};
pub use service::{AdminService, BODY_BYTES_MAX, limits};

#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

pub mod body;
mod fingerprint;
pub mod headers;
pub mod ilp;
mod octets;
pub mod render;
mod route;
mod sync_error;
pub mod uri;
mod version;

pub use fingerprint::fingerprint;
pub use octets::{decode_octets, encode_octets};
pub use route::{Method, Operation, Resource, Route};
pub use sync_error::SyncError;
pub use version::{Version, Versions};

#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

pub mod body;
mod byte_writer;
mod finer;
mod fingerprint;
pub mod headers;
mod ids;
pub mod ilp;
pub mod message;
mod octets;
mod party;
mod percent;
pub mod render;
mod resources;
mod route;
mod rules;
mod sync_error;
pub mod uri;
mod version;

pub use fingerprint::fingerprint;
pub use ids::{CurrencyPair, Ids, PathId, PathNames, PathParty};
pub use message::Message;
pub use octets::{decode_octets, encode_octets};
pub use party::{
    PATH_ID_CHARS_MAX, PartyIdType, PartyPath, PartySegments, check_party_id, check_party_path, check_path_id,
};
pub use resources::{Action, Method, Operation, PATHS, Resource, ResourcePath};
pub use route::{Route, Segments, Unroutable};
pub use sync_error::SyncError;
pub use version::{Version, Versions};

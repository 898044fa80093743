//! Commands that call the admin API of a hub: schemes, settlements, the import of parties, the rotation of keys.

pub mod admin_api;
mod await_hub;
pub mod directory_import;
pub mod rotation;
pub mod scheme;
pub mod settlement;

pub use await_hub::{await_admin, await_hub, remedy};

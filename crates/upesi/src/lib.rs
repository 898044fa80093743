//! What the `upesi` binary is made of (L5): its settings, its log, its commands.

mod aim;
mod await_hub;
pub mod backup;
pub mod cli;
pub mod config;
pub mod demo;
pub mod directory_import;
mod evidence;
pub mod exit;
pub mod export;
mod exposition;
pub mod fill;
pub mod grow;
pub mod hub;
pub mod inspect;
pub mod logging;
pub mod messages;
pub mod overload;
pub mod panics;
pub mod scheme;
pub mod signals;
pub mod trim;
mod version;

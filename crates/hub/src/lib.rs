//! The hub: settings, log, start, shutdown, metrics, and the operator's tools for a data directory and a scheme.
//!
//! The command `upesi` adds arguments and exit codes.

mod await_hub;
pub mod backup;
pub mod config;
pub mod directory_import;
pub mod exit;
pub mod export;
pub mod exposition;
mod hub;
pub mod inspect;
pub mod logging;
pub mod process;
mod progress;
mod reserve;
pub mod rotation;
pub mod scheme;
pub mod settlement;
pub mod terminal;
pub mod times;
pub mod trial;
pub mod trim;
pub mod values;

pub use await_hub::{await_admin, await_hub, remedy};
pub use hub::{Hub, HubError, cluster, raise_limit, serve};
pub use upesi_admin::{
    BOOTSTRAP_MINUTES, BREAK_GLASS_MINUTES, BreakGlassError, make_bootstrap, open_break_glass,
    replace_private, seal_break_glass,
};

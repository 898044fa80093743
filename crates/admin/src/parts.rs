//! Parts of the process that the API shows or changes.

use std::sync::Arc;

use upesi_delivery::lanes::{Courier, Failure, LaneStatus};
use upesi_ledger::CallbackKey;
use upesi_parties::builtin::BuiltInDirectory;
use upesi_parties::import::Imports;
use upesi_parties::registry::OracleRegistry;
use upesi_profile::Holder;
use upesi_tables::TablesError;

use crate::error::ApiError;
use crate::error_name::ErrorName;

/// The log level, and its changes.
pub trait LogLevel: Send + Sync {
    /// The current level, or list of directives.
    fn level(&self) -> String;

    /// Targets that directives may name.
    fn targets(&self) -> Vec<String>;

    /// Sets another level.
    ///
    /// # Errors
    /// The reason why it is invalid; nothing was changed.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// A log whose level cannot be changed.
#[derive(Clone, Copy, Debug)]
pub struct FixedLog;

impl LogLevel for FixedLog {
    fn level(&self) -> String {
        "unknown".to_owned()
    }

    fn targets(&self) -> Vec<String> {
        Vec::new()
    }

    fn set_level(&self, _level: &str) -> Result<(), String> {
        Err("this process cannot change its log level".to_owned())
    }
}

/// The state of callback lanes.
pub trait Lanes: Send + Sync {
    /// The current state of every lane.
    fn lanes(&self) -> Vec<LaneStatus>;

    /// Failures of the given callbacks that are still being repeated.
    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure>;
}

impl Lanes for Courier {
    fn lanes(&self) -> Vec<LaneStatus> {
        Self::lanes(self)
    }

    fn failures(&self, keys: &[CallbackKey]) -> Vec<Failure> {
        Self::failures(self, keys)
    }
}

/// For a process without a courier.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLanes;

impl Lanes for NoLanes {
    fn lanes(&self) -> Vec<LaneStatus> {
        Vec::new()
    }

    fn failures(&self, _keys: &[CallbackKey]) -> Vec<Failure> {
        Vec::new()
    }
}

/// Dependencies of `/oracles` and `/directory`.
#[derive(Clone, Debug)]
pub struct DirectoryHandle {
    /// Parties of the built-in directory.
    pub built_in: BuiltInDirectory,
    /// Bulk imports into it.
    pub imports: Imports,
    pub oracles: OracleRegistry,
}

impl DirectoryHandle {
    /// Uses this directory and registry.
    pub fn new(built_in: BuiltInDirectory, oracles: OracleRegistry) -> Result<Self, TablesError> {
        Ok(Self { imports: Imports::open(&built_in)?, built_in, oracles })
    }
}

/// The directory, if this hub has one.
#[derive(Clone, Debug)]
pub(crate) struct Directory(pub(crate) Option<DirectoryHandle>);

impl Directory {
    /// The directory; without one, the error 501.
    pub(crate) fn get(&self) -> Result<&DirectoryHandle, ApiError> {
        let none = || ApiError::new(ErrorName::NoDirectory, "This hub has no party directory");
        self.0.as_ref().ok_or_else(none)
    }
}

/// Returns the current memory use of the hub's parts.
pub type Holders = Arc<dyn Fn() -> Vec<Holder> + Send + Sync>;

//! A run in progress: its options, and what all of its parts share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use upesi_engine::{Clock as _, SystemClock};
use upesi_http::Workers;
use upesi_types::Timestamp;

use crate::drive::error::LabError;
use crate::drive::keys::Keys;
use crate::plan::options::RunOptions;

/// Duration of load before each slice except the first, so that connections are open and queues have their usual
/// length.
pub(crate) const RAMP: Duration = Duration::from_millis(500);
/// Prefix of the name of a started hub's data directory.
pub(crate) const DATA_DIRECTORY: &str = "upesi-lab-hub-";

pub(crate) struct Run<'options> {
    pub(crate) options: &'options RunOptions,
    pub(crate) workers: Arc<Workers>,
    pub(crate) nonce: u64,
    pub(crate) progress: ProgressBar,
    /// The keys of hub, DFSPs and baselines, if any authenticate.
    pub(crate) keys: Option<Keys>,
}

impl Run<'_> {
    pub(crate) fn binary(&self) -> Result<PathBuf, LabError> {
        let found = self.options.binary.clone().map_or_else(std::env::current_exe, Ok);
        found.map_err(|source| LabError::Io { what: "cannot find this program's file".to_owned(), source })
    }

    pub(crate) fn log(&self, name: &str) -> Option<PathBuf> {
        self.options.out.as_ref().map(|out| out.join(name))
    }

    /// The data directory of a started hub. Each run has a new one, so that old data are never touched.
    pub(crate) fn data_directory(&self) -> PathBuf {
        let parent = self.options.out.clone().unwrap_or_else(std::env::temp_dir);
        parent.join(format!("{DATA_DIRECTORY}{:016x}", self.nonce))
    }
}

/// The current time of the system's clock.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

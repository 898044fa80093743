//! Data directories of hubs with a history: a scheme, finished transfers, and reserved ones.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use tokio::runtime::Builder;
use upesi_engine::{EngineMetrics, EngineOptions};
use upesi_journal::Durability;
use upesi_process::exit::Failure;
use upesi_sim::mix;

use super::IsolatedError;
use super::filler::{Filler, Payloads};
use super::flow::{feed, start_delivering};
use super::scheme::Scheme;
use super::stream::ReadyRequest;

/// Maximum number of finished transfers if the journal keeps everything.
const KEPT_MAX: usize = 50_000;

#[derive(Debug)]
pub(super) struct ExistingState {
    pub scheme: Scheme,
    pub existing: usize,
    pub dfsps: usize,
    pub seed: u64,
    /// Prepares after the finished transfers; they stay reserved.
    pub reserved: Arc<Vec<ReadyRequest>>,
}

impl ExistingState {
    /// Creates the directory, without a sync. All callbacks are delivered. A hub that starts on it finds a snapshot.
    pub fn write(&self, data: &Path) -> Result<(), IsolatedError> {
        let options = EngineOptions {
            durability: Durability::Volatile,
            ledger: super::ledger::config(),
            // With millions of transfers, the journal would be larger than everything else.
            keep_segments: self.existing < KEPT_MAX,
            ..EngineOptions::new(data)
        };
        let (engine, handle) = start_delivering(options, EngineMetrics::default())?;
        let runtime = Builder::new_current_thread().enable_time().build().map_err(IsolatedError::thread)?;
        let refused = |reason| IsolatedError::Refused { what: "an operator's command", reason };
        let onboarded = runtime.block_on(self.scheme.onboard(&handle));
        if let Some(reason) = onboarded.map_err(|error| refused(error.to_string()))? {
            return Err(refused(reason));
        }
        if self.existing > 0 {
            let failed = |failure: Failure| refused(failure.to_string());
            let mut filler =
                Filler::new(handle.clone(), self.dfsps as u64, Payloads::AsInRuns).map_err(failed)?;
            // Another seed, so that ids differ from the ids of the measurement.
            filler.seed = mix(!self.seed);
            runtime.block_on(filler.fill(0, self.existing as u64)).map_err(failed)?;
        }
        if !self.reserved.is_empty() {
            feed(&handle, &self.reserved)?;
        }
        let archive = handle.archive();
        engine.shutdown();
        // Otherwise the hub would do this maintenance during the measurement.
        archive.map_or(Ok(()), |archive| archive.finish_upkeep())?;
        Ok(())
    }
}

/// Copies a directory tree that is not in use. Fails with the system's error.
pub fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

//! Data directories with a past: a scheme, finished transfers, and transfers that wait for their fulfil.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Builder;
use upesi_engine::{EngineHandle, EngineMetrics, EngineOptions};
use upesi_journal::Durability;
use upesi_sim::mix;

use super::IsolatedError;
use super::flow::{Flow, feed, start_delivering};
use super::scheme::Scheme;
use super::settings::Keys;
use super::source::Source;
use super::stream::decode::Ready;
use super::stream::{GenerateOptions, MessageKind, Stream};

/// Most finished transfers that a directory is given.
const EXISTING_MAX: usize = 1_000_000_000;
/// Finished transfers made at a time.
const CHUNK: usize = 50_000;
/// Fast, and from one thread: nothing is measured here.
const FLOW: Flow = Flow { submitters: 1, in_flight: 4_096 };

/// The past of a data directory.
#[derive(Debug)]
pub(super) struct Past {
    pub scheme: Scheme,
    pub existing: usize,
    pub dfsps: usize,
    pub seed: u64,
    /// What comes after them: prepares that stay reserved.
    pub reserved: Arc<Vec<Ready>>,
}

/// Reads the key `existing`: finished transfers that a hub has behind it.
pub(super) fn read_existing(keys: &mut Keys<'_>, source: &Source) -> usize {
    let existing = keys.size("existing", 0..=EXISTING_MAX, 0);
    if existing > 0 && (source.stream.is_some() || source.is_recorded) {
        keys.contradiction(
            "existing transfers are made up between made-up DFSPs: leave existing out, or the stream"
                .to_owned(),
        );
    }
    existing
}

impl Past {
    /// Makes the directory, without a sync, callbacks delivered. What starts on it next finds a snapshot.
    pub fn write(&self, data: &Path) -> Result<(), IsolatedError> {
        let options = EngineOptions {
            durability: Durability::Volatile,
            ledger: super::ledger::config(),
            // Of millions of transfers the journal would be larger than all the rest.
            keep_segments: self.existing < CHUNK,
            ..EngineOptions::new(data)
        };
        let (engine, handle) = start_delivering(options, EngineMetrics::default())?;
        let runtime = Builder::new_current_thread().build().map_err(IsolatedError::thread)?;
        runtime.block_on(self.scheme.onboard(&handle))?;
        self.finish_existing(&handle)?;
        if !self.reserved.is_empty() {
            feed(&handle, &self.reserved, FLOW)?;
        }
        let archive = handle.archive();
        engine.shutdown();
        // Or whoever starts on the directory would do it, while it is measured.
        archive.map_or(Ok(()), |archive| archive.finish_upkeep())?;
        Ok(())
    }

    fn finish_existing(&self, engine: &EngineHandle) -> Result<(), IsolatedError> {
        for (chunk, first) in (0..self.existing).step_by(CHUNK).enumerate() {
            let transfers = CHUNK.min(self.existing - first);
            let stream = Stream::generate(&GenerateOptions {
                transfers,
                dfsps: self.dfsps,
                fulfils: true,
                // Other ids than those that are measured, and than those of the other chunks.
                seed: mix(!self.seed ^ chunk as u64),
                ..GenerateOptions::default()
            })?;
            for kind in [MessageKind::Prepare, MessageKind::Fulfil] {
                feed(engine, &Arc::new(stream.decode(kind, transfers)?), FLOW)?;
            }
        }
        Ok(())
    }
}

/// Copies a directory that no engine is using.
pub(super) fn copy_directory(from: &Path, to: &Path) -> Result<(), IsolatedError> {
    std::fs::create_dir_all(to).map_err(IsolatedError::io("create", to))?;
    for entry in std::fs::read_dir(from).map_err(IsolatedError::io("read", from))? {
        let entry = entry.map_err(IsolatedError::io("read", from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_directory(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy).map_err(IsolatedError::io("copy", &path))?;
        }
    }
    Ok(())
}

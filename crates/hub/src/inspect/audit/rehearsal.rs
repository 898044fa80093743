//! The very recovery that a start runs, on the files of a data directory and beside them: nothing is changed.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use upesi_engine::{EngineOptions, Rehearsal, Storage, rehearse};
use upesi_journal::{Disk, ScratchDisk};
use upesi_ledger::Ledger;
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, ArchiveEntry, ArchiveStats, Division, FjallArchive};
use upesi_types::TransferId;

use super::Findings;

/// Starts on a data directory, and compares the states that the engine and the archivist come to with the replayed one.
/// What is archived meanwhile is dropped; `archive` is absent where the directory has none.
pub(super) fn run(
    directory: &Path,
    disk: Arc<dyn Disk>,
    archive: Option<Arc<FjallArchive>>,
    replayed: &Ledger,
    findings: &mut Findings,
) {
    let storage =
        Storage { disk: Arc::new(ScratchDisk::new(disk)), archive: Arc::new(ScratchArchive::new(archive)) };
    let options = EngineOptions { storage: Some(storage), ..EngineOptions::new(directory) };
    match rehearse(&options) {
        Err(error) => findings.add(format!("a hub would not start: {error}")),
        Ok(Rehearsal { ledger, archived }) => {
            let expected = replayed.encode_unfinished();
            for (who, ledger) in [("the engine", &ledger), ("the archivist", &archived)] {
                if ledger.encode_unfinished() != expected {
                    findings.add(format!("a start would bring {who} to another state than the replay"));
                }
            }
        }
    }
}

/// An archive that is read and not written.
struct ScratchArchive {
    below: Option<Arc<FjallArchive>>,
    watermark: AtomicU64,
    removed_to: AtomicU64,
}

impl ScratchArchive {
    fn new(below: Option<Arc<FjallArchive>>) -> Self {
        let watermark = below.as_ref().map_or(0, |archive| archive.watermark());
        Self { below, watermark: AtomicU64::new(watermark), removed_to: AtomicU64::new(0) }
    }
}

impl Archive for ScratchArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, TablesError> {
        self.below.as_ref().map_or(Ok(None), |archive| archive.get(id))
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        self.below.as_ref().is_some_and(|archive| archive.may_contain(id))
    }

    fn apply(&self, _entries: &[ArchiveEntry], watermark: u64) -> Result<(), TablesError> {
        self.watermark.fetch_max(watermark, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<u64, TablesError> {
        Ok(self.watermark())
    }

    fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Relaxed)
    }

    fn watermark_applied(&self) -> u64 {
        self.watermark()
    }

    fn stats(&self) -> ArchiveStats {
        self.below.as_ref().map_or_else(ArchiveStats::default, |archive| archive.stats())
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TablesError> {
        self.below.as_ref().map_or(Ok(()), |archive| archive.for_each(visit))
    }

    fn divisions(&self) -> Vec<Division> {
        let removed_to = self.removed_to.load(Ordering::Relaxed);
        let mut divisions = self.below.as_ref().map_or_else(Vec::new, |archive| archive.divisions());
        divisions.retain(|division| !division.is_closed || division.watermark > removed_to);
        divisions
    }

    fn remove_to(&self, seq: u64) -> Result<u64, TablesError> {
        self.removed_to.fetch_max(seq, Ordering::Relaxed);
        self.watermark.fetch_max(seq, Ordering::Relaxed);
        Ok(0)
    }
}

//! Runs the recovery of a start on the files of a data directory without changing them.

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

use super::findings::Findings;
use super::snapshots;

/// Rehearses a start on a data directory, and compares the states of the engine and the archivist with the replayed
/// one. Entries that are archived meanwhile are dropped; `archive` is `None` if the directory has none.
pub(super) fn rehearse_start(
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
            let expected = without_links(replayed);
            for (who, ledger) in [("the engine", &ledger), ("the archivist", &archived)] {
                if without_links(ledger) != expected || !snapshots::ends_with_links(replayed, ledger) {
                    findings.add(format!("at a start, the state of {who} would differ from the replay"));
                }
            }
        }
    }
}

/// The state as bytes without its ended links, which are compared separately.
fn without_links(ledger: &Ledger) -> Vec<u8> {
    let mut ledger = ledger.clone();
    ledger.forget_ended_links();
    ledger.encode_unfinished()
}

/// An archive that is read but not written.
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

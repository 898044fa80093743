//! Engines on a simulated disk, their DFSPs' record of the answers, and the verdict on the data after a crash.

pub mod life;
pub mod scheme;
pub mod treasury;
pub mod verdict;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, StartError, Storage};
use upesi_journal::sim_disk::{Random, SimDisk, SurvivingData};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive, MemoryArchive};

use crate::real_files::{copy_directory, directory_in_memory};

/// No deadlines pass on their own here.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// Folds between two snapshots of a hub with default settings: 262,144 records divided by 16,384.
const SNAPSHOT_FOLDS: u64 = 16;

/// The settings of a seed's hubs.
#[derive(Clone, Debug)]
pub struct Setup {
    segment_bytes: u64,
    overlap_bytes_min: usize,
    fold_every_records: u64,
    snapshot_every_records: u64,
}

impl Setup {
    /// Draws settings from a seed: small segments, frequent folds, and from none to all batches written by the second
    /// thread.
    pub fn draw(random: &mut Random) -> Self {
        let segment_bytes = [8 * 1024, 16 * 1024, 64 * 1024][random.below(3) as usize];
        let overlap_bytes_min = [0, 2_000, usize::MAX][random.below(3) as usize];
        let fold_every_records = [1, 4, 16, 64][random.below(4) as usize];
        let snapshot_every_records = [8, 32, SNAPSHOT_FOLDS * fold_every_records][random.below(3) as usize];
        Self { segment_bytes, overlap_bytes_min, fold_every_records, snapshot_every_records }
    }

    /// Settings for one batch after the other, and an archivist without work: the disk's operations are the same in
    /// each run.
    pub fn orderly(random: &mut Random) -> Self {
        Self { overlap_bytes_min: usize::MAX, fold_every_records: u64::MAX / 2, ..Self::draw(random) }
    }
}

/// An archive between two hubs.
#[derive(Clone, Debug)]
pub enum TrialArchive {
    Memory(Arc<MemoryArchive>),
    Files(Arc<TempDir>),
}

impl TrialArchive {
    /// Opens the archive. Only one user at a time may have it open.
    pub fn open(&self) -> Arc<dyn Archive> {
        match self {
            Self::Memory(archive) => Arc::clone(archive) as _,
            Self::Files(directory) => {
                let opened = FjallArchive::open(directory.path().join("archive"), &archive_options());
                Arc::new(opened.unwrap_or_else(|error| panic!("the archive: {error}")))
            }
        }
    }

    /// The archive after a crash; this one does not change.
    fn after_crash(&self) -> Self {
        match self {
            Self::Memory(archive) => Self::Memory(Arc::new(archive.after_crash())),
            Self::Files(directory) => {
                let copy = directory_in_memory();
                let archive = directory.path().join("archive");
                if archive.exists() {
                    copy_directory(&archive, &copy.path().join("archive")).expect("a copy");
                }
                Self::Files(Arc::new(copy))
            }
        }
    }
}

/// Options that create many small tables from few transfers.
fn archive_options() -> ArchiveOptions {
    ArchiveOptions {
        pending_transfers: 8,
        division_transfers: 24,
        unmerged_tables: 4,
        cache_bytes: 1 << 20,
        ..ArchiveOptions::default()
    }
}

/// The disk and the archive of a hub that has ended, for the next hub.
#[derive(Clone, Debug)]
pub struct HubRemains {
    pub disk: SimDisk,
    pub archive: TrialArchive,
}

impl HubRemains {
    /// An empty disk, and an archive in memory.
    pub fn none(seed: u64) -> Self {
        Self { disk: SimDisk::new(seed), archive: TrialArchive::Memory(Arc::default()) }
    }

    /// An empty disk, and a real archive.
    pub fn none_with_files(seed: u64) -> Self {
        Self { archive: TrialArchive::Files(Arc::new(directory_in_memory())), ..Self::none(seed) }
    }

    /// The remains after a power loss; these remains do not change.
    pub fn after_power_loss(&self, kept: SurvivingData) -> Self {
        Self { disk: self.disk.after_power_loss(kept), archive: self.archive.after_crash() }
    }

    /// The remains after `kill -9`; these remains do not change.
    pub fn after_kill(&self) -> Self {
        Self { disk: self.disk.after_kill(), archive: self.archive.after_crash() }
    }

    /// Starts a hub.
    pub fn start(&self, setup: &Setup) -> Result<(Engine, EngineHandle), StartError> {
        let options = EngineOptions {
            storage: Some(Storage { disk: Arc::new(self.disk.clone()), archive: self.archive.open() }),
            segment_bytes: setup.segment_bytes,
            batch_bytes_max: 4 * 1024,
            overlap_bytes_min: setup.overlap_bytes_min,
            fold_every_records: setup.fold_every_records,
            snapshot_every_records: setup.snapshot_every_records,
            clock: scheme::clock(),
            tick_interval: NEVER,
            ..EngineOptions::new("nowhere")
        };
        Engine::start(options, EngineMetrics::default(), Box::new(NoEffects))
    }
}

/// Runs a future with a hub on this thread.
pub fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(story)
}

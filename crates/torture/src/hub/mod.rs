//! Engines on a simulated disk, what their DFSPs remember of them, and the verdict on what is left.

pub mod life;
pub mod scheme;
pub mod verdict;

use std::sync::Arc;
use std::time::Duration;

use upesi_archive::MemoryArchive;
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, StartError, Storage};
use upesi_journal::sim_disk::{Kept, Random, SimDisk};

/// No deadlines pass by themselves here.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// How the hubs of a seed are set up.
#[derive(Clone, Debug)]
pub struct Setup {
    segment_bytes: u64,
    overlap_bytes_min: usize,
    fold_every_records: u64,
    snapshot_every_records: u64,
}

impl Setup {
    /// Drawn from a seed: small segments, much folding, and from none to all batches written by the second thread.
    pub fn draw(random: &mut Random) -> Self {
        Self {
            segment_bytes: [8 * 1024, 16 * 1024, 64 * 1024][random.below(3) as usize],
            overlap_bytes_min: [0, 2_000, usize::MAX][random.below(3) as usize],
            fold_every_records: [1, 4, 16, 64][random.below(4) as usize],
            snapshot_every_records: [8, 32][random.below(2) as usize],
        }
    }

    /// One batch after the other, and an archivist without work: the disk's operations are the same in each run.
    pub fn orderly(random: &mut Random) -> Self {
        Self { overlap_bytes_min: usize::MAX, fold_every_records: u64::MAX / 2, ..Self::draw(random) }
    }
}

/// What a hub leaves behind, and begins with.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The journal and the snapshots.
    pub disk: SimDisk,
    /// The archive.
    pub archive: Arc<MemoryArchive>,
}

impl Remains {
    /// Nothing yet.
    pub fn none(seed: u64) -> Self {
        Self { disk: SimDisk::new(seed), archive: Arc::default() }
    }

    /// After a power loss; these remains stay as they are.
    pub fn after_power_loss(&self, kept: Kept) -> Self {
        Self { disk: self.disk.after_power_loss(kept), archive: Arc::new(self.archive.after_crash()) }
    }

    /// After `kill -9`; these remains stay as they are.
    pub fn after_kill(&self) -> Self {
        Self { disk: self.disk.after_kill(), archive: Arc::new(self.archive.after_crash()) }
    }

    /// Starts a hub on them.
    pub fn start(&self, setup: &Setup) -> Result<(Engine, EngineHandle), StartError> {
        let options = EngineOptions {
            storage: Some(Storage {
                disk: Arc::new(self.disk.clone()),
                archive: Arc::clone(&self.archive) as _,
            }),
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

/// Runs a story of a hub on this thread.
pub fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(story)
}

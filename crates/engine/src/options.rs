//! How an engine is set up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use upesi_journal::{Disk, Durability, Log};
use upesi_ledger::LedgerConfig;
use upesi_tables::archive::{Archive, ArchiveOptions};

use crate::clock::{Clock, SystemClock};

/// Replaces the data directory in simulations.
#[derive(Clone)]
pub struct Storage {
    /// Of the snapshots, and of the journal unless [`EngineOptions::log`] is.
    pub disk: Arc<dyn Disk>,
    /// Of finished transfers.
    pub archive: Arc<dyn Archive>,
}

/// Settings of an engine. The defaults are those of `upesi serve`.
#[derive(Clone)]
pub struct EngineOptions {
    /// The data directory.
    pub data: PathBuf,
    /// The scheme's policy.
    pub ledger: LedgerConfig,
    /// Most commands that wait; over it callers are refused at once.
    pub queue_commands_max: usize,
    /// Most commands that one batch holds.
    pub batch_commands_max: usize,
    /// A batch is closed when its records exceed this, in bytes.
    pub batch_bytes_max: usize,
    /// A batch whose records reach this, in bytes, is written by a thread of its own while the next is decided. For
    /// smaller ones the hop would cost more than it saves.
    pub overlap_bytes_min: usize,
    /// How often deadlines are looked at.
    pub tick_interval: Duration,
    /// Length of a journal segment in bytes.
    pub segment_bytes: u64,
    /// Whether batches are synced to the disk; `Volatile` is for measurements.
    pub durability: Durability,
    /// The archivist folds the journal whenever this many records have gathered.
    pub fold_every_records: u64,
    /// A snapshot is written whenever this many records were folded since the last.
    pub snapshot_every_records: u64,
    /// Most finished transfers in memory; over it prepares are refused until the archive has caught up.
    pub finished_transfers_max: usize,
    /// Most that bulks may hold in memory until their payees are asked, in bytes; over it new ones are refused.
    pub bulk_bytes_max: usize,
    /// Whether journal segments are kept once archived and covered by a snapshot.
    pub keep_segments: bool,
    /// Whether another part of the hub executes removals that the journal records, after an export. A removal by
    /// [`EngineHandle::remove_finished`](crate::EngineHandle::remove_finished) takes effect at once.
    pub defers_removals: bool,
    /// The archive's settings.
    pub archive: ArchiveOptions,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How far the wall clock may part from the monotonic one between two ticks; what parts more is not believed.
    pub clock_jump_max: Duration,
    /// The journal, if it is not the data directory's own: that of a cluster.
    pub log: Option<Arc<dyn Log>>,
    /// In place of the data directory; `None` except in simulations.
    pub storage: Option<Storage>,
}

impl EngineOptions {
    /// The defaults on a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            ledger: LedgerConfig::default(),
            queue_commands_max: 65_536,
            batch_commands_max: 4_096,
            batch_bytes_max: 8 * 1024 * 1024,
            overlap_bytes_min: 128 * 1024,
            tick_interval: Duration::from_millis(100),
            segment_bytes: 64 * 1024 * 1024,
            durability: Durability::Synced,
            fold_every_records: 16_384,
            snapshot_every_records: 262_144,
            finished_transfers_max: 1_000_000,
            bulk_bytes_max: 128 * 1024 * 1024,
            keep_segments: true,
            defers_removals: false,
            archive: ArchiveOptions::default(),
            clock: Arc::new(SystemClock),
            clock_jump_max: Duration::from_secs(5),
            log: None,
            storage: None,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineOptions")
            .field("data", &self.data)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

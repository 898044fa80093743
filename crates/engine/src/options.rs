//! The settings of an engine.

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
    /// Disk of the snapshots, and of the journal unless [`EngineOptions::log`] is set.
    pub disk: Arc<dyn Disk>,
    /// Archive of finished transfers.
    pub archive: Arc<dyn Archive>,
}

/// Settings of an engine. The defaults are the defaults of `upesi serve`.
#[derive(Clone)]
pub struct EngineOptions {
    /// The data directory.
    pub data: PathBuf,
    /// The scheme's policy.
    pub ledger: LedgerConfig,
    /// Maximum number of commands in the queue. Above it, commands are rejected immediately.
    pub queue_commands_max: usize,
    /// Maximum number of commands in one batch.
    pub batch_commands_max: usize,
    /// A batch is closed when its records exceed this, in bytes.
    pub batch_bytes_max: usize,
    /// A batch whose records reach this size, in bytes, is written by a separate thread while the next batch is
    /// decided. For smaller batches, the change of threads would cost more than it saves.
    pub overlap_bytes_min: usize,
    /// Interval between checks of the deadlines.
    pub tick_interval: Duration,
    /// Length of a journal segment in bytes.
    pub segment_bytes: u64,
    /// Whether batches are synced to the disk; `Volatile` is for measurements.
    pub durability: Durability,
    /// The archivist applies the journal each time this number of records has accumulated.
    pub fold_every_records: u64,
    /// A snapshot is written each time this number of records was applied since the last one.
    pub snapshot_every_records: u64,
    /// Maximum number of finished transfers in memory. Above it, prepares are rejected until the archive has caught up.
    pub finished_transfers_max: usize,
    /// Maximum number of bytes that bulk transfers may hold in memory until their requests are sent to the payees.
    /// Above it, new ones are rejected.
    pub bulk_bytes_max: usize,
    /// Whether journal segments are retained after they are archived and covered by a snapshot.
    pub keep_segments: bool,
    /// Whether another part of the hub executes the removals that the journal records, after an export. A removal by
    /// [`EngineHandle::remove_finished`](crate::EngineHandle::remove_finished) is executed immediately.
    pub defers_removals: bool,
    pub archive: ArchiveOptions,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Maximum difference between wall clock and monotonic clock between two ticks. The hub does not follow a larger
    /// difference.
    pub clock_jump_max: Duration,
    /// The journal of a cluster. `None` for the journal in the data directory.
    pub log: Option<Arc<dyn Log>>,
    /// Replaces the data directory in simulations; otherwise `None`.
    pub storage: Option<Storage>,
}

impl EngineOptions {
    /// The defaults for a data directory.
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

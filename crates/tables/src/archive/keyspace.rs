//! One LSM store as fjall keeps it: making, opening, writing tables, and what its errors mean.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::lsm::Fault;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Config, Database, Keyspace, KeyspaceCreateOptions};
use upesi_journal::durable;
use upesi_types::Timestamp;

use crate::archive::{ArchiveError, ArchiveOptions};

/// Where the watermark is stored: behind every transfer id, whose first byte is a small tag.
pub(crate) const WATERMARK_KEY: [u8; 1] = [0xff];
const KEYSPACE: &str = "transfers";
/// What an operator does about damage.
const REMEDY: &str = "it is derived data: stop the hub, delete the whole archive directory and start again, and it is rebuilt from the journal";
/// Tables that a division keeps open; lookups mostly find index and filter in memory and need the file for one block.
pub const OPEN_FILES_MAX: usize = 16;
/// With this many more unmerged tables than start a merge, a writer waits for merging to catch up ...
const UNMERGED_TABLES_OVER: usize = 24;
/// ... in steps of this length ...
const MERGE_WAIT_STEP: Duration = Duration::from_millis(5);
/// ... but no more than this many, because only the next table makes the store merge again.
const MERGE_WAIT_STEPS_MAX: usize = 200;

/// How far a store is complete, stored in the table that makes it so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The journal sequence number up to which every finished transfer is there; 0: nothing yet.
    pub(crate) watermark: u64,
    /// The time of that record; 1970 where it is not known.
    pub(crate) time: Timestamp,
}

impl Mark {
    pub(crate) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.watermark.to_le_bytes());
        bytes[8..].copy_from_slice(&self.time.as_ns().to_le_bytes());
        bytes
    }

    /// Archives of earlier versions have no time.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (watermark, time) = bytes.split_first_chunk::<8>()?;
        let time = match time {
            [] => Timestamp::EPOCH,
            time => Timestamp::from_ns(i64::from_le_bytes(time.try_into().ok()?)),
        };
        Some(Self { watermark: u64::from_le_bytes(*watermark), time })
    }
}

/// An open store. The handle of the keyspace comes first, so that it is gone when the database closes.
pub(crate) struct Store {
    pub(crate) keyspace: Keyspace,
    _database: Database,
}

/// What all stores of an archive share.
pub(crate) struct Shared {
    /// For its block cache, whose type has no public name.
    config: Config,
}

impl Shared {
    pub(crate) fn new(options: &ArchiveOptions) -> Self {
        let config = Database::builder(".").cache_size(options.cache_bytes).into_config();
        Self { config }
    }
}

/// Makes an empty store beside its place and moves it there. fjall makes its files one by one and cannot go on where a
/// crash stopped it.
pub(crate) fn create(path: &Path, shared: &Shared, options: &ArchiveOptions) -> Result<(), ArchiveError> {
    let fail = |source| ArchiveError::Io { path: path.to_path_buf(), source };
    let unfinished = with_suffix(path, ".new");
    if unfinished.try_exists().map_err(fail)? {
        std::fs::remove_dir_all(&unfinished).map_err(fail)?;
    }
    drop(open(&unfinished, shared, options)?);
    std::fs::rename(&unfinished, path).map_err(fail)?;
    durable::sync_parent(path).map_err(fail)
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn open(path: &Path, shared: &Shared, options: &ArchiveOptions) -> Result<Store, ArchiveError> {
    let mut config = Database::builder(path)
        .worker_threads(options.merge_threads.max(1))
        .max_cached_files(Some(OPEN_FILES_MAX))
        .into_config();
    config.cache = Arc::clone(&shared.config.cache);
    let opened = crate::lsm::open(path, REMEDY, || {
        let database = Database::open(config)?;
        let keyspace = database.keyspace(KEYSPACE, || keyspace_options(options))?;
        Ok(Store { keyspace, _database: database })
    });
    opened.map_err(|fault| of_fault(path, fault))
}

impl Store {
    /// Reads the watermark, and checks that a scan sees the same one: it is the last key, and a store that lost its count
    /// of writes would show an old state to scans while lookups still find the newest.
    pub(crate) fn mark(&self, path: &Path) -> Result<Mark, ArchiveError> {
        let fail = |error| store_error(path, error);
        let Some(stored) = self.keyspace.get(WATERMARK_KEY).map_err(fail)? else {
            return Ok(Mark::default());
        };
        let last =
            self.keyspace.iter().next_back().map(fjall::Guard::into_inner).transpose().map_err(fail)?;
        if last.is_none_or(|(key, value)| *key != WATERMARK_KEY || value != stored) {
            return Err(store_damaged(path, "lookups and scans see different states"));
        }
        Mark::decode(&stored).ok_or_else(|| store_damaged(path, "the watermark is malformed"))
    }

    /// One sorted table, synced to disk before this returns.
    pub(crate) fn write_table(
        &self,
        rows: &[([u8; 17], &[u8])],
        mark: Option<Mark>,
    ) -> Result<(), fjall::Error> {
        let mut table = self.keyspace.start_ingestion()?;
        for (key, value) in rows {
            table.write(*key, *value)?;
        }
        if let Some(mark) = mark {
            table.write(WATERMARK_KEY, mark.encode())?;
        }
        table.finish()
    }

    /// Waits a while where merging is far behind.
    pub(crate) fn wait_for_merging(&self, options: &ArchiveOptions) {
        let tables_max = usize::from(options.unmerged_tables) + UNMERGED_TABLES_OVER;
        for _ in 0..MERGE_WAIT_STEPS_MAX {
            if self.keyspace.l0_table_count() <= tables_max {
                break;
            }
            std::thread::sleep(MERGE_WAIT_STEP);
        }
    }
}

fn keyspace_options(options: &ArchiveOptions) -> KeyspaceCreateOptions {
    let compression = if options.compress { CompressionType::Lz4 } else { CompressionType::None };
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(compression))
        .filter_policy(FilterPolicy::all(bloom))
        // Filters and indexes stay in memory (under two bytes per transfer), so that a lookup reads one block.
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .compaction_strategy(Arc::new(
            fjall::compaction::Leveled::default()
                .with_l0_threshold(options.unmerged_tables)
                .with_table_target_size(options.table_bytes),
        ))
}

/// Damage of the archive in `path`.
pub(crate) fn damaged(path: &Path, detail: &str) -> ArchiveError {
    ArchiveError::Damaged { path: path.to_path_buf(), detail: detail.to_owned() }
}

/// What an error about the store in `path` names: the whole archive, because a part of it cannot be made again by itself.
fn archive_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}

fn in_division(path: &Path, detail: &dyn std::fmt::Display) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("division {name}: {detail}")
}

/// Damage of the store in `path`.
pub(crate) fn store_damaged(path: &Path, detail: &str) -> ArchiveError {
    ArchiveError::Damaged { path: archive_of(path), detail: in_division(path, &detail) }
}

pub(crate) fn store_error(division: &Path, error: fjall::Error) -> ArchiveError {
    of_fault(division, error.into())
}

fn of_fault(division: &Path, fault: Fault) -> ArchiveError {
    let path = archive_of(division);
    match fault {
        Fault::InUse => ArchiveError::InUse { path },
        Fault::Poisoned => ArchiveError::Poisoned { path },
        Fault::Io(source) => ArchiveError::Io { path, source },
        Fault::Format(detail) => ArchiveError::Format { path, detail: in_division(division, &detail) },
        Fault::Damaged(detail) => ArchiveError::Damaged { path, detail: in_division(division, &detail) },
    }
}

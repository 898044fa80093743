//! The archive on disk: one keyspace of the LSM store fjall.
//!
//! A batch becomes one sorted table by bulk ingestion: no second journal, no memtable, so that a batch is either wholly
//! there and on disk or not at all, and a restart has nothing to replay.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use upesi_types::TransferId;

use crate::{Archive, ArchiveEntry, ArchiveError, ArchiveStats, check_values};

/// Where the watermark is stored: behind every transfer id, whose first byte is a small tag.
const WATERMARK_KEY: [u8; 1] = [0xff];
const KEYSPACE: &str = "transfers";

/// How the archive uses memory, disk and CPU. The defaults are those of the measured table in
/// `docs/decisions/0003-archive-store.md`.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Block cache for values that are read again, in bytes.
    pub cache_bytes: u64,
    /// Memtable
    pub memtable_bytes: u64,
    /// Target size of a sorted table, in bytes.
    pub table_bytes: u64,
    /// l0 threshold
    pub unmerged_tables: u8,
    /// block
    pub block_bytes: u32,
    /// Threads that merge tables.
    pub merge_threads: usize,
    /// lz4
    pub compress: bool,
    /// ingest
    pub ingest: bool,
    /// pin
    pub pin: bool,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            memtable_bytes: 16 << 20,
            table_bytes: 16 << 20,
            unmerged_tables: 8,
            block_bytes: 4096,
            merge_threads: 1,
            compress: false,
            ingest: true,
            pin: true,
        }
    }
}

/// An [`Archive`] in a directory of its own.
pub struct FjallArchive {
    path: PathBuf,
    database: Database,
    keyspace: Keyspace,
    watermark: AtomicU64,
    writer: Mutex<()>,
    ingest: bool,
}

impl FjallArchive {
    /// Opens the archive in `path`, creating it when it does not exist.
    pub fn open(path: impl AsRef<Path>, options: &ArchiveOptions) -> Result<Self, ArchiveError> {
        let path = path.as_ref().to_path_buf();
        let fail = |error| store_error(&path, error);
        let database = Database::builder(&path)
            .cache_size(options.cache_bytes)
            .worker_threads(options.merge_threads)
            .open()
            .map_err(fail)?;
        let keyspace = database.keyspace(KEYSPACE, || keyspace_options(options)).map_err(fail)?;
        let watermark = match keyspace.get(WATERMARK_KEY).map_err(fail)? {
            None => 0,
            Some(stored) => u64::from_le_bytes(stored.as_ref().try_into().map_err(|_| {
                ArchiveError::Damaged { path: path.clone(), detail: "malformed watermark".to_owned() }
            })?),
        };
        Ok(Self {
            path,
            database,
            keyspace,
            watermark: AtomicU64::new(watermark),
            writer: Mutex::new(()),
            ingest: options.ingest,
        })
    }

    fn fail(&self, error: fjall::Error) -> ArchiveError {
        store_error(&self.path, error)
    }
}

fn keyspace_options(options: &ArchiveOptions) -> KeyspaceCreateOptions {
    let compression = if options.compress { CompressionType::Lz4 } else { CompressionType::None };
    KeyspaceCreateOptions::default()
        .max_memtable_size(options.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(compression))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0))))
        .filter_block_pinning_policy(PinningPolicy::all(options.pin))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(options.pin))
        .compaction_strategy(std::sync::Arc::new(
            fjall::compaction::Leveled::default()
                .with_l0_threshold(options.unmerged_tables)
                .with_table_target_size(options.table_bytes),
        ))
}

fn store_error(path: &Path, error: fjall::Error) -> ArchiveError {
    let path = path.to_path_buf();
    match error {
        fjall::Error::Locked => ArchiveError::InUse { path },
        fjall::Error::Poisoned => ArchiveError::Poisoned { path },
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            ArchiveError::Io { path, source }
        }
        fjall::Error::InvalidVersion(_) => ArchiveError::Format { path, detail: error.to_string() },
        other => ArchiveError::Damaged { path, detail: other.to_string() },
    }
}

impl Archive for FjallArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, ArchiveError> {
        let value = self.keyspace.get(id.to_bytes()).map_err(|error| self.fail(error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn may_contain(&self, _id: &TransferId) -> bool {
        true
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), ArchiveError> {
        check_values(entries)?;
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let watermark = watermark.max(self.watermark.load(Ordering::Relaxed));
        let fail = |error| self.fail(error);
        if self.ingest {
            let mut order: Vec<([u8; 17], &[u8])> =
                entries.iter().map(|(id, value)| (id.to_bytes(), value.as_slice())).collect();
            order.sort_unstable_by_key(|entry| entry.0);
            order.dedup_by_key(|entry| entry.0);
            let mut ingestion = self.keyspace.start_ingestion().map_err(fail)?;
            for (key, value) in order {
                ingestion.write(key, value).map_err(fail)?;
            }
            ingestion.write(WATERMARK_KEY, watermark.to_le_bytes()).map_err(fail)?;
            ingestion.finish().map_err(fail)?;
            while self.keyspace.l0_table_count() > 24 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        } else {
            let mut batch = self.database.batch();
            for (id, value) in entries {
                batch.insert(&self.keyspace, id.to_bytes(), value.as_slice());
            }
            batch.insert(&self.keyspace, WATERMARK_KEY, watermark.to_le_bytes());
            batch.commit().map_err(fail)?;
        }
        self.watermark.store(watermark, Ordering::Release);
        Ok(())
    }

    fn sync(&self) -> Result<u64, ArchiveError> {
        self.database.persist(PersistMode::SyncData).map_err(|error| self.fail(error))?;
        Ok(self.watermark())
    }

    fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    fn watermark_applied(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    fn stats(&self) -> ArchiveStats {
        ArchiveStats {
            transfers_estimate: self.keyspace.approximate_len().saturating_sub(1) as u64,
            disk_bytes: self.database.disk_space().unwrap_or(0),
            unmerged_tables: self.keyspace.l0_table_count() as u64,
            filter_ready: false,
        }
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        for guard in self.keyspace.iter() {
            let (key, value) = guard.into_inner().map_err(|error| self.fail(error))?;
            let id = <[u8; 17]>::try_from(key.as_ref()).ok().and_then(|key| TransferId::from_bytes(&key));
            let Some(id) = id else { continue };
            if visit(id, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

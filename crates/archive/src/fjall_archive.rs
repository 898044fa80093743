//! The archive on disk: one keyspace of the LSM store fjall, with a filter and a pending batch in front.
//!
//! Applied transfers gather in memory until there are enough for a table, which is then written sorted by bulk
//! ingestion. The store's own journal and memtable are not used: the archive is derived from Upesi's journal, so what a
//! crash takes from memory is simply applied again. A table and the watermark inside it become visible and durable
//! together, and a restart has nothing to replay.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use upesi_types::TransferId;

use crate::filter::Filter;
use crate::{Archive, ArchiveEntry, ArchiveError, ArchiveStats, check_values};

/// Where the watermark is stored: behind every transfer id, whose first byte is a small tag.
const WATERMARK_KEY: [u8; 1] = [0xff];
const KEYSPACE: &str = "transfers";
/// Pending transfers are copied in portions of this size, so that a lookup waits microseconds at most.
const PENDING_CHUNK: usize = 512;
/// Up to this size the filter is rebuilt during `open`; it takes milliseconds.
const FILTER_INLINE_TRANSFERS: usize = 50_000;
/// With this many unmerged tables a writer waits for merging to catch up ...
const UNMERGED_TABLES_WAIT: usize = 32;
/// ... in steps of this length ...
const MERGE_WAIT_STEP: Duration = Duration::from_millis(5);
/// ... but no more than this many, because only the next table makes the store merge again.
const MERGE_WAIT_STEPS_MAX: usize = 200;

/// How the archive uses memory, disk and CPU. The defaults are those measured in
/// `docs/decisions/0003-archive-store.md`.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// Block cache for values that are read again, in bytes.
    pub cache_bytes: u64,
    /// Transfers that gather in memory before they are written as one table.
    pub pending_transfers: usize,
    /// Size of a table after merging, in bytes. Takes effect when the archive is created.
    pub table_bytes: u64,
    /// Unmerged tables that start a merge. Takes effect when the archive is created.
    pub unmerged_tables: u8,
    /// Size of the unit that a lookup reads, in bytes. Takes effect when the archive is created.
    pub block_bytes: u32,
    /// Whether blocks are compressed with LZ4. Takes effect when the archive is created.
    pub compress: bool,
    /// Threads that merge tables.
    pub merge_threads: usize,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            pending_transfers: 32_768,
            table_bytes: 16 << 20,
            unmerged_tables: 8,
            block_bytes: 4096,
            compress: true,
            merge_threads: 1,
        }
    }
}

/// An [`Archive`] in a directory of its own. Closing it writes nothing: call [`Archive::sync`] to keep what is pending.
pub struct FjallArchive {
    inner: Arc<Inner>,
    filter_builder: Option<JoinHandle<()>>,
    // Last, so that the handles of the keyspace are gone when the database closes.
    _database: Database,
}

struct Inner {
    path: PathBuf,
    keyspace: Keyspace,
    pending_transfers: usize,
    watermark: AtomicU64,
    watermark_applied: AtomicU64,
    /// Held by whoever applies or syncs.
    writer: Mutex<()>,
    pending: RwLock<HashMap<TransferId, Vec<u8>>>,
    filter: Filter,
    filter_ready: AtomicBool,
    closing: AtomicBool,
}

impl FjallArchive {
    /// Opens the archive in `path`, creating it when it does not exist. A large archive opens in milliseconds too; its
    /// filter is rebuilt by a thread, and until then lookups of absent ids ask the store.
    pub fn open(path: impl AsRef<Path>, options: &ArchiveOptions) -> Result<Self, ArchiveError> {
        let path = path.as_ref().to_path_buf();
        if !path.try_exists().map_err(|source| ArchiveError::Io { path: path.clone(), source })? {
            create(&path, options)?;
        }
        let (database, keyspace) = open_store(&path, options)?;
        let watermark = stored_watermark(&path, &keyspace)?;
        let stored = keyspace.approximate_len();
        let inner = Arc::new(Inner {
            path,
            keyspace,
            pending_transfers: options.pending_transfers.max(1),
            watermark: AtomicU64::new(watermark),
            watermark_applied: AtomicU64::new(watermark),
            writer: Mutex::new(()),
            pending: RwLock::default(),
            filter: Filter::with_capacity(stored),
            filter_ready: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        });
        let filter_builder = if stored <= FILTER_INLINE_TRANSFERS {
            inner.build_filter()?;
            None
        } else {
            Some(spawn_filter_builder(&inner)?)
        };
        Ok(Self { inner, filter_builder, _database: database })
    }
}

impl Drop for FjallArchive {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        if let Some(builder) = self.filter_builder.take() {
            // A panic there leaves the filter unready, which is safe.
            let _ = builder.join();
        }
    }
}

/// Makes an empty archive beside its place and moves it there. The store makes its files one by one and cannot go on where
/// a crash stopped it.
fn create(path: &Path, options: &ArchiveOptions) -> Result<(), ArchiveError> {
    let fail = |source| ArchiveError::Io { path: path.to_path_buf(), source };
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.try_exists().map_err(fail)? {
        std::fs::remove_dir_all(&unfinished).map_err(fail)?;
    }
    drop(open_store(&unfinished, options)?);
    std::fs::rename(&unfinished, path).map_err(fail)?;
    // The parent of a relative name is the empty path, which stands for the working directory.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()).map_err(fail)
}

fn open_store(path: &Path, options: &ArchiveOptions) -> Result<(Database, Keyspace), ArchiveError> {
    let database = Database::builder(path)
        .cache_size(options.cache_bytes)
        .worker_threads(options.merge_threads.max(1))
        .open()
        .map_err(|error| open_error(path, error))?;
    let keyspace =
        database.keyspace(KEYSPACE, || keyspace_options(options)).map_err(|error| open_error(path, error))?;
    Ok((database, keyspace))
}

/// Reads the watermark, and checks that a scan sees the same one: it is the last key, and a store that lost its count of
/// writes would show an old state to scans while lookups still find the newest.
fn stored_watermark(path: &Path, keyspace: &Keyspace) -> Result<u64, ArchiveError> {
    let fail = |error| store_error(path, error);
    let damaged =
        |detail: &str| ArchiveError::Damaged { path: path.to_path_buf(), detail: detail.to_owned() };
    let Some(stored) = keyspace.get(WATERMARK_KEY).map_err(fail)? else {
        return Ok(0);
    };
    let last = keyspace.iter().next_back().map(fjall::Guard::into_inner).transpose().map_err(fail)?;
    if last.is_none_or(|(key, value)| *key != WATERMARK_KEY || value != stored) {
        return Err(damaged("lookups and scans see different states"));
    }
    let bytes = stored.as_ref().try_into().map_err(|_| damaged("the watermark is malformed"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn spawn_filter_builder(inner: &Arc<Inner>) -> Result<JoinHandle<()>, ArchiveError> {
    let builder = Arc::clone(inner);
    std::thread::Builder::new()
        .name("archive-filter".to_owned())
        .spawn(move || {
            // After an error the filter stays unready: lookups go to the store, which reports the error to them.
            let _ = builder.build_filter();
        })
        .map_err(|source| ArchiveError::Io { path: inner.path.clone(), source })
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

/// At opening, a file that is missing, in the way or too short is damage rather than a refusal of the system.
fn open_error(path: &Path, error: fjall::Error) -> ArchiveError {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, NotFound, UnexpectedEof};
    match store_error(path, error) {
        ArchiveError::Io { path, source }
            if matches!(source.kind(), AlreadyExists | InvalidData | NotFound | UnexpectedEof) =>
        {
            ArchiveError::Damaged { path, detail: source.to_string() }
        }
        other => other,
    }
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

impl Inner {
    fn fail(&self, error: fjall::Error) -> ArchiveError {
        store_error(&self.path, error)
    }

    fn writer(&self) -> MutexGuard<'_, ()> {
        // Guards no data; the maps behind it are whole after every call.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> RwLockReadGuard<'_, HashMap<TransferId, Vec<u8>>> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn build_filter(&self) -> Result<(), ArchiveError> {
        let mut chunk = Vec::with_capacity(PENDING_CHUNK);
        self.visit_stored(&mut |id, _| {
            chunk.push(id);
            if chunk.len() == PENDING_CHUNK {
                self.filter.insert(&chunk);
                chunk.clear();
            }
            match self.closing.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        self.filter.insert(&chunk);
        if !self.closing.load(Ordering::Relaxed) {
            self.filter_ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn visit_stored(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        for guard in self.keyspace.iter() {
            let (key, value) = guard.into_inner().map_err(|error| self.fail(error))?;
            if *key == WATERMARK_KEY {
                continue;
            }
            let id = <[u8; 17]>::try_from(&*key).ok().and_then(|key| TransferId::from_bytes(&key));
            let Some(id) = id else {
                let detail = format!("a key of {} bytes is no transfer id", key.len());
                return Err(ArchiveError::Damaged { path: self.path.clone(), detail });
            };
            if visit(id, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn gather(&self, entries: &[ArchiveEntry]) {
        for chunk in entries.chunks(PENDING_CHUNK) {
            let mut pending = self.pending.write().unwrap_or_else(PoisonError::into_inner);
            pending.extend(chunk.iter().map(|(id, value)| (*id, value.clone())));
        }
    }

    /// Writes what is pending and `entries` as tables, the watermark into the last of them.
    fn write(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), ArchiveError> {
        let pending = self.pending();
        let mut rows: Vec<([u8; 17], &[u8])> = Vec::with_capacity(pending.len() + entries.len());
        rows.extend(entries.iter().rev().map(|(id, value)| (id.to_bytes(), value.as_slice())));
        rows.extend(pending.iter().map(|(id, value)| (id.to_bytes(), value.as_slice())));
        // The newest of equal ids stands first, the sort is stable, and the first of equals is kept.
        rows.sort_by_key(|row| row.0);
        rows.dedup_by_key(|row| row.0);
        // More than one table only for a batch far larger than asked for. The earlier ones may survive a crash without
        // the watermark; applying them again is harmless.
        let tables = rows.len().div_ceil(self.pending_transfers * 2).max(1);
        let rows_per_table = rows.len().div_ceil(tables).max(1);
        let mut chunks = rows.chunks(rows_per_table).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let last = chunks.peek().is_none();
            self.write_table(chunk, last.then_some(watermark)).map_err(|error| self.fail(error))?;
            if last {
                break;
            }
        }
        drop(rows);
        drop(pending);
        let written = std::mem::take(&mut *self.pending.write().unwrap_or_else(PoisonError::into_inner));
        // Freed without the lock: lookups go on.
        drop(written);
        self.watermark.store(watermark, Ordering::Release);
        Ok(())
    }

    /// One sorted table, synced to disk before this returns.
    fn write_table(&self, rows: &[([u8; 17], &[u8])], watermark: Option<u64>) -> Result<(), fjall::Error> {
        let mut table = self.keyspace.start_ingestion()?;
        for (key, value) in rows {
            table.write(*key, *value)?;
        }
        if let Some(watermark) = watermark {
            table.write(WATERMARK_KEY, watermark.to_le_bytes())?;
        }
        table.finish()?;
        for _ in 0..MERGE_WAIT_STEPS_MAX {
            if self.keyspace.l0_table_count() <= UNMERGED_TABLES_WAIT {
                break;
            }
            std::thread::sleep(MERGE_WAIT_STEP);
        }
        Ok(())
    }
}

impl Archive for FjallArchive {
    fn get(&self, id: &TransferId) -> Result<Option<Vec<u8>>, ArchiveError> {
        if !self.may_contain(id) {
            return Ok(None);
        }
        // Pending first: a transfer leaves there only after the store has it.
        if let Some(value) = self.inner.pending().get(id) {
            return Ok(Some(value.clone()));
        }
        let value = self.inner.keyspace.get(id.to_bytes()).map_err(|error| self.inner.fail(error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn may_contain(&self, id: &TransferId) -> bool {
        !self.inner.filter_ready.load(Ordering::Acquire) || self.inner.filter.may_contain(id)
    }

    fn apply(&self, entries: &[ArchiveEntry], watermark: u64) -> Result<(), ArchiveError> {
        check_values(entries)?;
        let inner = &*self.inner;
        let _writer = inner.writer();
        let watermark = watermark.max(inner.watermark_applied.load(Ordering::Relaxed));
        // Before the entries themselves, so that no lookup finds the filter behind the store.
        inner.filter.insert(entries.iter().map(|(id, _)| id));
        let gathered = inner.pending().len();
        if gathered + entries.len() < inner.pending_transfers {
            inner.gather(entries);
        } else {
            inner.write(entries, watermark)?;
        }
        inner.watermark_applied.store(watermark, Ordering::Release);
        Ok(())
    }

    fn sync(&self) -> Result<u64, ArchiveError> {
        let inner = &*self.inner;
        let _writer = inner.writer();
        let watermark = inner.watermark_applied.load(Ordering::Relaxed);
        if watermark > inner.watermark.load(Ordering::Relaxed) || !inner.pending().is_empty() {
            inner.write(&[], watermark)?;
        }
        Ok(watermark)
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark.load(Ordering::Acquire)
    }

    fn watermark_applied(&self) -> u64 {
        self.inner.watermark_applied.load(Ordering::Acquire)
    }

    fn stats(&self) -> ArchiveStats {
        let inner = &*self.inner;
        // One stored entry per unmerged table is the watermark; the estimate does not care.
        let stored = inner.keyspace.approximate_len() as u64;
        ArchiveStats {
            transfers_estimate: stored + inner.pending().len() as u64,
            disk_bytes: inner.keyspace.disk_space(),
            unmerged_tables: inner.keyspace.l0_table_count() as u64,
            filter_bytes: inner.filter.bytes() as u64,
            filter_ready: inner.filter_ready.load(Ordering::Acquire),
        }
    }

    fn for_each(
        &self,
        visit: &mut dyn FnMut(TransferId, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ArchiveError> {
        // Pending transfers are written first: one order, one source.
        self.sync()?;
        self.inner.visit_stored(visit)
    }
}

//! Durable key-value tables for data other than money: the party directory, the registry of oracles, stored quotes.
//!
//! One thread writes. [`Store::update`] passes it a closure that reads, checks and writes. All updates that queued up
//! during the sync of the previous batch become one record of the log with one sync, and each caller is answered only
//! when its record is durable. Readers ([`Table::get`], [`Table::scan`]) never wait for the writer's queue and see only
//! durable values.
//!
#![doc = include_str!("store/README.md")]

mod digest;
mod follower;
mod loading;
mod options;
mod pending;
mod record;
mod recovery;
mod resident;
#[cfg(test)]
mod resident_tests;
mod sync;
mod table;
mod tables;
mod transaction;
mod writer;

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use upesi_journal::{Access, Disk, JournalError, RealDisk, durable};

use self::recovery::RecoveredStore;
use self::resident::Resident;
use self::table::TableState;
use self::tables::Tables;
use self::writer::{Completion, Job, Worker};
use crate::{DatabaseKind, TablesError};
pub use digest::{StoreDigest, digest};
pub use follower::{StoreEnd, StoreFollower};
pub use options::StoreOptions;
pub use record::{RecordedChange, read_record, write_record};
pub use table::{Entry, Table, Value};
pub use tables::OPEN_FILES_MAX;
pub use transaction::Transaction;

/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Maximum size of a value, in bytes: more than a quote's request needs.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// Maximum size of the keys and values that one update writes, in bytes.
pub const UPDATE_BYTES_MAX: usize = 64 << 20;

/// Durable tables in a directory. Cheap to clone; dropping the last clone stops the writer.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    writer: Arc<WriterHandle>,
}

/// Sizes and counts of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Batches that were synced since opening.
    pub batches: u64,
    /// Updates that succeeded since opening.
    pub updates: u64,
    /// Updates that were rejected because the queue or the disk was full, or after a failure.
    pub updates_shed: u64,
    /// Bytes of the sorted tables on disk.
    pub disk_bytes: u64,
    /// Approximate size of changes in memory that are not in sorted tables yet, in bytes.
    pub pending_bytes: u64,
    /// Tables that are completely in memory, so that lookups do not read the disk.
    pub resident_tables: u64,
    /// Memory of these tables and of tables that are still being loaded, in bytes.
    pub resident_bytes: u64,
    /// Whether an earlier failure stopped all updates.
    pub poisoned: bool,
}

/// State that the handles and the writer share.
pub(crate) struct Inner {
    path: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) tables: Arc<Tables>,
    poisoned: AtomicBool,
    /// Set when another node of the cluster is the leader.
    superseded: OnceLock<TablesError>,
    pub(crate) batches: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) updates_shed: AtomicU64,
    to_load: Mutex<VecDeque<Arc<TableState>>>,
}

struct WriterHandle {
    queue: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `path`, and creates it if it does not exist. Every update that succeeded is there, whatever
    /// happened meanwhile. An update that was not answered is there completely or not at all.
    pub fn open(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self, TablesError> {
        let path = path.as_ref();
        durable::create_directory(path)
            .map_err(|source| TablesError::io(DatabaseKind::Store, path, source))?;
        Self::open_with_log_on(path, Arc::new(RealDisk::new(path, Access::Write)), options)
    }

    /// The same with the log on another disk, for example a simulated one. The sorted tables are in `path`.
    pub fn open_with_log_on(
        path: impl AsRef<Path>,
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
    ) -> Result<Self, TablesError> {
        let path = path.as_ref().to_path_buf();
        let RecoveredStore { tables, log } = recovery::recover(&path, &disk, options)?;
        let (last_seq, last_time_ns) = (log.next_seq() - 1, log.last_time_ns());
        let end = StoreEnd { appender: Box::new(log), last_seq, last_time_ns };
        Self::start(path, disk, Arc::new(tables), options, end)
    }

    /// Starts the writer over tables that show the whole log.
    fn start(
        path: PathBuf,
        disk: Arc<dyn Disk>,
        tables: Arc<Tables>,
        options: &StoreOptions,
        StoreEnd { appender, last_seq, last_time_ns }: StoreEnd,
    ) -> Result<Self, TablesError> {
        let inner = Arc::new(Inner {
            path,
            options: options.clone(),
            tables,
            poisoned: AtomicBool::new(false),
            superseded: OnceLock::new(),
            batches: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            updates_shed: AtomicU64::new(0),
            to_load: Mutex::default(),
        });
        let frame = upesi_journal::Batch::new(last_seq + 1);
        let worker = Worker { inner: Arc::clone(&inner), disk, log: appender, last_seq, last_time_ns, frame };
        let (sender, jobs) = sync_channel(options.queue_updates_max.max(1));
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || worker.run(&jobs))
            .map_err(|source| TablesError::io(DatabaseKind::Store, &inner.path, source))?;
        let writer = WriterHandle { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        Ok(Self { inner, writer: Arc::new(writer) })
    }

    /// The table called `name` (letters, digits, `_`), which is created if it does not exist. Creation costs a few
    /// syncs.
    pub fn table(&self, name: &str) -> Result<Table, TablesError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        assert!(!name.is_empty() && name.bytes().all(is_name), "{name:?} is not the name of a table");
        Ok(Table { state: self.inner.tables.table(name)?, tables: Arc::clone(&self.inner.tables) })
    }

    /// Keeps all of `table` in memory, in about 13 bytes for each entry, so that [`Table::get`] takes a fraction of a
    /// microsecond. This is for tables with few different values; other values stay on disk. The table is loaded once,
    /// in the background. Until then, and if it would need more than `bytes_max` bytes, gets read the disk as usual.
    /// There is no other change.
    pub fn keep_in_memory(&self, table: &Table, bytes_max: u64) {
        if table.state.make_resident(bytes_max) {
            self.inner.to_load().push_back(Arc::clone(&table.state));
            // Wakes the writer; if its queue is full it is awake.
            drop(self.enqueue(|_| Ok(())));
        }
    }

    /// Queues `update` at once and resolves when its writes are durable; only then are they visible to readers.
    ///
    /// Updates run in the order of these calls, on the writer's thread; each sees the writes of all earlier ones. An
    /// update that returns an error changes nothing. Dropping the future does not cancel the update. The closure should
    /// take microseconds, because all other updates wait for it.
    pub fn update<T, F>(&self, update: F) -> impl Future<Output = Result<T, TablesError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, TablesError> + Send + 'static,
    {
        let answer = self.enqueue(update);
        async move { answer?.await.unwrap_or(Err(TablesError::Closed)) }
    }

    /// [`Store::update`] for threads that may block, such as tools.
    ///
    /// # Panics
    /// Inside an async runtime, which must not be blocked.
    pub fn update_blocking<T, F>(&self, update: F) -> Result<T, TablesError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, TablesError> + Send + 'static,
    {
        self.enqueue(update)?.blocking_recv().unwrap_or(Err(TablesError::Closed))
    }

    /// Whether another node of the cluster was found to be the leader. Updates are rejected since then.
    pub fn is_superseded(&self) -> bool {
        self.inner.superseded.get().is_some()
    }

    /// Rejects further updates, finishes the queued ones, and stops the writer. Readers can continue. Waits for
    /// the disk.
    pub fn close(&self) {
        self.writer.close();
    }

    /// Reports whether the files of the store are still in use: by a clone, a table, or a read. The returned function
    /// does not itself count.
    pub fn usage(&self) -> impl Fn() -> bool + Send + use<> {
        let tables = Arc::downgrade(&self.inner.tables);
        move || tables.strong_count() > 0
    }

    /// Counts and sizes for metrics; cheap enough to read every few seconds.
    pub fn stats(&self) -> StoreStats {
        let inner = &*self.inner;
        StoreStats {
            batches: inner.batches.load(Ordering::Relaxed),
            updates: inner.updates.load(Ordering::Relaxed),
            updates_shed: inner.updates_shed.load(Ordering::Relaxed),
            disk_bytes: inner.tables.disk_bytes(),
            pending_bytes: inner.tables.pending_bytes() as u64,
            resident_tables: inner.tables.resident(|table| u64::from(table.is_complete())),
            resident_bytes: inner.tables.resident(Resident::bytes),
            poisoned: inner.poisoned.load(Ordering::Acquire),
        }
    }

    fn enqueue<T, F>(&self, update: F) -> Result<oneshot::Receiver<Result<T, TablesError>>, TablesError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, TablesError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |transaction| {
            let outcome = transaction.and_then(|mut transaction| {
                let outcome = update(&mut transaction);
                if outcome.is_err() {
                    transaction.roll_back();
                }
                outcome
            });
            // The caller may have stopped waiting.
            Box::new(move |committed: Result<(), TablesError>| {
                let _ = sender.send(outcome.and_then(|value| committed.map(|()| value)));
            }) as Completion
        });
        let queue = lock(&self.writer.queue);
        match queue.as_ref().map(|queue| queue.try_send(job)) {
            Some(Ok(())) => Ok(receiver),
            Some(Err(TrySendError::Full(_))) => {
                self.inner.updates_shed.fetch_add(1, Ordering::Relaxed);
                Err(TablesError::Busy { updates_max: self.inner.options.queue_updates_max })
            }
            Some(Err(TrySendError::Disconnected(_))) | None => Err(TablesError::Closed),
        }
    }
}

impl Inner {
    /// Tables that are still to be loaded into memory.
    pub(crate) fn to_load(&self) -> MutexGuard<'_, VecDeque<Arc<TableState>>> {
        lock(&self.to_load)
    }

    /// Whether a batch may begin.
    pub(crate) fn ready(&self) -> Result<(), TablesError> {
        if let Some(superseded) = self.superseded.get() {
            return Err(superseded.clone());
        }
        if self.poisoned.load(Ordering::Acquire) {
            return Err(TablesError::Poisoned { part: DatabaseKind::Store, path: self.path.clone() });
        }
        let free_bytes = self.free_bytes()?;
        if free_bytes < self.options.free_bytes_min {
            return Err(self.disk_full(free_bytes));
        }
        Ok(())
    }

    /// Stops all updates after this error.
    pub(crate) fn poison(&self, error: &TablesError) -> u64 {
        if matches!(error, TablesError::NotLeading { .. }) {
            let _ = self.superseded.set(error.clone());
            return 0;
        }
        tracing::error!(%error, "the store no longer accepts updates; reads continue");
        self.poisoned.store(true, Ordering::Release);
        0
    }

    pub(crate) fn of_journal(&self, error: JournalError) -> TablesError {
        match error {
            JournalError::DiskFull { .. } => self.disk_full(self.free_bytes().unwrap_or(0)),
            other => TablesError::of_journal(&self.path, other),
        }
    }

    fn disk_full(&self, free_bytes: u64) -> TablesError {
        let free_bytes_min = self.options.free_bytes_min;
        TablesError::DiskFull { path: self.path.clone(), free_bytes, free_bytes_min }
    }

    /// Free space on the disk for a process without privileges, in bytes.
    fn free_bytes(&self) -> Result<u64, TablesError> {
        let found = rustix::fs::statvfs(&self.path);
        let found = found.map_err(|error| TablesError::io(DatabaseKind::Store, &self.path, error.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.inner.path).finish()
    }
}

impl WriterHandle {
    fn close(&self) {
        drop(lock(&self.queue).take());
        let thread = lock(&self.thread).take();
        // An update may hold the last clone of its own store. The writer cannot wait for itself, and ends anyway.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // Waiting callers know of a panic there, since their answers were dropped. It must not stay unnoticed.
            if let (Err(panic), false) = (thread.join(), std::thread::panicking()) {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data is consistent after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

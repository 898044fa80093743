//! Opening, closing, and handing updates to the writer.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use tokio::sync::oneshot;

use crate::transaction::Transaction;
use crate::writer::{self, Completion, Job};
use crate::{StoreError, StoreOptions, Table};

/// Durable tables in a directory of their own. Cheap to clone; the last clone that goes stops the writer.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    writer: Arc<Writer>,
}

/// What a store says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Batches that were synced since opening.
    pub batches: u64,
    /// Updates that were answered with success since opening.
    pub updates: u64,
    /// Updates that were refused because the queue or the disk was full.
    pub updates_shed: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Whether an earlier failure stopped all updates.
    pub poisoned: bool,
}

/// What readers and the writer share.
pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) options: StoreOptions,
    pub(crate) poisoned: AtomicBool,
    pub(crate) batches: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) updates_shed: AtomicU64,
    tables: Mutex<HashMap<String, (usize, Keyspace)>>,
    // Last, so that the handles of the keyspaces are gone when the database closes.
    pub(crate) database: Database,
}

struct Writer {
    queue: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `path`, creating it when it does not exist. What was answered with success before is there,
    /// whatever happened meanwhile; an update that was not answered is there as a whole or not at all.
    pub fn open(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        if !path.try_exists().map_err(|source| StoreError::io(&path, source))? {
            create(&path, options)?;
        }
        let database = open_database(&path, options)?;
        let inner = Arc::new(Inner {
            path,
            options: options.clone(),
            poisoned: AtomicBool::new(false),
            batches: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            updates_shed: AtomicU64::new(0),
            tables: Mutex::default(),
            database,
        });
        let (sender, jobs) = sync_channel(options.queue_updates_max.max(1));
        let of_writer = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(&of_writer, &jobs))
            .map_err(|source| StoreError::io(&inner.path, source))?;
        let writer = Writer { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        Ok(Self { inner, writer: Arc::new(writer) })
    }

    /// The table called `name` (letters, digits, `_`), created when it does not exist. Costs a few syncs the first time.
    pub fn table(&self, name: &str) -> Result<Table, StoreError> {
        let mut tables = lock(&self.inner.tables);
        let next = tables.len();
        let (index, keyspace) = match tables.get(name) {
            Some((index, keyspace)) => (*index, keyspace.clone()),
            None => {
                let keyspace = (self.inner.database)
                    .keyspace(name, || table_options(&self.inner.options))
                    .map_err(|error| StoreError::of_fjall(&self.inner.path, error))?;
                tables.insert(name.to_owned(), (next, keyspace.clone()));
                (next, keyspace)
            }
        };
        Ok(Table { index, keyspace, inner: Arc::clone(&self.inner) })
    }

    /// Queues `update` at once and resolves when what it wrote is durable; only then is it visible to readers.
    ///
    /// Updates run in the order of these calls, on the writer's thread; each sees what all before it wrote. An update that
    /// returns an error changed nothing. Dropping the future does not take the update back. The closure should take
    /// microseconds: everybody waits for it.
    pub fn update<T, F>(&self, update: F) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let answer = self.enqueue(update);
        async move { answer?.await.unwrap_or(Err(StoreError::Closed)) }
    }

    /// [`Store::update`] for threads that may wait, such as tools.
    ///
    /// # Panics
    /// Inside an async runtime, which must not be held up.
    pub fn update_blocking<T, F>(&self, update: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.enqueue(update)?.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Takes no more updates, finishes those that are queued, and stops the writer. Readers go on. Waits for the disk.
    pub fn close(&self) {
        self.writer.close();
    }

    /// Counts and sizes for metrics.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            batches: self.inner.batches.load(Ordering::Relaxed),
            updates: self.inner.updates.load(Ordering::Relaxed),
            updates_shed: self.inner.updates_shed.load(Ordering::Relaxed),
            disk_bytes: self.inner.database.disk_space().unwrap_or(0),
            poisoned: self.inner.poisoned.load(Ordering::Acquire),
        }
    }

    fn enqueue<T, F>(&self, update: F) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |transaction| {
            let outcome = transaction.and_then(|mut transaction| match update(&mut transaction) {
                Ok(value) => Ok(value),
                Err(error) => {
                    transaction.roll_back();
                    Err(error)
                }
            });
            // The receiver may be gone: nobody waits any more.
            Box::new(move |committed: Result<(), StoreError>| {
                let _ = sender.send(outcome.and_then(|value| committed.map(|()| value)));
            }) as Completion
        });
        let queue = lock(&self.writer.queue);
        match queue.as_ref().map(|queue| queue.try_send(job)) {
            Some(Ok(())) => Ok(receiver),
            Some(Err(TrySendError::Full(_))) => {
                self.inner.updates_shed.fetch_add(1, Ordering::Relaxed);
                Err(StoreError::Busy { updates_max: self.inner.options.queue_updates_max })
            }
            Some(Err(TrySendError::Disconnected(_))) | None => Err(StoreError::Closed),
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.inner.path).finish()
    }
}

impl Writer {
    fn close(&self) {
        drop(lock(&self.queue).take());
        let thread = lock(&self.thread).take();
        // An update may hold the last clone of its own store; the writer cannot wait for itself, and ends anyway.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there was told to those who waited: their answers were dropped.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is whole after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an empty database beside its place and moves it there. The database makes its files one by one and cannot go on
/// where a crash stopped it.
fn create(path: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    let fail = |source| StoreError::io(path, source);
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.try_exists().map_err(fail)? {
        std::fs::remove_dir_all(&unfinished).map_err(fail)?;
    }
    drop(open_database(&unfinished, options)?);
    std::fs::rename(&unfinished, path).map_err(fail)?;
    // The parent of a relative name is the empty path, which stands for the working directory.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all()).map_err(fail)
}

fn open_database(path: &Path, options: &StoreOptions) -> Result<Database, StoreError> {
    Database::builder(path)
        .cache_size(options.cache_bytes)
        .worker_threads(1)
        // The writer syncs once per batch, explicitly.
        .manual_journal_persist(true)
        .open()
        .map_err(|error| StoreError::of_opening(path, error))
}

fn table_options(options: &StoreOptions) -> KeyspaceCreateOptions {
    let compression = if options.compress { CompressionType::Lz4 } else { CompressionType::None };
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(options.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .data_block_compression_policy(CompressionPolicy::all(compression))
        // On every level, the last one too: a party that nobody registered costs no read.
        .filter_policy(FilterPolicy::all(bloom))
        // Filters and indexes stay in memory, so that a lookup reads one block.
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .compaction_strategy(Arc::new(
            fjall::compaction::Leveled::default().with_table_target_size(options.table_bytes),
        ))
}

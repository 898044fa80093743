//! The writer's thread: batches of whatever queued up, one sync each.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fjall::{Keyspace, PersistMode};

use crate::StoreError;
use crate::store::Inner;
use crate::transaction::{Batch, Transaction};

/// Answers an update once its batch is durable, or tells why it is not.
pub(crate) type Completion = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Runs an update, or takes notice that it cannot be run, and gives back how to answer it.
pub(crate) type Job = Box<dyn FnOnce(Result<Transaction<'_>, StoreError>) -> Completion + Send>;

/// With this many full memtables of a table the database would hold up a commit, without noticing a failure meanwhile ...
const MEMTABLES_WAITING_MAX: usize = 2;
/// ... and with this many unmerged files. So the writer waits before it comes to that, and does notice.
const UNMERGED_TABLES_MAX: usize = 16;
const HOUSEKEEPING_WAIT_STEP: Duration = Duration::from_millis(2);
/// Merging is waited for no longer than this many steps per batch, because only the next file makes the database merge again.
const MERGE_WAIT_STEPS_MAX: usize = 250;

/// Runs until every sender of `jobs` is gone and the queue is empty.
pub(crate) fn run(inner: &Inner, jobs: &Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        if let Err(error) = ready(inner) {
            if matches!(error, StoreError::DiskFull { .. }) {
                inner.updates_shed.fetch_add(1, Ordering::Relaxed);
            }
            first(Err(error.clone()))(Err(error));
            continue;
        }
        let mut batch = Batch::default();
        let mut completions = vec![first(Ok(Transaction::new(&mut batch)))];
        while completions.len() < inner.options.batch_updates_max
            && batch.bytes() < inner.options.batch_bytes_max
            && let Ok(job) = jobs.try_recv()
        {
            completions.push(job(Ok(Transaction::new(&mut batch))));
        }
        let actions = batch.take_actions();
        let committed = commit(inner, batch);
        if committed.is_ok() {
            inner.updates.fetch_add(completions.len() as u64, Ordering::Relaxed);
            actions.into_iter().for_each(|action| action());
        } else {
            inner.poisoned.store(true, Ordering::Release);
        }
        for complete in completions {
            complete(committed.clone());
        }
    }
}

/// Whether a batch may be begun.
fn ready(inner: &Inner) -> Result<(), StoreError> {
    if inner.poisoned.load(Ordering::Acquire) {
        return Err(StoreError::Poisoned { path: inner.path.clone() });
    }
    let free_bytes = free_bytes(&inner.path)?;
    let free_bytes_min = inner.options.free_bytes_min;
    if free_bytes < free_bytes_min {
        return Err(StoreError::DiskFull { path: inner.path.clone(), free_bytes, free_bytes_min });
    }
    Ok(())
}

/// Room on the disk for a process without privileges, in bytes.
fn free_bytes(path: &Path) -> Result<u64, StoreError> {
    let found = rustix::fs::statvfs(path).map_err(|error| StoreError::io(path, error.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Logs and syncs the batch, then shows it to readers.
fn commit(inner: &Inner, batch: Batch) -> Result<(), StoreError> {
    if batch.is_empty() {
        return Ok(());
    }
    let fail = |error| StoreError::of_fjall(&inner.path, error);
    for keyspace in batch.keyspaces() {
        wait_for_housekeeping(inner, keyspace).map_err(fail)?;
    }
    let sync = inner.database.batch().durability(Some(PersistMode::SyncData));
    batch.pour(sync).commit().map_err(fail)?;
    inner.batches.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Lets flushing and merging catch up. Ends with an error when the thread that does it failed.
fn wait_for_housekeeping(inner: &Inner, keyspace: &Keyspace) -> Result<(), fjall::Error> {
    let mut steps = 0;
    while keyspace.sealed_memtable_count() > MEMTABLES_WAITING_MAX
        || (keyspace.l0_table_count() > UNMERGED_TABLES_MAX && steps < MERGE_WAIT_STEPS_MAX)
    {
        // Tells whether the database was poisoned; there is nothing to write.
        inner.database.persist(PersistMode::Buffer)?;
        std::thread::sleep(HOUSEKEEPING_WAIT_STEP);
        steps += 1;
    }
    Ok(())
}

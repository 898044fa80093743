//! Reading a table.

use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::lsm::{self, Guard, Keyspace, UserKey, UserValue};

use crate::TablesError;
use crate::store::pending::{Change, Changes, PendingChanges};
use crate::store::resident::{Residence, Resident};
use crate::store::tables::Tables;

/// Changes are shown to readers in portions of this number, so that a reader waits for microseconds at most.
const PORTION: usize = 512;

/// A named table of a store: keys and values are bytes, ordered by key. Cheap to clone.
///
/// Any thread may read. Reads may wait for the disk, and briefly while the store adds a new file (a sync of a small
/// file); usually they take microseconds.
#[derive(Clone)]
pub struct Table {
    pub(crate) state: Arc<TableState>,
    // After the keyspace in the state, so that the store's files are unlocked last.
    pub(crate) tables: Arc<Tables>,
}

/// The parts of a table: pending changes in memory, sorted data on disk and, if requested, all of it in memory.
pub(crate) struct TableState {
    pub(crate) keyspace: Keyspace,
    pending: RwLock<PendingChanges>,
    resident: OnceLock<Resident>,
}

/// A stored value; shared, not copied.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(pub(crate) UserValue);

/// A stored key and its value.
pub type Entry = (Vec<u8>, Value);

impl Table {
    /// The durable value of `key`. A value that is queued or being synced is not visible before its update resolves.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, TablesError> {
        if let Some(resident) = self.state.resident.get()
            && let Residence::Known(value) = resident.get(key)
        {
            return Ok(value.map(Value));
        }
        // Pending first: a change leaves there only after the sorted tables have it.
        if let Some(change) = self.state.pending().get(key) {
            return Ok(change.clone().map(Value));
        }
        self.state.keyspace.get(key).map(|value| value.map(Value)).map_err(|error| self.tables.fail(error))
    }

    /// Up to `limit` entries whose keys begin with `prefix`, in key order, after the key `after` if there is one. An
    /// update that writes several entries may become visible entry by entry.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>, TablesError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        // Held to the end, so that pending changes stay pending meanwhile.
        let pending = self.state.pending();
        let mut changes = pending.changes().range::<[u8], _>((start, Bound::Unbounded)).peekable();
        let mut sorted = self.state.keyspace.range::<&[u8], _>((start, Bound::Unbounded));
        let mut next_sorted = || {
            let guard = sorted.next();
            guard.map(Guard::into_inner).transpose().map_err(|error| self.tables.fail(error))
        };
        let mut stored = next_sorted()?;
        let mut entries = Vec::new();
        while entries.len() < limit {
            let change_is_next = match (changes.peek(), &stored) {
                (None, None) => break,
                (Some((key, _)), Some((stored_key, _))) => *key <= stored_key,
                (change, _) => change.is_some(),
            };
            let (key, value) = if change_is_next {
                let Some((key, change)) = changes.next() else { break };
                if stored.as_ref().is_some_and(|(stored_key, _)| stored_key == key) {
                    stored = next_sorted()?;
                }
                (key.clone(), change.clone())
            } else {
                let Some((key, value)) = stored.take() else { break };
                stored = next_sorted()?;
                (key, Some(value))
            };
            if !key.starts_with(prefix) {
                break;
            }
            entries.extend(value.map(|value| (key.to_vec(), Value(value))));
        }
        Ok(entries)
    }

    /// Number of entries; overwritten or deleted ones that are not merged yet make it too high. Costs nothing.
    pub fn entries_estimate(&self) -> u64 {
        (self.state.keyspace.approximate_len() + self.state.pending().changes().len()) as u64
    }

    pub fn name(&self) -> &str {
        self.state.keyspace.name()
    }
}

impl TableState {
    pub(crate) fn new(keyspace: Keyspace) -> Self {
        Self { keyspace, pending: RwLock::default(), resident: OnceLock::new() }
    }

    pub(crate) fn pending(&self) -> RwLockReadGuard<'_, PendingChanges> {
        // Consistent after every call.
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending_mut(&self) -> RwLockWriteGuard<'_, PendingChanges> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table in memory, if this was requested.
    pub(crate) fn resident(&self) -> Option<&Resident> {
        self.resident.get()
    }

    /// Keeps the table in memory from now on; the writer loads its existing entries. Returns whether this was the first
    /// call.
    pub(crate) fn make_resident(&self, bytes_max: u64) -> bool {
        let entries = self.keyspace.approximate_len() as u64;
        self.resident.set(Resident::new(entries, bytes_max)).is_ok()
    }

    /// Shows durable changes to readers.
    pub(crate) fn show(&self, changes: Changes) {
        if let Some(resident) = self.resident.get() {
            changes.iter().for_each(|(key, change)| resident.set(key, change.as_ref()));
        }
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut pending = self.pending_mut();
            changes.by_ref().take(PORTION).for_each(|(key, change)| pending.set(key, change));
        }
    }

    /// Shows one durable change.
    pub(crate) fn show_one(&self, key: UserKey, change: Change) {
        self.pending_mut().set(key, change);
    }

    /// Writes the pending changes as a sorted table, and syncs it before this returns. Only the writer calls this.
    pub(crate) fn flush(&self) -> Result<(), lsm::Error> {
        let pending = self.pending();
        if pending.changes().is_empty() {
            return Ok(());
        }
        let mut table = self.keyspace.start_ingestion()?;
        for (key, change) in pending.changes() {
            match change {
                Some(value) => table.write(key.clone(), value.clone())?,
                None => table.write_tombstone(key.clone())?,
            }
        }
        table.finish()?;
        drop(pending);
        let written = std::mem::take(&mut *self.pending_mut());
        // Freed without the lock, so that readers can continue.
        drop(written);
        Ok(())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.name()).finish()
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

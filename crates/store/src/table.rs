//! Reading a table.

use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use fjall::{Keyspace, UserValue};

use crate::StoreError;
use crate::store::Inner;

/// A named table of a store: keys and values are bytes, ordered by key. Cheap to clone.
///
/// Reads come from any thread. They may wait for the disk, and for the moment in which the store registers a new file
/// (a sync of a small file); usually they take microseconds.
#[derive(Clone)]
pub struct Table {
    pub(crate) index: usize,
    pub(crate) keyspace: Keyspace,
    // After the keyspace, so that the store's files are unlocked last.
    pub(crate) inner: Arc<Inner>,
}

/// A stored value; shared, not copied.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(pub(crate) UserValue);

/// A stored key and its value.
pub type Entry = (Vec<u8>, Value);

impl Table {
    /// The durable value of `key`. A value that is queued or being synced is not seen before its update resolves.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, StoreError> {
        self.keyspace.get(key).map(|value| value.map(Value)).map_err(|error| self.fail(error))
    }

    /// Up to `limit` entries whose keys begin with `prefix`, in key order, those behind the key `after` if one is given.
    /// One update that writes several entries may become visible entry by entry.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut entries = Vec::new();
        for guard in self.keyspace.range::<&[u8], _>((start, Bound::Unbounded)).take(limit) {
            let (key, value) = guard.into_inner().map_err(|error| self.fail(error))?;
            if !key.starts_with(prefix) {
                break;
            }
            entries.push((key.to_vec(), Value(value)));
        }
        Ok(entries)
    }

    /// Number of entries, an overestimate by those that were overwritten or deleted and are not merged yet. Costs nothing.
    pub fn entries_estimate(&self) -> u64 {
        self.keyspace.approximate_len() as u64
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.keyspace.name()
    }

    fn fail(&self, error: fjall::Error) -> StoreError {
        StoreError::of_fjall(&self.inner.path, error)
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

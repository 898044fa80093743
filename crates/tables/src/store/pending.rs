//! Changes that are durable in the log but not yet in a sorted table.

use std::collections::BTreeMap;

use crate::lsm::{UserKey, UserValue};

/// A new value, or `None` for a deletion.
pub(crate) type Change = Option<UserValue>;

/// Changes by key; each key has only its latest change.
pub(crate) type Changes = BTreeMap<UserKey, Change>;

/// Approximate memory of an entry in addition to its bytes.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// The pending changes of one table, readable.
#[derive(Default)]
pub(crate) struct PendingChanges {
    changes: Changes,
    bytes: usize,
}

impl PendingChanges {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Change> {
        self.changes.get(key)
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Their approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn set(&mut self, key: UserKey, change: Change) {
        let key_bytes = key.len() + ENTRY_OVERHEAD_BYTES;
        let value_bytes = |change: &Change| change.as_ref().map_or(0, |value| value.len());
        self.bytes += value_bytes(&change);
        match self.changes.insert(key, change) {
            Some(before) => self.bytes -= value_bytes(&before),
            None => self.bytes += key_bytes,
        }
    }
}

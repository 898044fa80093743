//! The open batch, and the view of it for an update.

use std::sync::Arc;

use crate::lsm::UserKey;

use crate::store::pending::{Change, Changes};
use crate::store::table::TableState;
use crate::store::{KEY_BYTES_MAX, Table, VALUE_BYTES_MAX, Value};
use crate::{DatabaseKind, TablesError};

/// Size of a change in a record in addition to its key and value.
const CHANGE_OVERHEAD_BYTES: usize = 8;

/// An action that an update requests for the time when it is durable.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

/// The changes of a batch so far.
#[derive(Default)]
pub(crate) struct Batch {
    tables: Vec<(Arc<TableState>, Changes)>,
    bytes: usize,
    once_durable: Vec<Action>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|(_, changes)| changes.is_empty())
    }

    /// At least the size of its record, in bytes: overwritten changes are also counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (&Arc<TableState>, &Changes)> {
        self.tables.iter().map(|(table, changes)| (table, changes))
    }

    /// Shows the changes to readers, and returns the requested actions.
    pub(crate) fn show(self) -> Vec<Action> {
        for (table, changes) in self.tables {
            table.show(changes);
        }
        self.once_durable
    }

    fn change(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.tables.iter().find(|(state, _)| Arc::ptr_eq(state, &table.state))?.1.get(key)
    }

    fn changes(&mut self, table: &Table) -> &mut Changes {
        let position = self.tables.iter().position(|(state, _)| Arc::ptr_eq(state, &table.state));
        let position = position.unwrap_or_else(|| {
            self.tables.push((Arc::clone(&table.state), Changes::new()));
            self.tables.len() - 1
        });
        &mut self.tables[position].1
    }
}

/// The operations of an update: it reads its own writes and all earlier updates', and writes.
///
/// If the update returns an error, its writes are rolled back and it changes nothing.
pub struct Transaction<'a> {
    batch: &'a mut Batch,
    /// The previous values for each write of this update, latest last.
    undo: Vec<(Table, UserKey, Option<Change>)>,
    bytes_before: usize,
    bytes_max: usize,
    actions_before: usize,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(batch: &'a mut Batch, bytes_max: usize) -> Self {
        let (bytes_before, actions_before) = (batch.bytes, batch.once_durable.len());
        Self { batch, undo: Vec::new(), bytes_before, bytes_max, actions_before }
    }

    /// The current value of `key`, in the order of updates.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>, TablesError> {
        match self.batch.change(table, key) {
            Some(change) => Ok(change.clone().map(Value)),
            None => table.get(key),
        }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), TablesError> {
        check("value", value.len(), VALUE_BYTES_MAX)?;
        self.write(table, key, Some(value.into()))
    }

    /// Removes `key`, if it exists.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<(), TablesError> {
        self.write(table, key, None)
    }

    /// Runs `action` once this update is durable, before its caller is answered, even if the caller no longer waits.
    /// Use it to update copies in memory. Actions run in the order of updates, on the writer's thread, and not at all
    /// if the update or its batch fails.
    pub fn once_durable(&mut self, action: impl FnOnce() + Send + 'static) {
        self.batch.once_durable.push(Box::new(action));
    }

    fn write(&mut self, table: &Table, key: &[u8], change: Change) -> Result<(), TablesError> {
        assert!(!key.is_empty(), "an empty key");
        check("key", key.len(), KEY_BYTES_MAX)?;
        let change_bytes = key.len() + change.as_ref().map_or(0, |value| value.len()) + CHANGE_OVERHEAD_BYTES;
        let bytes = self.batch.bytes + change_bytes;
        check("update", bytes - self.bytes_before, self.bytes_max)?;
        self.batch.bytes = bytes;
        let key = UserKey::from(key);
        let before = self.batch.changes(table).insert(key.clone(), change);
        self.undo.push((table.clone(), key, before));
        Ok(())
    }

    /// Rolls back all writes of this update.
    pub(crate) fn roll_back(self) {
        self.batch.once_durable.truncate(self.actions_before);
        for (table, key, before) in self.undo.into_iter().rev() {
            let changes = self.batch.changes(&table);
            match before {
                Some(change) => changes.insert(key, change),
                None => changes.remove(&key),
            };
        }
    }
}

fn check(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), TablesError> {
    if bytes <= bytes_max {
        Ok(())
    } else {
        Err(TablesError::TooLarge { part: DatabaseKind::Store, what, bytes, bytes_max })
    }
}

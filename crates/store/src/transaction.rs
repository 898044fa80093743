//! The open batch, and the view of it that an update has.

use std::collections::HashMap;

use fjall::{Keyspace, UserKey, UserValue};

use crate::{KEY_BYTES_MAX, StoreError, Table, VALUE_BYTES_MAX, Value};

/// `None`: deleted.
type Change = Option<UserValue>;

/// What the updates of a batch changed so far. Each key counts once, with its latest value.
#[derive(Default)]
pub(crate) struct Batch {
    tables: Vec<Changes>,
    bytes: usize,
    once_durable: Vec<Action>,
}

/// What an update wants done once it is durable.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

struct Changes {
    table_index: usize,
    keyspace: Keyspace,
    by_key: HashMap<UserKey, Change>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.by_key.is_empty())
    }

    /// Keys and values taken so far, overwritten ones included, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes out what is to be done once the batch is durable, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.once_durable)
    }

    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        self.tables.iter().map(|table| &table.keyspace)
    }

    /// Moves everything into a write batch of the database.
    pub(crate) fn pour(self, mut into: fjall::OwnedWriteBatch) -> fjall::OwnedWriteBatch {
        for table in self.tables {
            for (key, change) in table.by_key {
                match change {
                    Some(value) => into.insert(&table.keyspace, key, value),
                    None => into.remove(&table.keyspace, key),
                }
            }
        }
        into
    }

    fn change(&self, table: &Table, key: &[u8]) -> Option<&Change> {
        self.tables.iter().find(|changes| changes.table_index == table.index)?.by_key.get(key)
    }

    fn changes(&mut self, table: &Table) -> &mut HashMap<UserKey, Change> {
        let position = self.tables.iter().position(|changes| changes.table_index == table.index);
        let position = position.unwrap_or_else(|| {
            self.tables.push(Changes {
                table_index: table.index,
                keyspace: table.keyspace.clone(),
                by_key: HashMap::new(),
            });
            self.tables.len() - 1
        });
        &mut self.tables[position].by_key
    }
}

/// What an update may do: read its own writes and those of everybody before it, and write.
///
/// If the update returns an error, its writes are taken back and it changed nothing.
pub struct Transaction<'a> {
    batch: &'a mut Batch,
    /// What was there before each write of this update, latest last.
    undo: Vec<(Table, UserKey, Option<Change>)>,
    /// Actions of the updates before this one.
    actions_before: usize,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(batch: &'a mut Batch) -> Self {
        let actions_before = batch.once_durable.len();
        Self { batch, undo: Vec::new(), actions_before }
    }

    /// The value of `key` as of now, in the order of updates.
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>, StoreError> {
        match self.batch.change(table, key) {
            Some(change) => Ok(change.clone().map(Value)),
            None => table.get(key),
        }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check("value", value.len(), VALUE_BYTES_MAX)?;
        self.write(table, key, Some(value.into()))
    }

    /// Removes `key`; nothing happens when it is not there.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<(), StoreError> {
        self.write(table, key, None)
    }

    /// Has `action` done once this update is durable, before anybody is answered, even if nobody waits for the answer any
    /// more: it is the place to show in memory what is on disk now. Actions run in the order of updates, on the writer's
    /// thread, and not at all when the update or its batch fails.
    pub fn once_durable(&mut self, action: impl FnOnce() + Send + 'static) {
        self.batch.once_durable.push(Box::new(action));
    }

    fn write(&mut self, table: &Table, key: &[u8], change: Change) -> Result<(), StoreError> {
        check("key", key.len(), KEY_BYTES_MAX)?;
        self.batch.bytes += key.len() + change.as_ref().map_or(0, |value| value.len());
        let key = UserKey::from(key);
        let before = self.batch.changes(table).insert(key.clone(), change);
        self.undo.push((table.clone(), key, before));
        Ok(())
    }

    /// Takes back everything that this update wrote.
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

fn check(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), StoreError> {
    // The database does not take an empty key.
    match bytes <= bytes_max && (bytes > 0 || what == "value") {
        true => Ok(()),
        false => Err(StoreError::TooLarge { what, bytes, bytes_max }),
    }
}

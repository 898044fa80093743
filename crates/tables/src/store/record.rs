//! Encoding of a batch as a record of the log: for each table its name, then keys with values or deletions.

use std::convert::Infallible;
use std::sync::Arc;

use crate::TablesError;
use crate::store::pending::{Change, Changes};
use crate::store::table::TableState;
use crate::store::tables::Tables;

/// Marks a deletion in the place of a value's length.
const DELETED: u32 = u32::MAX;

/// Appends the changes of a batch.
pub(crate) fn encode<'a>(
    tables: impl Iterator<Item = (&'a Arc<TableState>, &'a Changes)>,
    buffer: &mut Vec<u8>,
) {
    for (table, changes) in tables {
        let changes = changes.iter().map(|(key, change)| (&**key, change.as_deref()));
        encode_table(table.keyspace.name(), changes, buffer);
    }
}

fn encode_table<'a>(
    name: &str,
    changes: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    buffer: &mut Vec<u8>,
) {
    push(buffer, name.as_bytes());
    buffer.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    for (key, change) in changes {
        push(buffer, key);
        match change {
            Some(value) => push(buffer, value),
            None => buffer.extend_from_slice(&DELETED.to_le_bytes()),
        }
    }
}

/// Shows the changes of a record to readers.
pub(crate) fn show(tables: &Tables, seq: u64, bytes: &[u8]) -> Result<(), TablesError> {
    let shown = decode(bytes, |name, key, change| {
        tables.table(name)?.show_one(key.into(), change);
        Ok::<_, TablesError>(())
    });
    shown.ok_or_else(|| tables.damaged(&format!("record {seq} of the log cannot be decoded")))?
}

/// Decodes a record, and passes on table name, key and change one by one; `None` if it is not a valid record.
pub(crate) fn decode<E>(
    mut bytes: &[u8],
    mut apply: impl FnMut(&str, &[u8], Change) -> Result<(), E>,
) -> Option<Result<(), E>> {
    while !bytes.is_empty() {
        let length = take_number(&mut bytes)?;
        let name = std::str::from_utf8(take(&mut bytes, length)?).ok()?;
        for _ in 0..take_number(&mut bytes)? {
            let length = take_number(&mut bytes)?;
            let key = take(&mut bytes, length)?;
            let change = match take_number(&mut bytes)? {
                DELETED => None,
                length => Some(take(&mut bytes, length)?.into()),
            };
            if let Err(error) = apply(name, key, change) {
                return Some(Err(error));
            }
        }
    }
    Some(Ok(()))
}

/// One change in a record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    pub table: String,
    pub key: Vec<u8>,
    /// The new value; `None` for a deletion.
    pub value: Option<Vec<u8>>,
}

/// The changes of a record in their order; `None` if it is not a valid record. For tests and fuzzers.
pub fn read_record(bytes: &[u8]) -> Option<Vec<RecordedChange>> {
    let mut changes = Vec::new();
    let read = decode(bytes, |name, key, change| {
        let (table, value) = (name.to_owned(), change.map(|value| value.to_vec()));
        changes.push(RecordedChange { table, key: key.to_vec(), value });
        Ok::<_, Infallible>(())
    });
    read.map(|Ok(())| changes)
}

/// The record of these changes. For tests and fuzzers.
pub fn write_record(changes: &[RecordedChange]) -> Vec<u8> {
    let mut buffer = Vec::new();
    for of_table in changes.chunk_by(|one, next| one.table == next.table) {
        let changes = of_table.iter().map(|change| (&*change.key, change.value.as_deref()));
        encode_table(&of_table[0].table, changes, &mut buffer);
    }
    buffer
}

fn push(buffer: &mut Vec<u8>, bytes: &[u8]) {
    // Keys and values have limits far below this.
    buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    buffer.extend_from_slice(bytes);
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn take<'a>(bytes: &mut &'a [u8], count: u32) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count as usize)?;
    *bytes = rest;
    Some(taken)
}

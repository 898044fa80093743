//! A batch as a record of the log: for each table its name, then keys with values or deletions.

use std::sync::Arc;

use crate::pending::{Change, Changes};
use crate::table::TableState;

/// Stands in the place of a value's length.
const DELETED: u32 = u32::MAX;

/// Appends the changes of a batch.
pub(crate) fn encode<'a>(
    tables: impl Iterator<Item = (&'a Arc<TableState>, &'a Changes)>,
    buffer: &mut Vec<u8>,
) {
    for (table, changes) in tables {
        push(buffer, table.keyspace.name().as_bytes());
        buffer.extend_from_slice(&(changes.len() as u32).to_le_bytes());
        for (key, change) in changes {
            push(buffer, key);
            match change {
                Some(value) => push(buffer, value),
                None => buffer.extend_from_slice(&DELETED.to_le_bytes()),
            }
        }
    }
}

/// Reads a record, handing over table name, key and change one by one; `None` when it is no such record.
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

fn push(buffer: &mut Vec<u8>, bytes: &[u8]) {
    // Keys and values are bounded far below this.
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

//! Extension lists.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::schema::{Schema, Value, read_array};
use crate::SyncError;
use crate::byte_writer::{ByteWriter, EXTENSION_ITEMS_MAX};

const LIST: Schema<1> = Schema::open(1, ["extension"]);
const ITEM: Schema<2> = Schema::open(2, ["key", "value"]);

/// Checks an extension list and renders its items as a compact JSON array of `{"key":…,"value":…}`.
///
/// Rendering limits what the ledger stores (16 items of at most 160 characters), whatever white space, escapes and
/// extra properties the sender wrote.
pub(super) fn parse_extension_list(value: Value<'_, '_>) -> Result<String, SyncError> {
    let mut out = Vec::with_capacity(value.json().len().min(EXTENSION_ITEMS_MAX * 192));
    for_each_item(value, |key, value| {
        out.push(if out.is_empty() { b'[' } else { b',' });
        ByteWriter(&mut out).extension(key, value);
    })?;
    out.push(b']');
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// Checks an extension list that is only forwarded.
pub(super) fn check_extension_list(value: Value<'_, '_>) -> Result<(), SyncError> {
    for_each_item(value, |_, _| {})
}

fn for_each_item(value: Value<'_, '_>, mut visit: impl FnMut(&str, &str)) -> Result<(), SyncError> {
    let list = LIST.read(value)?;
    for item in read_array(list.required("extension"), 1, EXTENSION_ITEMS_MAX)?.iter() {
        let item = ITEM.read(item)?;
        let key: Cow<'_, str> = item.required("key").bounded_text(1, 32)?;
        visit(&key, &item.required("value").bounded_text(1, 128)?);
    }
    Ok(())
}

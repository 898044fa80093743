//! Extension lists.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::value::RawValue;
use upesi_types::ErrorCode;

use super::object::{read_nested, require};
use super::text::Property;
use crate::SyncError;
use crate::render::ByteWriter;

/// Most items of an extension list (FSPIOP API v1.1 §7.4.5).
pub(crate) const EXTENSION_ITEMS_MAX: usize = 16;

/// Checks an extension list and renders its items as a compact JSON array of `{"key":…,"value":…}`.
///
/// Rendering anew bounds what the ledger stores (16 items of at most 160 characters), whatever blanks, escapes and
/// extra properties the sender wrote.
pub(crate) fn parse_extension_list(json: &str, path: &str) -> Result<String, SyncError> {
    let names = ["extension"];
    let [extension] = require(&read_nested(json, path, &names)?, &names, [0], path)?;
    let array = Property::new(extension, format!("{path}/extension"));
    if !extension.starts_with('[') {
        return Err(array.refuse(ErrorCode::MALFORMED_SYNTAX, "must be array"));
    }
    let items: Vec<&RawValue> = serde_json::from_str(extension).map_err(|error| {
        array.refuse(ErrorCode::MALFORMED_SYNTAX, format_args!("is not valid JSON: {error}"))
    })?;
    if items.len() > EXTENSION_ITEMS_MAX {
        let violation = format_args!("must NOT have more than {EXTENSION_ITEMS_MAX} items");
        return Err(array.refuse(ErrorCode::VALIDATION, violation));
    }
    if items.is_empty() {
        return Err(array.refuse(ErrorCode::VALIDATION, "must NOT have fewer than 1 items"));
    }
    let mut out = Vec::with_capacity(extension.len().min(EXTENSION_ITEMS_MAX * 192));
    for (index, item) in items.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        render_item(item.get(), &format!("{}/{index}", array.path), &mut out)?;
    }
    out.push(b']');
    Ok(String::from_utf8(out).unwrap_or_default())
}

fn render_item(json: &str, path: &str, out: &mut Vec<u8>) -> Result<(), SyncError> {
    let names = ["key", "value"];
    let [key, value] = require(&read_nested(json, path, &names)?, &names, [0, 1], path)?;
    let key = Property::new(key, format_args!("{path}/key")).bounded_text(1, 32)?;
    let value = Property::new(value, format_args!("{path}/value")).bounded_text(1, 128)?;
    ByteWriter(out).extension(&key, &value);
    Ok(())
}

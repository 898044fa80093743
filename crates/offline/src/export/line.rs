//! A row as a line: CSV and JSON Lines. Amounts are decimal in the currency's units, times are UTC, hashes are
//! hexadecimal, records are numbers in the journal. Inapplicable values are empty (CSV) or null (JSON).

use std::borrow::Cow;

use upesi_process::csv::push_cell;
use upesi_types::hex;
use upesi_types::text::{cell, escape};

use super::kind::Kind;
use super::value::Value;

/// A value as text; `None` if there is none.
fn shown<'a>(value: &'a Value<'_>) -> Option<Cow<'a, str>> {
    Some(match value {
        Value::Text(text) => Cow::Borrowed(&**text),
        Value::Amount(amount) => amount.to_string().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Instant(at) => at.to_string().into(),
        Value::Hash(bytes) => hex(*bytes).into(),
        Value::Absent => return None,
    })
}

/// The first line of a CSV file.
pub(super) fn header_line(kind: Kind) -> String {
    kind.names().join(",") + "\r\n"
}

/// Appends a row as a line of CSV.
pub(super) fn push_csv_line(_: Kind, row: &[Value<'_>], line: &mut String) {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        match value {
            Value::Text(text) => push_cell(&cell(text), line),
            value => push_cell(&shown(value).unwrap_or_default(), line),
        }
    }
    line.push_str("\r\n");
}

/// Appends a row as a line of JSON.
pub(super) fn push_json_line(kind: Kind, row: &[Value<'_>], line: &mut String) {
    let members = kind.columns().iter().zip(row).map(|(column, value)| {
        let shown = match value {
            Value::Number(number) => serde_json::Value::from(*number),
            value => shown(value).map_or(serde_json::Value::Null, |text| text.into_owned().into()),
        };
        (column.name.to_owned(), shown)
    });
    line.push_str(&escape(&serde_json::Value::Object(members.collect()).to_string()));
    line.push('\n');
}

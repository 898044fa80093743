//! A row as a line: CSV and JSON Lines. Amounts are decimal in the currency's units, times are UTC, hashes are
//! hexadecimal, records are numbers in the journal; what does not apply is empty (CSV) or null (JSON).

use std::borrow::Cow;

use upesi_types::hex;

use super::kind::Kind;
use super::value::Value;

/// A value as text; `None` where there is none.
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
pub(super) fn header(kind: Kind) -> String {
    kind.names().join(",") + "\r\n"
}

/// Appends a row as a line of CSV.
pub(super) fn write_csv(_: Kind, row: &[Value<'_>], line: &mut String) {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        if let Some(text) = shown(value) {
            push_csv(&text, line);
        }
    }
    line.push_str("\r\n");
}

/// Appends a row as a line of JSON.
pub(super) fn write_json(kind: Kind, row: &[Value<'_>], line: &mut String) {
    let members = kind.columns().iter().zip(row).map(|(column, value)| {
        let shown = match value {
            Value::Number(number) => serde_json::Value::from(*number),
            value => shown(value).map_or(serde_json::Value::Null, |text| text.into_owned().into()),
        };
        (column.name.to_owned(), shown)
    });
    line.push_str(&serde_json::Value::Object(members.collect()).to_string());
    line.push('\n');
}

/// Quoted where it must be (RFC 4180). A text that a spreadsheet would take for a formula is no concern of the format.
pub(crate) fn push_csv(text: &str, line: &mut String) {
    if text.contains([',', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

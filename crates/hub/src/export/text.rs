//! One transfer as a line: CSV and JSON Lines. Amounts are decimal in the currency's units, times are UTC, hashes are
//! hexadecimal, records are numbers in the journal; what does not apply is empty (CSV) or null (JSON).

use upesi_types::hex;

use super::row::{COLUMNS, Row};

enum Cell {
    Text(String),
    Number(u64),
    Empty,
}

impl Cell {
    fn of(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.into()))
    }
}

fn cells(row: Row<'_>) -> [Cell; COLUMNS.len()] {
    let transfer = row.transfer;
    [
        Cell::Text(row.id),
        Cell::of(row.payer),
        Cell::of(row.payee),
        Cell::Text(transfer.amount.to_string()),
        Cell::Text(transfer.currency.as_str().to_owned()),
        Cell::Text(row.state.to_owned()),
        row.error_code.map_or(Cell::Empty, |code| Cell::Number(code.into())),
        Cell::of(row.error_description),
        Cell::Text(transfer.prepared_at.to_string()),
        Cell::of(row.completed_at.map(|at| at.to_string())),
        Cell::Text(transfer.expires_at.to_string()),
        Cell::Text(hex(&transfer.condition)),
        Cell::of(row.fulfilment.map(|bytes| hex(bytes))),
        Cell::Number(transfer.prepare_seq),
        Cell::of(transfer.extensions.as_deref()),
    ]
}

/// The first line of a CSV file.
pub(super) fn header() -> String {
    COLUMNS.join(",") + "\r\n"
}

/// Appends the line of a transfer as CSV.
pub(super) fn write_csv(row: Row<'_>, line: &mut String) {
    for (index, cell) in cells(row).iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        match cell {
            Cell::Text(text) => push_csv(text, line),
            Cell::Number(number) => line.push_str(&number.to_string()),
            Cell::Empty => {}
        }
    }
    line.push_str("\r\n");
}

/// Appends the line of a transfer as JSON.
pub(super) fn write_json(row: Row<'_>, line: &mut String) {
    let cells = cells(row);
    let members = COLUMNS.iter().zip(&cells).map(|(name, cell)| {
        let value = match cell {
            Cell::Text(text) => serde_json::Value::from(text.as_str()),
            Cell::Number(number) => serde_json::Value::from(*number),
            Cell::Empty => serde_json::Value::Null,
        };
        ((*name).to_owned(), value)
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

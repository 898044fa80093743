//! One transfer as a line.

use upesi_ledger::{Transfer, TransferState};

use super::Format;
use crate::inspect::names::Names;

/// The columns, in order. Amounts are decimal in the currency's units, times are UTC, hashes are hexadecimal, records are
/// numbers in the journal; what does not apply is empty (CSV) or null (JSON).
pub const COLUMNS: [&str; 15] = [
    "transferId",
    "payerFsp",
    "payeeFsp",
    "amount",
    "currency",
    "state",
    "errorCode",
    "errorDescription",
    "preparedAt",
    "completedAt",
    "expiration",
    "condition",
    "fulfilment",
    "prepareRecord",
    "extensions",
];

enum Cell {
    Text(String),
    Number(u64),
    Empty,
}

fn cells(transfer: &Transfer, names: &Names) -> [Cell; COLUMNS.len()] {
    let text = |text: String| Cell::Text(text);
    let optional = |value: Option<String>| value.map_or(Cell::Empty, Cell::Text);
    let name = |id: Option<upesi_ledger::ParticipantId>| id.map(|id| names.participant(id));
    let (state, code, description, fulfilment) = match &transfer.state {
        TransferState::Reserved => ("RESERVED", None, None, None),
        TransferState::Committed { fulfilment, .. } => ("COMMITTED", None, None, Some(hex(fulfilment))),
        TransferState::Aborted { kind, code, description, .. } => {
            (kind.as_str(), Some(u64::from(code.number())), Some(description.to_string()), None)
        }
    };
    [
        text(transfer.id.to_string()),
        optional(name(transfer.payer)),
        optional(name(transfer.payee)),
        text(transfer.amount.to_string()),
        text(transfer.currency.as_str().to_owned()),
        text(state.to_owned()),
        code.map_or(Cell::Empty, Cell::Number),
        optional(description),
        text(transfer.prepared_at.to_string()),
        optional(transfer.completed_at().map(|at| at.to_string())),
        text(transfer.expires_at.to_string()),
        text(hex(&transfer.condition)),
        optional(fulfilment),
        Cell::Number(transfer.prepare_seq),
        optional(transfer.extensions.as_deref().map(str::to_owned)),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first line of a CSV file.
pub(super) fn header() -> String {
    COLUMNS.join(",") + "\r\n"
}

/// Appends the line of a transfer.
pub(super) fn write(format: Format, transfer: &Transfer, names: &Names, line: &mut String) {
    let cells = cells(transfer, names);
    match format {
        Format::Csv => {
            for (index, cell) in cells.iter().enumerate() {
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
        Format::Jsonl => {
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
    }
}

/// Quoted where it must be (RFC 4180). A text that a spreadsheet would take for a formula is no concern of the format.
pub(super) fn push_csv(text: &str, line: &mut String) {
    if text.contains([',', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

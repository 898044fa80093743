//! What an export tells of a transfer, a conversion and a bulk, whatever the format: names in place of numbers, and
//! the state taken apart.

use std::borrow::Cow;

use upesi_ledger::{
    Bulk, BulkItem, BulkState, Cause, Conversion, ConversionState, ItemState, ParticipantId, Transfer,
    TransferState,
};
use upesi_types::text::{cell, escape};
use upesi_types::{Timestamp, hex};

use super::kind::{Kind, Row, Value};
use crate::inspect::print::Names;

/// Something that ended.
#[derive(Clone, Copy, Debug)]
pub enum Finished<'a> {
    /// A transfer.
    Transfer(&'a Transfer),
    /// A conversion.
    Conversion(&'a Conversion),
    /// A bulk.
    Bulk(&'a Bulk),
}

impl<'a> Finished<'a> {
    pub(super) fn completed_at(self) -> Option<Timestamp> {
        match self {
            Self::Transfer(transfer) => transfer.completed_at(),
            Self::Conversion(conversion) => conversion.completed_at(),
            Self::Bulk(bulk) => bulk.completed_at(),
        }
    }

    /// The settlement window of a transfer, if it is known.
    pub(super) fn window(self) -> Option<u32> {
        let Self::Transfer(Transfer { state: TransferState::Committed(end), .. }) = self else { return None };
        end.window.map(|window| window.0)
    }

    /// Whether a participant is payer or payee of a transfer.
    pub(super) fn has_party(self, party: ParticipantId) -> bool {
        matches!(self, Self::Transfer(transfer) if transfer.has_party(party))
    }

    /// Calls `add` with each of its rows.
    pub(super) fn rows<E>(
        self,
        names: &Names,
        mut add: impl FnMut(Row<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Transfer(transfer) => add(of_transfer(transfer, names)),
            Self::Conversion(conversion) => add(of_conversion(conversion, names)),
            // What was refused as a whole has no items.
            Self::Bulk(bulk) if bulk.items.is_empty() => add(of_item(bulk, None, names)),
            Self::Bulk(bulk) => {
                let mut items = (0..).zip(&bulk.items);
                items.try_for_each(|item| add(of_item(bulk, Some(item), names)))
            }
        }
    }
}

/// A DFSP's name; absent where a refused request named an unknown one.
fn party<'a>(id: Option<ParticipantId>, names: &Names) -> Value<'a> {
    Value::of(id, |id| Value::text(names.participant(id)))
}

/// Code and description.
fn error(cause: Option<&Cause>) -> [Value<'_>; 2] {
    let Some((code, description)) = cause.map(upesi_fspiop::refusal::cause) else {
        return [Value::Absent, Value::Absent];
    };
    [Value::Number(code.number().into()), Value::Text(description)]
}

fn of_transfer<'a>(transfer: &'a Transfer, names: &Names) -> Row<'a> {
    let (state, cause, fulfilment, window) = match &transfer.state {
        TransferState::Reserved => ("RESERVED", None, None, None),
        TransferState::Committed(end) => ("COMMITTED", None, Some(&end.fulfilment), end.window),
        TransferState::Aborted(end) => (end.kind.as_str(), Some(&end.cause), None, None),
    };
    let [code, description] = error(cause);
    vec![
        Value::text(transfer.id.to_string()),
        party(transfer.payer, names),
        party(transfer.payee, names),
        Value::Amount(transfer.amount),
        Value::text(transfer.currency.as_str()),
        Value::text(state),
        code,
        description,
        Value::Instant(transfer.prepared_at),
        Value::of(transfer.completed_at(), Value::Instant),
        Value::Instant(transfer.expires_at),
        Value::Hash(&transfer.condition),
        Value::of(fulfilment, Value::Hash),
        Value::Number(transfer.prepare_seq),
        Value::of(transfer.extensions.as_deref(), Value::text),
        Value::of(window, |window| Value::Number(window.0.into())),
    ]
}

fn of_conversion<'a>(conversion: &'a Conversion, names: &Names) -> Row<'a> {
    let (state, cause) = match &conversion.state {
        ConversionState::Reserved | ConversionState::Fulfilled => ("RESERVED", None),
        ConversionState::Committed { .. } => ("COMMITTED", None),
        ConversionState::Aborted { kind, cause, .. } => (kind.as_str(), Some(cause)),
    };
    let [code, description] = error(cause);
    vec![
        Value::text(conversion.id.to_string()),
        Value::of(conversion.determining_transfer, |id| Value::text(id.to_string())),
        Value::text(conversion.side.as_str()),
        party(conversion.initiator, names),
        party(conversion.fxp, names),
        Value::Amount(conversion.source.amount),
        Value::text(conversion.source.currency.as_str().to_owned()),
        Value::Amount(conversion.target.amount),
        Value::text(conversion.target.currency.as_str().to_owned()),
        Value::text(state),
        code,
        description,
        Value::Instant(conversion.prepared_at),
        Value::of(conversion.completed_at(), Value::Instant),
        Value::Instant(conversion.expires_at),
        Value::Hash(&conversion.condition),
        Value::of(conversion.fulfilment.as_ref(), Value::Hash),
        Value::Number(conversion.prepare_seq),
    ]
}

/// An item with its place among those of its bulk, or a bulk that has none.
fn of_item<'a>(bulk: &'a Bulk, item: Option<(u32, &'a BulkItem)>, names: &Names) -> Row<'a> {
    let refused = match &bulk.state {
        BulkState::Rejected { cause, .. } => cause.as_ref(),
        _ => None,
    };
    let (state, cause) = match item.map(|(_, item)| &item.state) {
        None => ("REFUSED", refused),
        Some(ItemState::Waiting) => ("RECEIVED", None),
        Some(ItemState::Accepted) => ("ACCEPTED", None),
        Some(ItemState::Refused(cause)) => ("REFUSED", Some(cause)),
        Some(ItemState::Committed { .. }) => ("COMMITTED", None),
        Some(ItemState::Aborted(cause)) => ("ABORTED", Some(cause)),
    };
    let [code, description] = error(cause);
    vec![
        Value::text(bulk.id.to_string()),
        Value::text(bulk.quote.to_string()),
        Value::of(item, |(place, _)| Value::Number(place.into())),
        Value::of(item, |(_, item)| Value::text(item.transfer.to_string())),
        party(bulk.payer, names),
        party(bulk.payee, names),
        Value::text(Cow::Borrowed(bulk.public_state().as_str())),
        Value::text(state),
        code,
        description,
        Value::Instant(bulk.received_at),
        Value::of(bulk.completed_at(), Value::Instant),
        Value::Instant(bulk.expires_at),
        Value::Number(bulk.prepare_seq),
    ]
}

// A row as a line: CSV and JSON Lines. Amounts are decimal in the currency's units, times are UTC, hashes are
// hexadecimal, records are numbers in the journal; what does not apply is empty (CSV) or null (JSON).

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
            Value::Text(text) => push_csv(&cell(text), line),
            value => push_csv(&shown(value).unwrap_or_default(), line),
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

/// Quoted where it must be (RFC 4180), and where a reader with another separator would begin a new cell.
pub(crate) fn push_csv(text: &str, line: &mut String) {
    if text.contains([',', ';', '|', '\t', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

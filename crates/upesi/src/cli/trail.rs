//! `upesi admin trail`: entries of the audit trail, through the admin port.

use std::fmt::Write as _;

use clap::Args;
use serde::Deserialize;
use upesi_process::exit::Outcome;
use upesi_process::times::{ParsedTime, Zone, when};

use super::calls::{Calls, ListOptions, filters, instant_cell};
use super::table::{Cell, Column, Table};

/// Arguments of `upesi admin trail`.
#[derive(Args, Clone, Debug)]
pub struct TrailArguments {
    /// Only entries of this operator, or on behalf of it.
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
    /// Only entries of this permission, such as limit.raise, or of this area, such as limit.
    #[arg(long, value_name = "PERMISSION")]
    pub action: Option<String>,
    /// Only entries whose object contains this text, such as the name of a DFSP.
    #[arg(long, value_name = "TEXT")]
    pub object: Option<String>,
    /// Only entries with this outcome.
    #[arg(long, value_name = "OUTCOME", value_parser = ["done", "refused"])]
    pub outcome: Option<String>,
    /// Only entries from this time on: 2026-11-21, 2026-11-21T09:39, yesterday, 2h.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = when)]
    pub from: ParsedTime,
    /// Only entries before this time.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub to: Option<ParsedTime>,
    /// List at most this many entries, in the order of the list.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    #[command(flatten)]
    pub options: ListOptions,
}

#[derive(Deserialize)]
struct Entry {
    number: i64,
    at: String,
    operator: String,
    action: String,
    object: String,
    before: String,
    after: String,
    reason: Option<String>,
    refused: Option<String>,
}

const COLUMNS: &[Column] = &[
    Column::text("at"),
    Column::number("entry"),
    Column::text("operator"),
    Column::text("action"),
    Column::text("outcome"),
    Column::text("change"),
];

/// Lists entries of the audit trail, newest first.
pub fn list(arguments: TrailArguments) -> Outcome {
    let TrailArguments { operator, action, object, outcome, from, to, limit, options } = arguments;
    let ListOptions { list, zone, hub } = options;
    let query = filters([
        ("operator", operator),
        ("action", action),
        ("object", object),
        ("outcome", outcome),
        ("from", Some(zone.instant(from).to_string())),
        ("to", to.map(|to| zone.instant(to).to_string())),
    ]);
    let zone = zone.chosen();
    let order = list.sort.as_deref().unwrap_or(USUAL_ORDER);
    let mut table = Table::new(COLUMNS);
    let cells = |entry: &Entry| cells(entry, &zone);
    Calls::to(hub)?.search(("/audit", &query), cells, (&mut table, limit, order))?;
    table.print(&list, USUAL_ORDER)
}

fn cells(entry: &Entry, zone: &Zone) -> Vec<Cell> {
    let outcome = if entry.refused.is_some() { "refused" } else { "done" };
    vec![
        instant_cell(Some(&entry.at), zone),
        Cell::number(entry.number),
        Cell::text(&entry.operator),
        Cell::text(&entry.action),
        Cell::text(outcome),
        Cell::text(&change(entry)),
    ]
}

/// Object, change, error and reason of an entry.
fn change(entry: &Entry) -> String {
    let Entry { object, before, after, refused, reason, .. } = entry;
    let mut text = object.clone();
    if !(before.is_empty() && after.is_empty()) {
        let _ = write!(text, ": {before} → {after}");
    }
    for (what, why) in [("refused", refused), ("reason", reason)] {
        if let Some(why) = why {
            let _ = write!(text, "; {what}: {why}");
        }
    }
    text
}

/// Newest first.
const USUAL_ORDER: &str = "-entry";

//! The audit trail, newest first.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{Parameters, newest_entries};

use crate::page::{Frame, PageCall, Section, html};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Number of entries per page.
const ENTRIES: usize = 100;
/// The filters of `GET /audit`.
const FILTERS: [&str; 6] = ["operator", "action", "object", "outcome", "from", "to"];

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    words: &'static Words,
    /// Label, name and value of each filter.
    filters: Vec<(&'static str, &'static str, String)>,
    outcome: String,
    table: Table,
    next: Option<String>,
    searched: Option<String>,
}

/// A page of the audit trail.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let wanted = FILTERS.iter().filter_map(|name| Some((*name, page.parameters.get(name)?.to_owned())));
    let before = page.parameters.get("before").and_then(|before| before.parse().ok());
    let (stamp, ()) = page.ask(|_| ()).await?;
    let audit = &page.context.audit;
    let found = newest_entries(&page.call, audit, &Parameters::of(wanted), before, ENTRIES).await?;
    let columns = vec![
        Column::text("number", words.column_entry),
        Column::text("time", words.column_time),
        Column::text("operator", words.column_operator),
        Column::text("action", words.column_action),
        Column::text("object", words.column_object),
        Column::text("before", words.column_before),
        Column::text("after", words.column_after),
        Column::text("outcome", words.column_outcome),
        Column::text("reason", words.column_reason),
        Column::text("record", words.column_record),
    ];
    let rows = found.entries.iter().map(|entry| {
        let outcome = match &entry.refused {
            None => Cell::state(Tone::Good, words.outcome_done),
            Some(why) => Cell::state(Tone::Bad, why),
        };
        vec![
            Cell { rank: Some(entry.number.into()), ..Cell::text(&entry.number.to_string()) },
            Cell::time(entry.at.0),
            Cell::text(&entry.operator),
            Cell::code(&entry.action),
            Cell::text(&entry.object),
            Cell::text(&entry.before),
            Cell::text(&entry.after),
            outcome,
            Cell::text(entry.reason.as_deref().unwrap_or_default()),
            Cell { rank: Some(entry.record.into()), ..Cell::text(&entry.record.to_string()) },
        ]
    });
    let mut table =
        Table::new("audit", words.audit_caption, columns, rows.collect(), words).or_else(words.audit_empty);
    if let Some(csv) = page.export(stamp, &mut [&mut table]) {
        return Ok(csv);
    }
    let filters = [
        (words.column_operator, "operator"),
        (words.column_action, "action"),
        (words.column_object, "object"),
        (words.filter_from, "from"),
        (words.filter_to, "to"),
    ];
    let filters = filters.map(|(label, name)| (label, name, page.field(name))).into();
    let next = found.next.as_ref().map(|before| page.url_with(&[("before", before)]));
    let searched = found.next.map(|record| fill(words.audit_searched, &[("record", &record)]));
    let frame = page.frame(Section::Audit, words.audit_title, stamp);
    html(&AuditPage { frame, words, filters, outcome: page.field("outcome"), table, next, searched })
}

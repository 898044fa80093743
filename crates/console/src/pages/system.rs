//! The hub as a process: version, parts, journal, archive, clock, log.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::health;

use crate::page::{Frame, PageCall, Section, html};
use crate::show;
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    words: &'static Words,
    parts: Table,
    facts: Table,
}

/// The page of the process.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let asked = page.ask(|ledger| (ledger.removed_to(), ledger.trail().count, ledger.last_time()));
    let (stamp, (removed_to, trail, last_time)) = asked.await?;
    let (health, context) = (health(&page.call, &page.context), &page.context);
    let columns = vec![
        Column::text("part", words.column_part),
        Column::text("state", words.column_state),
        Column::text("detail", words.column_detail),
    ];
    let rows = health.services.iter().map(|service| {
        let state = match service.detail {
            None => Cell::state(Tone::Good, words.part_works),
            Some(_) => Cell::state(Tone::Bad, words.part_fails),
        };
        vec![Cell::text(service.name), state, Cell::text(service.detail.as_deref().unwrap_or_default())]
    });
    let mut parts = Table::new("parts", words.parts_caption, columns, rows.collect(), words);
    let status = context.engine.status();
    let clock = context.engine.clock().state();
    let uptime = show::duration(i64::try_from(health.uptime.ms).unwrap_or(i64::MAX), words);
    let mut facts = vec![
        (words.fact_version, Cell::text(health.version_number)),
        (words.fact_started, Cell::time(health.start_time.0)),
        (words.fact_uptime, Cell::text(&uptime)),
        (words.fact_last_record, Cell::number(stamp.record, words)),
        (words.fact_last_record_time, Cell::time(last_time)),
        (words.fact_archived_to, Cell::number(status.archived_seq, words)),
        (words.fact_removed_to, Cell::number(removed_to, words)),
        (words.fact_queue, Cell::number(status.queue_depth as u64, words)),
        (words.fact_trail, Cell::number(trail, words)),
        (words.fact_clock, Cell::text(&clock.fault().unwrap_or_else(|| words.clock_good.to_owned()))),
        (words.fact_log_level, Cell::text(&context.log_level.level())),
    ];
    if let Some(archive) = context.engine.archive_stats() {
        facts.push((words.fact_archive_transfers, Cell::number(archive.transfers_estimate, words)));
        facts.push((words.fact_archive_bytes, Cell::text(&bytes(archive.disk_bytes, words))));
    }
    if let Some(node) = context.node {
        facts.push((words.fact_node, Cell::number(node.into(), words)));
    }
    let columns = vec![Column::text("fact", words.column_fact), Column::text("value", words.column_value)];
    let rows = facts.into_iter().map(|(label, value)| vec![Cell::text(label), value]).collect();
    let mut facts = Table::new("process", words.process_caption, columns, rows, words);
    if let Some(csv) = page.export(stamp, &mut [&mut parts, &mut facts]) {
        return Ok(csv);
    }
    let frame = page.frame(Section::System, words.system_title, stamp);
    html(&SystemPage { frame, words, parts, facts })
}

/// A size in MiB, rounded up.
pub(super) fn bytes(bytes: u64, words: &Words) -> String {
    let mebibytes = show::number(bytes.div_ceil(1024 * 1024), words);
    fill(words.mebibytes, &[("count", &mebibytes)])
}

//! Lanes and undelivered callbacks.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{CallbackView, LaneReport, Parameters, find_callbacks, lane_reports};
use upesi_ledger::ParticipantId;

use super::lane::{lane_tone, lane_word};
use crate::changes::{Kind, links};
use crate::page::{Frame, PageCall, Section, html, participant_url, transfer_url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::Words;

/// Number of callbacks per page.
const CALLBACKS: u32 = 100;

#[derive(Template)]
#[template(path = "callbacks.html")]
struct CallbacksPage {
    frame: Frame,
    words: &'static Words,
    lanes: Table,
    callbacks: Table,
    next: Option<String>,
}

/// The page of lanes and undelivered callbacks.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let lanes = page.context.lanes.lanes();
    let (stamp, reports) = page.ask(move |ledger| lane_reports(ledger, lanes, Vec::new())).await?;
    let mut wanted = vec![("limit", CALLBACKS.to_string())];
    for name in ["after", "fsp", "state"] {
        wanted.extend(page.parameters.get(name).map(|value| (name, value.to_owned())));
    }
    let found = find_callbacks(&page.call, &page.context.lanes, &Parameters::of(wanted)).await?;
    let (mut lanes, mut callbacks) = (lane_table(&reports, words), callback_table(&found.callbacks, words));
    if let Some(csv) = page.export(stamp, &mut [&mut lanes, &mut callbacks]) {
        return Ok(csv);
    }
    let next = found.next.map(|key| page.url_with(&[("after", &key.to_string())]));
    let mut frame = page.frame(Section::Callbacks, words.callbacks_title, stamp);
    let has_parked = callbacks.rows.iter().any(|row| row.get(2).is_some_and(|state| state.tone == Tone::Bad));
    if has_parked {
        frame.changes = links(&page, None, &[(Kind::Redeliver, &[])]);
    }
    html(&CallbacksPage { frame, words, lanes, callbacks, next })
}

fn lane_table(lanes: &[LaneReport], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("lane", words.column_lane),
        Column::number("queued", words.column_queued),
        Column::number("retrying", words.column_retrying),
        Column::number("in_flight", words.column_in_flight),
        Column::number("delivered", words.column_delivered),
        Column::number("failed", words.column_failed_attempts),
        Column::number("parked", words.column_parked),
        Column::text("last_error", words.column_last_error),
    ];
    let is_dfsp = |lane: &&LaneReport| lane.participant.is_some() && lane.lane.target != ParticipantId::HUB;
    let mut lanes: Vec<_> = lanes.iter().filter(is_dfsp).collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane_tone(lane)));
    let rows = lanes.into_iter().map(|report| {
        let (lane, name) = (&report.lane, report.participant.as_deref().unwrap_or_default());
        vec![
            Cell::text(name).link(participant_url(name)),
            Cell::state(lane_tone(report), lane_word(lane.state(), words)),
            Cell::number(lane.queued as u64, words),
            Cell::number((lane.retrying + lane.retrying_on_disk) as u64, words),
            Cell::number(lane.in_flight as u64, words),
            Cell::number(lane.delivered, words),
            Cell::number(lane.failed, words),
            Cell::number(lane.parked, words),
            Cell::text(lane.last_error.as_deref().unwrap_or_default()),
        ]
    });
    Table::new("lanes", words.lanes_caption, columns, rows.collect(), words)
        .or_else(words.lanes_empty)
        .noted(Some(words.lanes_note.to_owned()))
}

/// A list of undelivered callbacks.
pub(super) fn callback_table(callbacks: &[CallbackView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("callback", words.column_callback),
        Column::text("dfsp", words.column_dfsp),
        Column::text("state", words.column_state),
        Column::text("message", words.column_message),
        Column::text("transfer", words.column_transfer),
        Column::text("created", words.column_created),
        Column::number("attempts", words.column_attempts),
        Column::text("reason", words.column_reason),
    ];
    let rows = callbacks.iter().map(|callback| {
        let state = match callback.state {
            "parked" => Cell::state(Tone::Bad, words.callback_parked),
            _ => Cell::state(Tone::Busy, words.callback_pending),
        };
        let message = callback.message.as_deref().unwrap_or(words.not_retained);
        // Other messages have identifiers, too.
        let is_of_transfer = message.contains(" /transfers");
        let id = callback.transfer_id.as_deref();
        let transfer = id.map(|id| match is_of_transfer {
            true => Cell::code(id).link(transfer_url(id)),
            false => Cell::code(id),
        });
        let attempts = callback.attempts.map(|attempts| Cell::number(attempts.into(), words));
        vec![
            Cell::code(&callback.key.to_string()),
            Cell::text(&callback.participant).link(participant_url(&callback.participant)),
            state,
            Cell::text(message),
            transfer.unwrap_or_default(),
            Cell::time_or_none(callback.created_date.map(|at| at.0)),
            attempts.unwrap_or_default(),
            Cell::text(callback.reason.as_deref().unwrap_or_default()),
        ]
    });
    Table::new("callbacks", words.undelivered_caption, columns, rows.collect(), words)
        .or_else(words.undelivered_empty)
}

//! Movements of funds between DFSPs and the hub.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{MovementView, newest_funds};
use upesi_ledger::{FundsDirection, FundsState};
use upesi_types::FspId;

use crate::changes::{Kind, may};
use crate::page::{Frame, PageCall, Section, html, participant_url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::Words;

/// Maximum number of movements in a list.
const MOVEMENTS: usize = 200;

#[derive(Template)]
#[template(path = "funds.html")]
struct FundsPage {
    frame: Frame,
    words: &'static Words,
    name: String,
    reserved: Table,
    newest: Table,
}

/// The page of movements.
pub async fn show(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let name = page.parameters.get("participant").unwrap_or_default();
    let wanted = if name.is_empty() { None } else { Some(FspId::parse(name)) };
    let asked = page.ask(move |ledger| match wanted {
        Some(None) => None,
        Some(Some(name)) => Some(newest_funds(ledger, Some(&name), MOVEMENTS)),
        None => Some(newest_funds(ledger, None, MOVEMENTS)),
    });
    let (stamp, lists) = asked.await?;
    let (reserved, newest, has_more) = match lists {
        Some(lists) => (lists.reserved, lists.newest, lists.has_more),
        None => (Vec::new(), Vec::new(), false),
    };
    let mut reserved = table("reserved", words.funds_reserved_caption, &reserved, &page)
        .or_else(words.funds_reserved_empty)
        .noted(Some(words.funds_reserved_note.to_owned()));
    let mut newest = table("funds", words.funds_caption, &newest, &page).or_else(words.funds_empty);
    newest.part = has_more.then(|| words.funds_more.to_owned());
    if let Some(csv) = page.export(stamp, &mut [&mut reserved, &mut newest]) {
        return Ok(csv);
    }
    let frame = page.frame(Section::Funds, words.funds_title, stamp);
    html(&FundsPage { name: page.field("participant"), frame, words, reserved, newest })
}

fn table(name: &'static str, caption: &str, movements: &[MovementView], page: &PageCall) -> Table {
    let words = page.words;
    let is_reserved = name == "reserved";
    let mut columns = vec![
        Column::text("created", words.column_created),
        Column::text("dfsp", words.column_dfsp),
        Column::text("direction", words.column_direction),
        Column::number("amount", words.column_amount),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::text("reference", words.column_reference),
        Column::text("reason", words.column_reason),
    ];
    if is_reserved {
        columns.push(Column::text("ends", words.column_ends));
        columns.push(Column::text("pay_out", words.column_next));
        columns.push(Column::text("take_back", words.column_next));
    }
    let row = |one: &MovementView| {
        let (tone, state) = match one.state {
            FundsState::Reserved => (Tone::Busy, words.funds_reserved),
            FundsState::Committed => (Tone::Good, words.funds_committed),
            FundsState::Aborted => (Tone::Warning, words.funds_aborted),
        };
        let direction = match one.direction {
            FundsDirection::In => words.funds_in,
            FundsDirection::Out => words.funds_out,
        };
        let mut row = vec![
            Cell::time(one.created),
            Cell::text(&one.participant).link(participant_url(&one.participant)),
            Cell::text(direction),
            Cell::amount(one.amount, one.currency, words),
            Cell::text(one.currency.as_str()),
            Cell::state(tone, state),
            Cell::text(&one.external_reference),
            Cell::text(&one.reason),
        ];
        if is_reserved {
            row.push(Cell::time_or_none(one.expires));
            row.extend([Kind::PayOut, Kind::TakeBack].map(|kind| step(one, kind, page)));
        }
        row.push(Cell::code(&one.id));
        row
    };
    columns.push(Column::text("movement", words.column_movement));
    Table::new(name, caption, columns, movements.iter().map(row).collect(), words)
}

/// The link to the second step of a withdrawal.
fn step(one: &MovementView, kind: Kind, page: &PageCall) -> Cell {
    if !may(page, kind, Some(&one.participant)) {
        return Cell::default();
    }
    let account = one.account.to_string();
    let subject = [("participant", &*one.participant), ("account", &*account), ("movement", &*one.id)];
    Cell::text(kind.title(page.words)).link(kind.url(&subject))
}

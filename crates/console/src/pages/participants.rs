//! Participants with their positions, and one participant.

use std::collections::BTreeSet;

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{
    Decimal, Flag, LaneReport, OpenedAccount, Parameters, ParticipantDetail, PositionSummary, Segments,
    TransferPage, find_callbacks, lane_reports, participant, position_summaries,
};

use super::callbacks::callback_table;
use super::lane::{lane_tone, lane_word};
use super::position::{free, owed_cell, position_bar, position_tone, side_cell, used_cell};
use super::transfers::{newest, term, transfer_table};
use crate::changes::{Kind, links};
use crate::page::{ChangeLink, Frame, PageCall, Section, html, participant_url, url};
use crate::table::{Cell, Column, Table, Tone};
use crate::words::Words;

/// Number of transfers and callbacks on a participant's page.
const RECENT: usize = 20;

#[derive(Template)]
#[template(path = "participants.html")]
struct ParticipantsPage {
    frame: Frame,
    words: &'static Words,
    name: String,
    currency: String,
    currencies: Vec<String>,
    choices: Vec<Choice>,
    table: Table,
}

/// A choice of the filter.
struct Choice {
    label: &'static str,
    href: String,
    is_current: bool,
}

/// The list of all positions.
pub async fn list(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let asked = page.ask(|ledger| {
        let summaries = position_summaries(ledger);
        let with: BTreeSet<_> = summaries.iter().map(|one| one.participant.clone()).collect();
        let without = ledger.participants().iter().filter(|one| !with.contains(&one.name.to_string()));
        let without: Vec<_> = without.map(|one| (one.name.to_string(), one.is_active)).collect();
        (summaries, without)
    });
    let (stamp, (mut positions, without)) = asked.await?;
    let [name, currency, show] = ["name", "currency", "show"].map(|name| page.field(name));
    let currencies: BTreeSet<_> = positions.iter().map(|one| one.currency.0.to_string()).collect();
    let is_named = |known: &str| known.to_lowercase().contains(&name.to_lowercase());
    positions.retain(|one| {
        is_named(&one.participant)
            && (currency.is_empty() || one.currency.0.as_str() == currency)
            && match &*show {
                "problems" => position_tone(one) >= Tone::Warning,
                "inactive" => !one.is_active.0,
                _ => true,
            }
    });
    let is_unfiltered = currency.is_empty() && show != "problems";
    let mut rows: Vec<_> = positions.iter().map(|position| position_row(position, words)).collect();
    let without = without
        .iter()
        .filter(|(known, is_active)| is_unfiltered && is_named(known) && (show != "inactive" || !*is_active));
    rows.extend(without.map(|(name, is_active)| {
        let state = activity(Flag(*is_active), words);
        let mut row = vec![Cell::text(name).link(participant_url(name)), Cell::text(""), state];
        row.resize_with(COLUMNS, Cell::default);
        row
    }));
    let mut table = Table::new("positions", words.positions_caption, columns(words), rows, words)
        .or_else(words.positions_empty)
        .noted(Some(words.positions_note.to_owned()));
    if let Some(csv) = page.export(stamp, &mut [&mut table]) {
        return Ok(csv);
    }
    let choices =
        [("", words.show_all), ("problems", words.show_problems), ("inactive", words.show_inactive)];
    let choices = choices.into_iter().map(|(value, label)| Choice {
        label,
        href: page.url_with(&[("show", value)]),
        is_current: show == value,
    });
    let frame = page.frame(Section::Participants, words.participants_title, stamp);
    let (currencies, choices) = (currencies.into_iter().collect(), choices.collect());
    html(&ParticipantsPage { frame, words, name, currency, currencies, choices, table })
}

/// Number of [`columns`].
const COLUMNS: usize = 11;

fn columns(words: &Words) -> Vec<Column> {
    vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::number("position", words.column_position),
        Column::text("side", words.column_side),
        Column::text("use", words.column_use),
        Column::number("used_percent", words.column_used),
        Column::number("free", words.column_free),
        Column::number("cap", words.column_cap),
        Column::number("cover", words.column_cover),
        Column::number("reserved", words.column_reserved),
    ]
}

fn position_row(position: &PositionSummary, words: &Words) -> Vec<Cell> {
    let currency = position.currency.0;
    let amount = |Decimal(amount): Decimal| Cell::amount(amount, currency, words);
    let name = &position.participant;
    vec![
        Cell::text(name).link(participant_url(name)),
        Cell::text(currency.as_str()),
        activity(position.is_active, words),
        owed_cell(position, words),
        side_cell(position, words),
        Cell::bar(position_bar(position, words)),
        used_cell(position, words),
        Cell::units(free(position), currency, words),
        position.cap.map(amount).unwrap_or_default(),
        amount(position.cover),
        amount(position.reserved),
    ]
}

fn activity(Flag(is_active): Flag, words: &Words) -> Cell {
    match is_active {
        true => Cell::state(Tone::Good, words.state_active),
        false => Cell::state(Tone::Warning, words.state_inactive),
    }
}

#[derive(Template)]
#[template(path = "participant.html")]
struct ParticipantPage {
    frame: Frame,
    words: &'static Words,
    facts: Vec<(&'static str, Cell)>,
    positions: Table,
    lane: Option<Vec<(&'static str, Cell)>>,
    accounts: Table,
    transfers: Option<Table>,
    /// The list of all its transfers.
    transfers_url: String,
    callbacks: Option<Table>,
    endpoints: Table,
    bindings: Table,
}

/// The page of a participant.
pub async fn show(page: PageCall, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    let words = page.words;
    let lanes = page.may("/lanes").then(|| page.context.lanes.lanes());
    let wanted = name.clone();
    let asked = page.ask(move |ledger| -> Result<_, ApiError> {
        let detail = participant(ledger, &wanted)?;
        let lanes = lanes.map(|lanes| lane_reports(ledger, lanes, Vec::new()));
        let lane = lanes.into_iter().flatten().find(|lane| lane.participant.as_deref() == Some(&*wanted));
        Ok((detail, lane))
    });
    let (stamp, found) = asked.await?;
    let (detail, lane): (ParticipantDetail, Option<LaneReport>) = found?;
    let name = detail.participant.name.clone();
    let mut transfers = match page.may("/transfers") {
        true => {
            let found = newest(&page, &[("fsp", name.clone())], None, RECENT).await;
            Some(recent_transfers(found, words)?)
        }
        false => None,
    };
    let mut callbacks = match page.may("/callbacks") {
        true => {
            let limit = RECENT.to_string();
            let wanted =
                Parameters::of([("fsp", name.clone()), ("limit", limit), ("state", "parked".to_owned())]);
            let found = find_callbacks(&page.call, &page.context.lanes, &wanted).await?;
            Some(callback_table(&found.callbacks, words))
        }
        false => None,
    };
    let rows = detail.positions.iter().map(|position| position_row(position, words)).collect();
    let mut positions = Table::new("positions", words.positions_caption, columns(words), rows, words)
        .or_else(words.positions_none)
        .noted(Some(words.positions_note.to_owned()));
    let (mut accounts, mut endpoints, mut bindings) =
        (account_table(&detail, words), endpoint_table(&detail, words), binding_table(&detail, words));
    let mut tables = vec![&mut positions, &mut accounts, &mut endpoints, &mut bindings];
    tables.extend(transfers.iter_mut().chain(callbacks.iter_mut()));
    if let Some(csv) = page.export(stamp, &mut tables) {
        return Ok(csv);
    }
    let mut frame = page.frame(Section::Participants, &name, stamp);
    frame.changes = changes(&page, &name, &detail);
    let transfers_url = url("/console/transfers", &[("q", &term("dfsp", &name))]);
    let (facts, lane) = (facts(&detail, words), lane.map(|lane| lane_facts(&lane, words)));
    html(&ParticipantPage {
        frame,
        words,
        facts,
        positions,
        lane,
        accounts,
        transfers,
        transfers_url,
        callbacks,
        endpoints,
        bindings,
    })
}

/// The changes of the participant: of its activity, of its caps and of its funds, in each of its currencies.
fn changes(page: &PageCall, name: &str, detail: &ParticipantDetail) -> Vec<ChangeLink> {
    let participant = ("participant", name);
    let activity = if detail.participant.is_active.0 { Kind::Suspend } else { Kind::Resume };
    let mut changes = Vec::new();
    for position in &detail.positions {
        let currency = position.currency.0.to_string();
        let subject = [participant, ("currency", &*currency)];
        let of_currency = links(page, Some(name), &[(Kind::Deposit, &subject), (Kind::Cap, &subject)]);
        let is_cover = |account: &&OpenedAccount| {
            account.ledger_account_type == "SETTLEMENT" && account.currency == position.currency
        };
        let account = detail.accounts.iter().find(is_cover).map(|account| account.id.to_string());
        let withdrawal = account.map(|account| {
            let subject = [participant, ("currency", &*currency), ("account", &*account)];
            links(page, Some(name), &[(Kind::Withdraw, &subject)])
        });
        let all = of_currency.into_iter().chain(withdrawal.into_iter().flatten());
        // A second currency needs its name in the links.
        let named = |link: ChangeLink| ChangeLink { note: Some(currency.clone()), ..link };
        match detail.positions.len() {
            1 => changes.extend(all),
            _ => changes.extend(all.map(named)),
        }
    }
    changes.extend(links(page, Some(name), &[(activity, &[participant])]));
    changes
}

/// The newest transfers. If other callers are searching, a note instead.
fn recent_transfers(found: Result<TransferPage, ApiError>, words: &'static Words) -> Result<Table, ApiError> {
    match found {
        Ok(found) => Ok(transfer_table(&found.transfers, words)),
        Err(error) if error.name() == "busy" => Ok(transfer_table(&[], words).or_else(words.transfers_busy)),
        Err(error) => Err(error),
    }
}

fn facts(detail: &ParticipantDetail, words: &Words) -> Vec<(&'static str, Cell)> {
    let participant = &detail.participant;
    let kind = if participant.is_proxy.0 { words.kind_proxy } else { words.kind_dfsp };
    let mut facts = vec![
        (words.column_state, activity(participant.is_active, words)),
        (words.fact_kind, Cell::text(kind)),
        (words.fact_since, Cell::time(participant.created.0)),
    ];
    if let Some(proxy) = &participant.proxied_by {
        facts.push((words.fact_behind, Cell::text(proxy).link(participant_url(proxy))));
    }
    facts
}

fn lane_facts(lane: &LaneReport, words: &Words) -> Vec<(&'static str, Cell)> {
    let status = &lane.lane;
    let waiting = (status.queued + status.retrying + status.retrying_on_disk + status.in_flight) as u64;
    let mut facts = vec![
        (words.column_lane, Cell::state(lane_tone(lane), lane_word(status.state(), words))),
        (words.column_waiting, Cell::number(waiting, words)),
        (words.fact_delivered, Cell::number(status.delivered, words)),
        (words.fact_failed_attempts, Cell::number(status.failed, words)),
        (words.fact_parked_since_start, Cell::number(status.parked, words)),
    ];
    if let Some(error) = &status.last_error {
        facts.push((words.column_last_error, Cell::text(error)));
    }
    facts
}

fn account_table(detail: &ParticipantDetail, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("account", words.column_account),
        Column::text("type", words.column_type),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::number("balance", words.column_balance),
        Column::text("changed", words.column_changed),
    ];
    let rows = detail.accounts.iter().map(|account| {
        vec![
            Cell { rank: Some(account.id.into()), ..Cell::code(&account.id.to_string()) },
            Cell::text(&account.ledger_account_type),
            Cell::text(account.currency.0.as_str()),
            activity(account.is_active, words),
            Cell::amount(account.value.0, account.currency.0, words),
            Cell::time(account.changed_date.0),
        ]
    });
    Table::new("accounts", words.accounts_caption, columns, rows.collect(), words)
        .noted(Some(words.accounts_note.to_owned()))
}

fn endpoint_table(detail: &ParticipantDetail, words: &'static Words) -> Table {
    let columns = vec![Column::text("type", words.column_type), Column::text("value", words.column_value)];
    let row = |one: &upesi_admin::reads::EndpointView| vec![Cell::text(one.kind), Cell::code(&one.value)];
    let rows = detail.endpoints.iter().map(row).collect();
    Table::new("endpoints", words.endpoints_caption, columns, rows, words)
}

fn binding_table(detail: &ParticipantDetail, words: &'static Words) -> Table {
    let columns = vec![Column::text("kind", words.column_kind), Column::text("value", words.column_value)];
    let row = |one: &upesi_admin::reads::BindingView| vec![Cell::text(one.kind), Cell::code(&one.value)];
    let rows = detail.bindings.iter().map(row).collect();
    Table::new("bindings", words.bindings_caption, columns, rows, words).or_else(words.bindings_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    #[test]
    fn busy_search_is_a_note_and_other_errors_stay() {
        let table = recent_transfers(Err(upesi_engine::SubmitError::Busy.into()), &ENGLISH).unwrap();
        assert_eq!(table.empty, ENGLISH.transfers_busy);
        assert!(recent_transfers(Err(upesi_engine::SubmitError::Stopped.into()), &ENGLISH).is_err());
    }
}

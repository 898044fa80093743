//! One transfer: its sentence, its timeline, its money, its callbacks.

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{
    PositionSummary, ProgressView, Segments, ToldView, TransferView, position_summaries, read_progress,
    read_transfer,
};
use upesi_types::{Timestamp, TransferId};

use super::position::{free, owed_cell, position_bar, side_cell};
use super::settlement::{settlement_word, window_word};
use super::transfers::{state_cell, state_word};
use crate::page::{Frame, PageCall, Section, html, participant_url};
use crate::show;
use crate::story::{Story, StoryCallback, StorySettlement};
use crate::table::{Bar, Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Duration of a slow step.
const SLOW_MS: i64 = 1_000;

#[derive(Template)]
#[template(path = "transfer.html")]
struct TransferPage {
    frame: Frame,
    words: &'static Words,
    id: String,
    state: Cell,
    headline: String,
    next_step: Option<String>,
    settled: Option<(String, Option<String>)>,
    /// The party at fault in one word.
    fault: Option<&'static str>,
    amount: String,
    facts: Vec<(&'static str, Cell)>,
    timeline: Table,
    money: Table,
    now: Option<Table>,
    /// The reason why the page has no callbacks.
    progress_note: Option<&'static str>,
}

/// The page of a transfer.
pub async fn show(page: PageCall, Segments(text): Segments<String>) -> Result<Response, ApiError> {
    let words = page.words;
    let id = TransferId::parse(&text).ok_or_else(|| ApiError::malformed(words.transfer_no_id))?;
    let transfer = read_transfer(&page.call, id).await?;
    let context = &page.context;
    let (progress, progress_note) = match page.may("/transfers/{id}/progress") {
        true => unless_busy(read_progress(&page.call, &context.audit, &context.lanes, id).await, words)?,
        false => (None, Some(words.progress_hidden)),
    };
    let sees_positions = page.may("/positions");
    let (stamp, positions) =
        page.ask(move |ledger| sees_positions.then(|| position_summaries(ledger))).await?;
    let story = story(&transfer, progress.as_ref(), words);
    let mut timeline = timeline(&transfer, progress.as_ref(), words);
    let mut money = money_table(&transfer, words);
    let mut now = positions.map(|positions| now_table(&transfer, &positions, words));
    let mut tables = vec![&mut timeline, &mut money];
    tables.extend(now.iter_mut());
    if let Some(csv) = page.export(stamp, &mut tables) {
        return Ok(csv);
    }
    let settlement = progress.as_ref().and_then(|progress| progress.settlement.as_ref());
    let window = settlement.filter(|_| page.may("/v2/settlementWindows/{id}"));
    let window = window.map(|settlement| format!("/console/windows/{}", settlement.window_id));
    let code = transfer.error_information.as_ref().map(|error| &*error.error_code);
    let amount = &transfer.amount;
    html(&TransferPage {
        frame: page.frame(Section::Transfers, words.transfer_title, stamp),
        words,
        id: transfer.transfer_id.clone(),
        state: state_cell(&transfer, words),
        headline: story.headline(words),
        next_step: progress.is_some().then(|| story.next_step(words)),
        settled: progress.is_some().then(|| (story.settled(words), window)),
        fault: at_fault(transfer.internal_state, code, transfer.operator_reason.is_some(), words),
        amount: show::money_of(amount.amount.0, amount.currency.0, words),
        facts: facts(&transfer, words),
        timeline,
        money,
        now,
        progress_note,
    })
}

/// The progress. If other callers are reading the journal, a note instead.
fn unless_busy(
    read: Result<ProgressView, ApiError>,
    words: &Words,
) -> Result<(Option<ProgressView>, Option<&'static str>), ApiError> {
    match read {
        Ok(progress) => Ok((Some(progress), None)),
        Err(error) if error.name() == "busy" => Ok((None, Some(words.progress_busy))),
        Err(error) => Err(error),
    }
}

fn story<'a>(transfer: &'a TransferView, progress: Option<&'a ProgressView>, words: &Words) -> Story<'a> {
    let name = |party: &'a Option<upesi_admin::reads::Party>| party.as_ref().map(|party| &*party.name);
    let money = show::money_of(transfer.amount.amount.0, transfer.amount.currency.0, words);
    let error = transfer.error_information.as_ref();
    let callbacks = progress.map(|progress| &*progress.callbacks).unwrap_or_default();
    Story {
        payer: name(&transfer.payer),
        payee: name(&transfer.payee),
        money,
        public_state: transfer.transfer_state,
        state: state_word(transfer, words).1,
        since: show::zoned(transfer.completed_date.unwrap_or(transfer.prepared_date).0, words),
        expires: show::zoned(transfer.expiration.0, words),
        error: error.map(|error| (&*error.error_code, &*error.error_description)),
        operator_reason: transfer.operator_reason.as_deref(),
        callbacks: callbacks.iter().map(|one| told(one, words)).collect(),
        is_whole: progress.is_none_or(|progress| progress.is_whole),
        settlement: progress.and_then(|progress| progress.settlement.as_ref()).map(|one| StorySettlement {
            window: one.window_id,
            window_state: window_word(one.window_state, words).1,
            settlement: one
                .settlement_id
                .zip(one.settlement_state)
                .map(|(id, state)| (id, settlement_word(state, words))),
        }),
    }
}

fn told<'a>(told: &'a ToldView, words: &Words) -> StoryCallback<'a> {
    StoryCallback {
        key: told.key.to_string(),
        participant: &told.participant,
        message: &told.message,
        state: told.state,
        delivered: told.delivered_date.map(|at| show::zoned(at.0, words)),
        attempts: told.attempts,
        reason: told.reason.as_deref(),
    }
}

/// The party at fault in one word; none for a transfer without a fault.
fn at_fault(state: &str, code: Option<&str>, is_by_operator: bool, words: &Words) -> Option<&'static str> {
    let code = code?;
    Some(match (state, code.as_bytes().first()) {
        _ if is_by_operator => words.fault_operator,
        (_, Some(b'2')) => words.fault_hub,
        ("EXPIRED_RESERVED" | "ABORTED_ERROR" | "ABORTED_INVALID_FULFIL" | "ABORTED_INVALID_ABORT", _) => {
            words.fault_payee
        }
        ("ABORTED_REJECTED" | "INVALID", _) => words.fault_payer,
        _ => words.fault_unknown,
    })
}

fn facts(transfer: &TransferView, words: &Words) -> Vec<(&'static str, Cell)> {
    let party = |party: &Option<upesi_admin::reads::Party>| match party {
        Some(party) => Cell::text(&party.name).link(participant_url(&party.name)),
        None => Cell::text(words.story_unknown),
    };
    let mut facts = vec![
        (words.column_payer, party(&transfer.payer)),
        (words.column_payee, party(&transfer.payee)),
        (words.fact_prepared, Cell::time(transfer.prepared_date.0)),
        (words.fact_expires, Cell::time(transfer.expiration.0)),
        (words.fact_record, Cell::number(transfer.prepare_seq, words)),
        (words.fact_condition, Cell::code(&transfer.condition)),
    ];
    if let Some(completed) = transfer.completed_date {
        facts.insert(3, (words.fact_completed, Cell::time(completed.0)));
    }
    if let Some(fulfilment) = &transfer.fulfilment {
        facts.push((words.fact_fulfilment, Cell::code(fulfilment)));
    }
    if let Some(error) = &transfer.error_information {
        let text = format!("{} {}", error.error_code, error.error_description);
        facts.push((words.fact_error, Cell::text(&text)));
    }
    if let Some(reason) = &transfer.operator_reason {
        facts.push((words.fact_operator_reason, Cell::text(reason)));
    }
    if let Some(extensions) = &transfer.extensions {
        facts.push((words.fact_extensions, Cell::code(extensions.get())));
    }
    facts
}

/// A step of the timeline.
struct Step {
    /// The time that determines its place.
    at: Timestamp,
    from: Timestamp,
    to: Option<Timestamp>,
    what: &'static str,
    message: String,
    participant: Option<String>,
    outcome: Cell,
}

fn steps(transfer: &TransferView, progress: Option<&ProgressView>, words: &Words) -> Vec<Step> {
    let prepared = transfer.prepared_date.0;
    let mut steps = vec![Step {
        at: prepared,
        from: prepared,
        to: Some(prepared),
        what: words.step_prepared,
        message: "POST /transfers".to_owned(),
        participant: transfer.payer.as_ref().map(|party| party.name.clone()),
        outcome: Cell::state(Tone::Good, words.step_stored),
    }];
    let callbacks = progress.map(|progress| &*progress.callbacks).unwrap_or_default();
    for told in callbacks {
        let attempts = told.attempts.map_or_else(String::new, |attempts| attempts.to_string());
        let values = [("attempts", &*attempts), ("reason", told.reason.as_deref().unwrap_or_default())];
        let outcome = match told.state {
            "delivered" => Cell::state(Tone::Good, words.callback_delivered),
            "parked" => Cell::state(Tone::Bad, &fill(words.step_parked, &values)),
            _ if told.attempts.is_some() => Cell::state(Tone::Warning, &fill(words.step_retried, &values)),
            _ => Cell::state(Tone::Busy, words.callback_pending),
        };
        steps.push(Step {
            at: told.created_date.0,
            from: told.created_date.0,
            to: told.delivered_date.map(|at| at.0),
            what: words.step_callback,
            message: told.message.clone(),
            participant: Some(told.participant.clone()),
            outcome,
        });
    }
    match transfer.completed_date {
        Some(completed) => steps.push(Step {
            at: completed.0,
            from: prepared,
            to: Some(completed.0),
            what: words.step_ended,
            message: String::new(),
            participant: transfer.payee.as_ref().map(|party| party.name.clone()),
            outcome: state_cell(transfer, words),
        }),
        None => steps.push(Step {
            at: transfer.expiration.0,
            from: prepared,
            to: None,
            what: words.step_ended,
            message: String::new(),
            participant: transfer.payee.as_ref().map(|party| party.name.clone()),
            outcome: Cell::state(Tone::Busy, words.step_waits),
        }),
    }
    steps.sort_by_key(|step| step.at);
    steps
}

/// The steps with bars on the time from the prepare to the last step.
fn timeline(transfer: &TransferView, progress: Option<&ProgressView>, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("step", words.column_step),
        Column::text("dfsp", words.column_dfsp),
        Column::text("message", words.column_message),
        Column::text("begin", words.column_begin),
        Column::number("ms", words.column_took),
        Column::text("timeline", words.column_timeline),
        Column::text("outcome", words.column_outcome),
    ];
    let steps = steps(transfer, progress, words);
    let begin = transfer.prepared_date.0;
    let ends = steps.iter().flat_map(|step| [Some(step.from), step.to]).flatten();
    let whole = ends.map(|at| at.ms_since(begin)).max().unwrap_or(0).max(1);
    let part = |ms: i64| u64::try_from(i128::from(ms.max(0)) * 1000 / i128::from(whole)).unwrap_or(0);
    let rows = steps.into_iter().map(|step| {
        let took = step.to.map(|to| to.ms_since(step.from).max(0));
        let tone = match took {
            Some(SLOW_MS..) => Tone::Warning,
            Some(_) => Tone::Plain,
            None => Tone::Busy,
        };
        let from = part(step.from.ms_since(begin)).min(990);
        let length = took.map_or(1000 - from, part).clamp(6, 1000 - from);
        let text = match took {
            Some(ms) => show::duration(ms, words),
            None => words.step_open.to_owned(),
        };
        let name = step.participant.as_deref().unwrap_or_default();
        let start = Cell::exact_time(step.from);
        vec![
            Cell::text(step.what),
            if name.is_empty() { Cell::default() } else { Cell::text(name).link(participant_url(name)) },
            Cell::text(&step.message),
            start,
            Cell::milliseconds(took.and_then(|ms| u64::try_from(ms).ok()), words),
            Cell { rank: None, ..Cell::bar(Bar { from, length, tone, marks: Vec::new(), text }) },
            step.outcome,
        ]
    });
    let is_whole = progress.is_none_or(|progress| progress.is_whole);
    let note = (!is_whole).then(|| words.timeline_cut.to_owned());
    Table::new("timeline", words.timeline_caption, columns, rows.collect(), words).noted(note)
}

/// The movements of the transfer on both positions.
fn money_table(transfer: &TransferView, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("account", words.column_account),
        Column::text("step", words.column_step),
        Column::number("change", words.column_change),
        Column::text("currency", words.column_currency),
        Column::text("time", words.column_time),
    ];
    let amount = &transfer.amount;
    let units = i128::from(amount.amount.0.units());
    let row = |party: &Option<upesi_admin::reads::Party>, step, units: i128, at| {
        let party = party.as_ref()?;
        let account = party.account_id?;
        Some(vec![
            Cell::text(&party.name).link(participant_url(&party.name)),
            Cell::code(&account.to_string()),
            Cell::text(step),
            Cell {
                text: signed(units, amount.currency.0, words),
                ..Cell::units(units, amount.currency.0, words)
            },
            Cell::text(amount.currency.0.as_str()),
            Cell::time(at),
        ])
    };
    let prepared = transfer.prepared_date.0;
    let reserved = row(&transfer.payer, words.money_reserved, units, prepared);
    let is_at_once = transfer.is_committed_without_window;
    let ended = match (transfer.transfer_state, transfer.completed_date) {
        // The covers moved, and the payee's position did not.
        ("COMMITTED", Some(at)) if is_at_once => row(&transfer.payer, words.money_released, -units, at.0),
        ("COMMITTED", Some(at)) => row(&transfer.payee, words.money_committed, -units, at.0),
        ("ABORTED", Some(at)) => row(&transfer.payer, words.money_released, -units, at.0),
        _ => None,
    };
    let rows = reserved.into_iter().chain(ended).collect();
    let note = match is_at_once {
        true => format!("{} {}", words.money_at_once, words.money_note),
        false => words.money_note.to_owned(),
    };
    Table::new("money", words.money_caption, columns, rows, words)
        .or_else(words.money_empty)
        .noted(Some(note))
}

/// An amount that always has a sign.
fn signed(units: i128, currency: upesi_types::Currency, words: &Words) -> String {
    let text = show::money(units, currency, words);
    if units > 0 { format!("+{text}") } else { text }
}

/// Both positions at this time.
fn now_table(transfer: &TransferView, positions: &[PositionSummary], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::number("position", words.column_position),
        Column::text("side", words.column_side),
        Column::text("use", words.column_use),
        Column::number("free", words.column_free),
        Column::text("currency", words.column_currency),
    ];
    let currency = transfer.amount.currency;
    let parties = [&transfer.payer, &transfer.payee].into_iter().flatten();
    let rows = parties.filter_map(|party| {
        let position =
            positions.iter().find(|one| one.participant == party.name && one.currency == currency)?;
        Some(vec![
            Cell::text(&party.name).link(participant_url(&party.name)),
            owed_cell(position, words),
            side_cell(position, words),
            Cell::bar(position_bar(position, words)),
            Cell::units(free(position), currency.0, words),
            Cell::text(currency.0.as_str()),
        ])
    });
    Table::new("now", words.now_caption, columns, rows.collect(), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    #[test]
    fn busy_journal_is_a_note_and_other_errors_stay() {
        let busy = unless_busy(Err(upesi_engine::SubmitError::Busy.into()), &ENGLISH).unwrap();
        assert!(busy.0.is_none() && busy.1 == Some(ENGLISH.progress_busy));
        assert!(unless_busy(Err(upesi_engine::SubmitError::Stopped.into()), &ENGLISH).is_err());
    }

    #[test]
    fn fault_is_one_word_and_absent_without_an_error() {
        for (state, code, is_by_operator, expected) in [
            ("COMMITTED", None, false, None),
            ("RESERVED", None, false, None),
            ("EXPIRED_RESERVED", Some("3303"), false, Some(ENGLISH.fault_payee)),
            ("EXPIRED_RESERVED", Some("3303"), true, Some(ENGLISH.fault_operator)),
            ("ABORTED_ERROR", Some("5001"), false, Some(ENGLISH.fault_payee)),
            ("ABORTED_REJECTED", Some("4001"), false, Some(ENGLISH.fault_payer)),
            ("INVALID", Some("2001"), false, Some(ENGLISH.fault_hub)),
        ] {
            assert_eq!(at_fault(state, code, is_by_operator, &ENGLISH), expected, "{state}");
        }
    }
}

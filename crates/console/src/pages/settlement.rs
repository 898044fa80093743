//! Settlement windows and settlements.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::response::Response;
use upesi_admin::ApiError;
use upesi_admin::reads::{
    PairKey, PairView, PairsView, Segments, SettlementView, WindowView, deferred_models, newest_settlements,
    newest_windows, pairs_behind, settlement as one_settlement, window as one_window,
};
use upesi_types::Currency;
use upesi_types::text::escape;

use crate::changes::{Kind, links};
use crate::page::{ChangeLink, Frame, PageCall, Section, html, participant_url};
use crate::show;
use crate::table::{Cell, Column, Table, Tone};
use crate::words::{Words, fill};

/// Number of windows, and of settlements, per page.
const LISTED: usize = 100;
/// Number of pairs of a window per page.
const PAIRS_MAX: usize = 10_000;
/// Parameters of the positions in the lists.
const WINDOWS_BEFORE: &str = "windows-before";
const SETTLEMENTS_BEFORE: &str = "settlements-before";
const PAIRS_AFTER: &str = "pairs-after";
/// Maximum number of DFSPs in a matrix.
const MATRIX_MAX: usize = 40;

#[derive(Template)]
#[template(path = "settlement.html")]
struct SettlementPage {
    frame: Frame,
    words: &'static Words,
    windows: Table,
    /// The URL of older windows.
    older_windows: Option<String>,
    settlements: Table,
    /// The URL of older settlements.
    older_settlements: Option<String>,
}

/// The lists of windows and settlements.
pub async fn list(page: PageCall) -> Result<Response, ApiError> {
    let words = page.words;
    let sees_settlements = page.may("/v2/settlements");
    let before = |name| page.parameters.get(name).and_then(|before| before.parse().ok());
    let [windows_before, settlements_before] = [WINDOWS_BEFORE, SETTLEMENTS_BEFORE].map(before);
    let asked = page.ask(move |ledger| {
        let settlements = sees_settlements.then(|| newest_settlements(ledger, settlements_before, LISTED));
        let windows = newest_windows(ledger, windows_before, LISTED);
        (windows, ledger.open_window_transfers(), settlements.unwrap_or_default())
    });
    let (stamp, ((windows, next_window), open_transfers, (settlements, next_settlement))) = asked.await?;
    let mut windows = window_table(&windows, open_transfers, words);
    let mut settlements = settlement_table(&settlements, words);
    if let Some(csv) = page.export(stamp, &mut [&mut windows, &mut settlements]) {
        return Ok(csv);
    }
    let frame = page.frame(Section::Settlement, words.settlement_title, stamp);
    let older = |name, next: Option<u32>| next.map(|next| page.url_with(&[(name, &next.to_string())]));
    html(&SettlementPage {
        frame,
        words,
        windows,
        older_windows: older(WINDOWS_BEFORE, next_window),
        settlements,
        older_settlements: older(SETTLEMENTS_BEFORE, next_settlement),
    })
}

fn window_url(id: u32) -> String {
    format!("/console/windows/{id}")
}

fn settlement_url(id: u32) -> String {
    format!("/console/settlements/{id}")
}

fn number_cell(id: u32) -> Cell {
    Cell { rank: Some(id.into()), ..Cell::text(&id.to_string()) }
}

/// The state of a window in plain words.
pub(super) fn window_word(state: &str, words: &Words) -> (Tone, &'static str) {
    match state {
        "OPEN" => (Tone::Plain, words.window_open),
        "CLOSED" => (Tone::Busy, words.window_closed),
        "PENDING_SETTLEMENT" => (Tone::Busy, words.window_pending),
        "SETTLED" => (Tone::Good, words.window_settled),
        _ => (Tone::Warning, words.window_aborted),
    }
}

fn window_state(state: &str, words: &Words) -> Cell {
    let (tone, text) = window_word(state, words);
    Cell { value: state.to_owned(), ..Cell::state(tone, text) }
}

/// The state of a settlement, or of one of its accounts, in plain words.
pub(super) fn settlement_word<'a>(state: &'a str, words: &Words) -> &'a str {
    let named = STAGES.iter().zip(stage_words(words)).find(|(stage, _)| **stage == state);
    match named {
        Some((_, word)) => word,
        None if state == "ABORTED" => words.stage_aborted,
        None => state,
    }
}

fn settlement_state(state: &str, words: &Words) -> Cell {
    let tone = match state {
        "SETTLED" => Tone::Good,
        "ABORTED" => Tone::Warning,
        _ => Tone::Busy,
    };
    Cell { value: state.to_owned(), ..Cell::state(tone, settlement_word(state, words)) }
}

fn window_table(windows: &[WindowView], open_transfers: u64, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("window", words.column_window),
        Column::text("state", words.column_state),
        Column::number("transfers", words.column_transfers),
        Column::text("values", words.column_values),
        Column::text("opened", words.column_opened),
        Column::text("changed", words.column_changed),
        Column::text("settlements", words.column_settlements),
        Column::text("reason", words.column_reason),
    ];
    let rows = windows.iter().map(|window| {
        let transfers = match window.state {
            "OPEN" => open_transfers,
            _ => window.content.iter().map(|content| content.sum.transfers).sum(),
        };
        let value = |content: &upesi_admin::reads::ContentView| {
            let currency = content.currency_id.0;
            format!("{} {currency}", show::money(content.sum.units, currency, words))
        };
        let values: Vec<_> = window.content.iter().map(value).collect();
        let settlements: BTreeSet<_> =
            window.content.iter().filter_map(|content| content.settlement).collect();
        let names: Vec<_> = settlements.iter().map(u32::to_string).collect();
        let link = match settlements.iter().collect::<Vec<_>>()[..] {
            [only] => Some(settlement_url(*only)),
            _ => None,
        };
        let id = window.settlement_window_id;
        vec![
            number_cell(id).link(window_url(id)),
            window_state(window.state, words),
            Cell::number(transfers, words),
            Cell::text(&values.join(", ")),
            Cell::time(window.created_date.0),
            Cell::time(window.changed_date.0),
            Cell { href: link, ..Cell::text(&names.join(", ")) },
            Cell::text(&window.reason),
        ]
    });
    Table::new("windows", words.windows_caption, columns, rows.collect(), words)
}

fn settlement_table(settlements: &[SettlementView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("settlement", words.column_settlement),
        Column::text("state", words.column_state),
        Column::text("model", words.column_model),
        Column::text("windows", words.column_windows),
        Column::number("participants", words.column_participants),
        Column::text("created", words.column_created),
        Column::text("changed", words.column_changed),
        Column::text("reason", words.column_reason),
    ];
    let rows = settlements.iter().map(|one| {
        let windows: Vec<_> = one.settlement_windows.iter().map(|window| window.id.to_string()).collect();
        vec![
            number_cell(one.id).link(settlement_url(one.id)),
            settlement_state(one.state, words),
            Cell::text(&one.settlement_model),
            Cell::text(&windows.join(", ")),
            Cell::number(one.participants.len() as u64, words),
            Cell::time(one.created_date.0),
            Cell::time(one.changed_date.0),
            Cell::text(&one.reason),
        ]
    });
    Table::new("settlements", words.settlements_caption, columns, rows.collect(), words)
        .or_else(words.settlements_empty)
}

/// The id in a path.
fn read_id(text: &str, words: &Words) -> Result<u32, ApiError> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| ApiError::malformed(words.settlement_no_id))
}

#[derive(Template)]
#[template(path = "window.html")]
struct WindowPage {
    frame: Frame,
    words: &'static Words,
    facts: Vec<(&'static str, Cell)>,
    matrices: Vec<Matrix>,
    /// The reasons why matrices are left out.
    notes: Vec<String>,
    pairs: Table,
    /// The URL of the next pairs.
    next: Option<String>,
}

/// The obligations of a window in a currency, from payers (rows) to payees (columns).
#[derive(Debug, PartialEq, Eq)]
struct Matrix {
    caption: String,
    payees: Vec<String>,
    rows: Vec<MatrixRow>,
    received: Vec<String>,
    nets: Vec<Net>,
}

#[derive(Debug, PartialEq, Eq)]
struct MatrixRow {
    payer: String,
    amounts: Vec<String>,
    sent: String,
}

/// What a DFSP pays or receives in the settlement.
#[derive(Debug, PartialEq, Eq)]
struct Net {
    text: String,
    side: &'static str,
}

/// The page of a window.
pub async fn window(page: PageCall, Segments(text): Segments<String>) -> Result<Response, ApiError> {
    let words = page.words;
    let id = read_id(&text, words)?;
    let sees_pairs = page.may("/v2/settlementWindows/{id}/pairs");
    let after = page.parameters.get(PAIRS_AFTER).and_then(PairKey::parse);
    let asked = page.ask(move |ledger| -> Result<_, ApiError> {
        let window = one_window(ledger, id)?;
        // The sums of old windows are dropped.
        let found = sees_pairs.then(|| pairs_behind(ledger, id, after, PAIRS_MAX)).and_then(Result::ok);
        Ok((window, found, deferred_models(ledger)))
    });
    let (stamp, found) = asked.await?;
    let (window, pairs, models): (WindowView, Option<PairsView>, Vec<String>) = found?;
    let listed = pairs.as_ref().map(|pairs| &*pairs.pairs).unwrap_or_default();
    let mut table = pair_table(listed, words);
    if pairs.is_none() {
        table.empty = words.pairs_dropped.to_owned();
    }
    let next = pairs.as_ref().and_then(|pairs| pairs.next);
    let is_whole = after.is_none() && next.is_none();
    if !is_whole {
        table.part = Some(pairs_part(id, listed.len(), words));
    }
    if let Some(csv) = page.export(stamp, &mut [&mut table]) {
        return Ok(csv);
    }
    let title = fill(words.window_title, &[("window", &id.to_string())]);
    let mut facts = vec![
        (words.column_state, window_state(window.state, words)),
        (words.column_opened, Cell::time(window.created_date.0)),
        (words.column_changed, Cell::time(window.changed_date.0)),
    ];
    if !window.reason.is_empty() {
        facts.push((words.column_reason, Cell::text(&window.reason)));
    }
    let settlements: BTreeSet<_> = window.content.iter().filter_map(|content| content.settlement).collect();
    for id in settlements {
        facts.push((words.column_settlement, Cell::text(&id.to_string()).link(settlement_url(id))));
    }
    // A matrix of only some pairs would have wrong sums.
    let (matrices, notes) = if is_whole { matrices(listed, words) } else { Default::default() };
    let mut frame = page.frame(Section::Settlement, &title, stamp);
    frame.changes = window_changes(&page, id, window.state, &models);
    let next = next.map(|next| page.url_with(&[(PAIRS_AFTER, &next.to_string())]));
    html(&WindowPage { frame, words, facts, matrices, notes, pairs: table, next })
}

/// What is missing in a page of pairs.
fn pairs_part(id: u32, shown: usize, words: &Words) -> String {
    let shown = show::number(shown as u64, words);
    fill(words.pairs_cut, &[("shown", &shown), ("window", &id.to_string())])
}

fn pair_table(pairs: &[PairView], words: &'static Words) -> Table {
    let columns = vec![
        Column::text("payer", words.column_payer),
        Column::text("payee", words.column_payee),
        Column::number("transfers", words.column_transfers),
        Column::number("amount", words.column_amount),
        Column::text("currency", words.column_currency),
    ];
    let rows = pairs.iter().map(|pair| {
        let currency = pair.currency.0;
        vec![
            Cell::text(&pair.payer.name).link(participant_url(&pair.payer.name)),
            Cell::text(&pair.payee.name).link(participant_url(&pair.payee.name)),
            Cell::number(pair.transfers, words),
            Cell::units(pair.amount.0.units, currency, words),
            Cell::text(currency.as_str()),
        ]
    });
    Table::new("pairs", words.pairs_caption, columns, rows.collect(), words).or_else(words.pairs_empty)
}

/// One matrix for each currency that has few enough DFSPs, and a note for each other currency.
fn matrices(pairs: &[PairView], words: &Words) -> (Vec<Matrix>, Vec<String>) {
    let mut by_currency = BTreeMap::<Currency, Vec<&PairView>>::new();
    for pair in pairs {
        by_currency.entry(pair.currency.0).or_default().push(pair);
    }
    let (mut matrices, mut notes) = (Vec::new(), Vec::new());
    for (currency, pairs) in by_currency {
        match matrix(currency, &pairs, words) {
            Some(matrix) => matrices.push(matrix),
            None => {
                let values = [("currency", currency.as_str()), ("max", &MATRIX_MAX.to_string())];
                notes.push(fill(words.matrix_left_out, &values));
            }
        }
    }
    (matrices, notes)
}

fn matrix(currency: Currency, pairs: &[&PairView], words: &Words) -> Option<Matrix> {
    let names: BTreeSet<_> = pairs.iter().flat_map(|pair| [&*pair.payer.name, &*pair.payee.name]).collect();
    if names.len() > MATRIX_MAX {
        return None;
    }
    // Two accounts of a pair may be of different types.
    let mut sums = BTreeMap::<(&str, &str), i128>::new();
    for pair in pairs {
        *sums.entry((&*pair.payer.name, &*pair.payee.name)).or_default() += pair.amount.0.units;
    }
    let money = |units| show::money(units, currency, words);
    let sum = |is_of: &dyn Fn(&(&str, &str)) -> bool| -> i128 {
        sums.iter().filter(|(pair, _)| is_of(pair)).map(|(_, units)| units).sum()
    };
    let rows = names.iter().map(|payer| MatrixRow {
        payer: (*payer).to_owned(),
        amounts: names
            .iter()
            .map(|payee| sums.get(&(*payer, *payee)).map_or_else(String::new, |units| money(*units)))
            .collect(),
        sent: money(sum(&|pair| pair.0 == *payer)),
    });
    let received = |name: &&str| sum(&|pair| pair.1 == *name);
    let net = |name: &&str| {
        let units = sum(&|pair| pair.0 == *name) - received(name);
        let side = match units {
            0 => words.side_even,
            1.. => words.side_pays,
            _ => words.side_receives,
        };
        Net { text: money(if units < 0 { -units } else { units }), side }
    };
    Some(Matrix {
        caption: fill(words.matrix_caption, &[("currency", currency.as_str())]),
        payees: names.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.collect(),
        received: names.iter().map(|name| money(received(name))).collect(),
        nets: names.iter().map(net).collect(),
    })
}

#[derive(Template)]
#[template(path = "settlement_detail.html")]
struct DetailPage {
    frame: Frame,
    words: &'static Words,
    facts: Vec<(&'static str, Cell)>,
    stages: Vec<Stage>,
    accounts: Table,
    check: Vec<(String, String, bool)>,
}

/// A stage of the stepper.
struct Stage {
    label: &'static str,
    class: &'static str,
    mark: &'static str,
}

const STAGES: [&str; 6] = [
    "PENDING_SETTLEMENT",
    "PS_TRANSFERS_RECORDED",
    "PS_TRANSFERS_RESERVED",
    "PS_TRANSFERS_COMMITTED",
    "SETTLING",
    "SETTLED",
];

/// The changes of a window: its close, and then a settlement for each model.
fn window_changes(page: &PageCall, id: u32, state: &str, models: &[String]) -> Vec<ChangeLink> {
    let id = id.to_string();
    match state {
        "OPEN" => links(page, None, &[(Kind::CloseWindow, &[("window", &id)])]),
        "CLOSED" | "ABORTED" => {
            let mut changes = Vec::new();
            for model in models {
                let of_model = links(page, None, &[(Kind::Settle, &[("window", &id), ("model", model)])]);
                let note = Some(escape(model).into_owned());
                changes.extend(of_model.into_iter().map(|link| ChangeLink { note: note.clone(), ..link }));
            }
            changes
        }
        _ => Vec::new(),
    }
}

fn settlement_changes(page: &PageCall, id: u32, state: &str) -> Vec<ChangeLink> {
    let id = id.to_string();
    let subject = [("settlement", &*id)];
    match state {
        "SETTLED" | "ABORTED" => Vec::new(),
        _ => links(page, None, &[(Kind::Advance, &subject), (Kind::AbortSettlement, &subject)]),
    }
}

/// The page of a settlement.
pub async fn settlement(page: PageCall, Segments(text): Segments<String>) -> Result<Response, ApiError> {
    let words = page.words;
    let id = read_id(&text, words)?;
    let (stamp, found) = page.ask(move |ledger| one_settlement(ledger, id)).await?;
    let settlement = found?;
    let mut accounts = settlement_accounts(&settlement, words);
    if let Some(csv) = page.export(stamp, &mut [&mut accounts]) {
        return Ok(csv);
    }
    let title = fill(words.settlement_detail_title, &[("settlement", &id.to_string())]);
    let mut facts = vec![
        (words.column_state, settlement_state(settlement.state, words)),
        (words.column_model, Cell::text(&settlement.settlement_model)),
        (words.column_created, Cell::time(settlement.created_date.0)),
        (words.column_changed, Cell::time(settlement.changed_date.0)),
        (words.column_reason, Cell::text(&settlement.reason)),
    ];
    if let Some(reference) = &settlement.external_reference {
        facts.push((words.column_reference, Cell::text(reference)));
    }
    for window in &settlement.settlement_windows {
        facts.push((words.column_window, Cell::text(&window.id.to_string()).link(window_url(window.id))));
    }
    let mut frame = page.frame(Section::Settlement, &title, stamp);
    frame.changes = settlement_changes(&page, id, settlement.state);
    let (stages, check) = (stages(settlement.state, words), check(&settlement, words));
    html(&DetailPage { frame, words, facts, stages, accounts, check })
}

/// The words for [`STAGES`].
fn stage_words(words: &Words) -> [&'static str; STAGES.len()] {
    [
        words.stage_created,
        words.stage_recorded,
        words.stage_reserved,
        words.stage_committed,
        words.stage_settling,
        words.stage_settled,
    ]
}

fn stages(state: &str, words: &Words) -> Vec<Stage> {
    let current = STAGES.iter().position(|stage| *stage == state);
    let stage = |(index, label)| match current {
        Some(current) if index < current || state == "SETTLED" => Stage { label, class: "done", mark: "✓" },
        Some(current) if index == current => Stage { label, class: "current", mark: "◷" },
        _ => Stage { label, class: "open", mark: "" },
    };
    stage_words(words).into_iter().enumerate().map(stage).collect()
}

fn settlement_accounts(settlement: &SettlementView, words: &'static Words) -> Table {
    let columns = vec![
        Column::text("dfsp", words.column_dfsp),
        Column::text("account", words.column_account),
        Column::number("net", words.column_net),
        Column::text("side", words.column_side),
        Column::text("currency", words.column_currency),
        Column::text("state", words.column_state),
        Column::text("reference", words.column_reference),
        Column::text("reason", words.column_reason),
    ];
    let mut rows = Vec::new();
    for party in &settlement.participants {
        for account in &party.accounts {
            let Some(net) = &account.net_settlement_amount else { continue };
            let (currency, units) = (net.currency.0, i128::from(net.amount.0.units()));
            let side = match units {
                0 => words.side_even,
                1.. => words.side_pays,
                _ => words.side_receives,
            };
            let size = show::money(if units < 0 { -units } else { units }, currency, words);
            rows.push(vec![
                Cell::text(&party.name).link(participant_url(&party.name)),
                Cell::code(&account.id.to_string()),
                Cell { text: size, ..Cell::units(units, currency, words) },
                Cell::text(side),
                Cell::text(currency.as_str()),
                settlement_state(account.state, words),
                Cell::text(account.external_reference.as_deref().unwrap_or_default()),
                Cell::text(&account.reason),
            ]);
        }
    }
    Table::new("accounts", words.nets_caption, columns, rows, words)
}

/// The sum of all nets of each currency, which must be zero.
fn check(settlement: &SettlementView, words: &Words) -> Vec<(String, String, bool)> {
    let mut sums = BTreeMap::<Currency, i128>::new();
    let accounts = settlement.participants.iter().flat_map(|party| &party.accounts);
    for net in accounts.filter_map(|account| account.net_settlement_amount.as_ref()) {
        *sums.entry(net.currency.0).or_default() += i128::from(net.amount.0.units());
    }
    let line = |(currency, units): (Currency, i128)| {
        (currency.to_string(), show::money(units, currency, words), units == 0)
    };
    sums.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    /// A cut list must not be mistaken for the whole, neither in the page nor in the file.
    #[test]
    fn part_of_the_pairs_is_named_in_page_and_export() {
        let mut table = pair_table(&[], &ENGLISH);
        table.part = Some(pairs_part(7, 10_000, &ENGLISH));
        let note = "10,000 pairs";
        let html = table.to_string();
        assert!(html.contains(note) && html.contains("--kind obligations --data DIR --window 7 "), "{html}");
        let csv = table.to_csv();
        assert!(csv.lines().last().is_some_and(|line| line.contains(note)), "{csv}");
    }
}

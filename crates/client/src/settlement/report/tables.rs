//! The tables of each report.

use std::fmt::Write;

use super::figures::{Party, SettlementFigures};
use crate::settlement::cell::Cell;

type Rows = Vec<Vec<Cell>>;

fn headings(names: &[&str]) -> Vec<Cell> {
    names.iter().map(|name| Cell::text(name)).collect()
}

pub(super) fn multilateral(figures: &SettlementFigures) -> Rows {
    let has_remainders = figures.parties.values().any(Party::has_remainder);
    let mut columns = headings(&["participant", "currency", "net amount"]);
    if has_remainders {
        columns.extend(headings(&["carried in", "carried over"]));
    }
    let mut rows = vec![columns];
    for currency in figures.currencies() {
        for (_, party) in figures.accounts_in(currency) {
            let mut row = vec![Cell::text(&party.name), Cell::text(currency), Cell::Amount(party.net)];
            if has_remainders {
                row.extend([party.carried_in, party.carried_over].map(Cell::Amount));
            }
            rows.push(row);
        }
    }
    rows
}

const PAIR_COLUMNS: [&str; 6] =
    ["net debtor", "net creditor", "currency", "total sent", "total received", "net amount"];

pub(super) fn bilateral(figures: &SettlementFigures) -> Rows {
    let mut rows = vec![headings(&PAIR_COLUMNS)];
    for currency in figures.currencies() {
        let accounts = figures.accounts_in(currency);
        for (index, (one, party)) in accounts.iter().enumerate() {
            for (other, counterpart) in &accounts[index + 1..] {
                if !figures.have_dealt(*one, *other, None) {
                    continue;
                }
                let (there, back) = (figures.sent(*one, *other, None), figures.sent(*other, *one, None));
                rows.push(if there >= back {
                    pair(party, counterpart, (there, back))
                } else {
                    pair(counterpart, party, (back, there))
                });
            }
        }
    }
    rows
}

/// The amounts from a debtor to a creditor, and in the other direction.
fn pair(debtor: &Party, creditor: &Party, (sent, received): (i128, i128)) -> Vec<Cell> {
    vec![
        Cell::text(&debtor.name),
        Cell::text(&creditor.name),
        Cell::text(&debtor.currency),
        Cell::Amount(sent),
        Cell::Amount(received),
        Cell::Amount(sent - received),
    ]
}

/// Per currency: senders in rows, receivers in columns; the last row's last cell is the check value.
pub(super) fn matrix(figures: &SettlementFigures) -> Rows {
    let mut rows = Vec::new();
    for currency in figures.currencies() {
        let accounts = figures.accounts_in(currency);
        let sent_by =
            |payer| accounts.iter().map(|(payee, _)| figures.sent(payer, *payee, None)).sum::<i128>();
        let received_by =
            |payee| accounts.iter().map(|(payer, _)| figures.sent(*payer, payee, None)).sum::<i128>();
        let row = |name: &str, cells: &mut dyn Iterator<Item = i128>, last: i128| {
            let mut row = vec![Cell::text(name)];
            row.extend(cells.map(Cell::Amount));
            row.push(Cell::Amount(last));
            row
        };
        let names = accounts.iter().map(|(_, party)| Cell::text(&party.name));
        let corner = [Cell::Text(format!("{currency} sender by receiver"))];
        rows.push(corner.into_iter().chain(names).chain([Cell::text("total sent")]).collect());
        for (payer, party) in &accounts {
            let mut cells = accounts.iter().map(|(payee, _)| figures.sent(*payer, *payee, None));
            rows.push(row(&party.name, &mut cells, sent_by(*payer)));
        }
        let total = accounts.iter().map(|(account, _)| sent_by(*account)).sum();
        rows.push(row(
            "total received",
            &mut accounts.iter().map(|(account, _)| received_by(*account)),
            total,
        ));
        let nets = || accounts.iter().map(|(account, _)| sent_by(*account) - received_by(*account));
        rows.push(row("aggregated net", &mut nets(), nets().sum()));
        if accounts.iter().any(|(_, party)| party.has_remainder()) {
            let mut push = |name: &str, of: fn(&Party) -> i128| {
                let cells = || accounts.iter().map(|(_, party)| of(party));
                rows.push(row(name, &mut cells(), cells().sum()));
            };
            push("carried in", |party| party.carried_in);
            push("carried over", |party| party.carried_over);
            push("settled net", |party| party.net);
        }
    }
    rows
}

/// A DFSP's counterparties, each with a row for all windows and, if there are several, one for each. `None` if it has
/// no account in the settlement.
pub(super) fn of_dfsp(figures: &SettlementFigures, name: &str) -> Option<Rows> {
    let mut columns = headings(&PAIR_COLUMNS);
    columns.push(Cell::text("window"));
    let mut rows = vec![columns];
    let mut is_party = false;
    let windows = if figures.windows.len() > 1 { &figures.windows[..] } else { &[] };
    for currency in figures.currencies() {
        let accounts = figures.accounts_in(currency);
        for (own, party) in accounts.iter().filter(|(_, party)| party.name == name) {
            is_party = true;
            for (other, counterpart) in &accounts {
                for window in [None].into_iter().chain(windows.iter().copied().map(Some)) {
                    if figures.have_dealt(*own, *other, window) {
                        let both = (figures.sent(*own, *other, window), figures.sent(*other, *own, window));
                        rows.push(counterpart_row(party, counterpart, both, window));
                    }
                }
            }
            for (what, units) in [("carried in", party.carried_in), ("carried over", party.carried_over)] {
                if units != 0 {
                    let blank = || Cell::text("");
                    let (currency, all) = (Cell::text(currency), Cell::text("all"));
                    let amount = Cell::Amount(units);
                    rows.push(vec![Cell::text(what), blank(), currency, blank(), blank(), amount, all]);
                }
            }
        }
    }
    is_party.then_some(rows)
}

/// Sums from the DFSP's side; the net is positive if it pays.
fn counterpart_row(
    party: &Party,
    counterpart: &Party,
    (sent, received): (i128, i128),
    window: Option<u32>,
) -> Vec<Cell> {
    let is_debtor = sent >= received;
    let (debtor, creditor) = if is_debtor { (party, counterpart) } else { (counterpart, party) };
    vec![
        Cell::text(&debtor.name),
        Cell::text(&creditor.name),
        Cell::text(&party.currency),
        Cell::Amount(sent),
        Cell::Amount(received),
        Cell::Amount(sent - received),
        window.map_or_else(|| Cell::text("all"), |window| Cell::Number(window.into())),
    ]
}

/// Mojaloop's layout: the bank fills in the time, and each balance afterwards.
pub(super) fn bank(figures: &SettlementFigures) -> Rows {
    let blank = || Cell::text("");
    let mut rows = vec![
        vec![Cell::text("Settlement ID"), Cell::Number(figures.id.into())],
        vec![Cell::text("Settlement Completed Date"), blank()],
        vec![Cell::text("Settlement Completed Time"), blank()],
        vec![Cell::text("Timezone"), Cell::text("UTC")],
        Vec::new(),
        headings(&[
            "Participant (PayerFSP Identifier)",
            "Participant (Bank Identifier)",
            "Balance",
            "Settlement Transfer",
            "Currency",
        ]),
    ];
    for currency in figures.currencies() {
        for (account, party) in figures.accounts_in(currency) {
            let id = format!("{} {account} {}", party.participant, party.name);
            rows.push(vec![Cell::Text(id), blank(), blank(), Cell::Grouped(party.net), Cell::text(currency)]);
        }
    }
    rows
}

// The matrix for a terminal: amounts between DFSPs, in columns.

/// Number of blanks between columns.
const GAP: usize = 2;

/// Per currency: senders in rows, receivers in columns, the nets, and the check value in a line of its own.
pub(super) fn for_a_terminal(figures: &SettlementFigures) -> String {
    let rows = matrix(figures);
    let text_of = |cell: &Cell| cell.to_csv();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(text_of).collect()).collect();
    let mut text = String::new();
    // Each currency has a row of names, a row per account, and two of sums.
    for block in rows.chunk_by(|_, next| !is_head(next)) {
        let Some(((head, rows), check)) = block.split_first().zip(block.last().and_then(|row| row.last()))
        else {
            continue;
        };
        let _ = writeln!(text, "settlement {}, {}", figures.id, head[0]);
        let width = |column: usize| {
            let names = if column == 0 { 0 } else { head[column].len() };
            rows.iter().map(|row| row[column].len()).chain([names]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let blank = String::new();
        let named = [&blank].into_iter().chain(&head[1..]);
        write_row(&mut text, named, &widths);
        let Some((nets, rows)) = rows.split_last() else { continue };
        for row in rows {
            write_row(&mut text, row.iter(), &widths);
        }
        write_row(&mut text, nets[..nets.len() - 1].iter(), &widths);
        let _ = writeln!(text, "check value {check}");
    }
    text
}

fn is_head(row: &[String]) -> bool {
    row[0].ends_with(" sender by receiver")
}

fn write_row<'a>(text: &mut String, cells: impl Iterator<Item = &'a String>, widths: &[usize]) {
    let mut line = String::new();
    for (column, (cell, width)) in cells.zip(widths).enumerate() {
        let _ = match column {
            0 => write!(line, "{cell:<width$}"),
            _ => write!(line, "{:GAP$}{cell:>width$}", ""),
        };
    }
    let _ = writeln!(text, "{line}");
}

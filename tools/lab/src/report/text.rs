//! Tables for a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::suite::{claims, costs, lengths, runs_of, sections, stage_shares};
use crate::report::compare::{Difference, Judgement, Pair, within_suites};
use crate::report::conditions::{self, Conditions};
use crate::report::figures::{ABSENT, count, microseconds, milliseconds, number, or_absent};
use crate::report::input::Results;
use crate::report::run::Run;
use crate::report::verdict;

/// Rows of cells, aligned: the first column to the left, figures to the right.
pub(crate) struct Grid {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these columns.
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// One more row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        (0..self.head.len()).map(width).collect()
    }

    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let mut line = |cells: &[&str]| {
            let mut line = String::new();
            for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                let gap = " ".repeat(width - cell.chars().count());
                let _ =
                    if column == 0 { write!(line, "  {cell}{gap}") } else { write!(line, "  {gap}{cell}") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        };
        line(&self.head);
        for row in &self.rows {
            line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        }
        text
    }

    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text.push_str(&line(&self.head.iter().map(|&head| head.to_owned()).collect::<Vec<_>>()));
        let rule = (0..self.head.len()).map(|column| if column == 0 { "---" } else { "---:" });
        text.push_str(&format!("| {} |\n", rule.collect::<Vec<_>>().join(" | ")));
        for row in &self.rows {
            text.push_str(&line(&row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>()));
        }
        text
    }
}

/// A text that cannot end a cell of Markdown or start an element of HTML.
pub(crate) fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for letter in cell.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' => {
                text.push('\\');
                text.push(letter);
            }
            '\n' | '\r' => text.push(' '),
            _ => text.push(letter),
        }
    }
    text
}

/// Longest line of what is not a table, in characters.
const LINE_MAX: usize = 120;

/// A paragraph or a point of a list, ended, in lines that an editor shows whole; those after the first are set in by
/// `indent`.
pub(crate) fn wrapped(paragraph: &str, indent: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > LINE_MAX && may_begin_line(word) {
            text.push('\n');
            text.push_str(indent);
            width = indent.chars().count();
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text.push('\n');
    text
}

/// Whether a line of Markdown that begins so is no point of a list, heading or rule.
fn may_begin_line(word: &str) -> bool {
    let is_number = word.ends_with(['.', ')']) && word.starts_with(|letter: char| letter.is_ascii_digit());
    !is_number && !word.starts_with(['-', '+', '*', '#', '>', '=', '|'])
}

fn audit_word(run: &Run) -> &'static str {
    match run.audited() {
        None => ABSENT,
        Some(audit) if audit.ok => "holds",
        Some(_) => "FAILED",
    }
}

fn validity_word(run: &Run) -> &'static str {
    run.judged().map_or(ABSENT, |validity| if validity.valid { "yes" } else { "NO" })
}

/// The figures of a run by which runs are told apart: throughput, p50, p99, p99.9, the slowest, failed, lost, CPU each,
/// validity, audit.
pub(crate) fn figures(run: &Run) -> [String; 10] {
    let counted = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), count);
    let latency = |name: &str| or_absent(run.number(&format!("latency_ms.{name}")), milliseconds);
    [
        or_absent(run.number("throughput_per_s"), number),
        latency("p50"),
        latency("p99"),
        latency("p999"),
        latency("max"),
        counted(run.count("failed")),
        counted(run.count("lost")),
        or_absent(run.hub_cpu_us(), microseconds),
        validity_word(run).to_owned(),
        audit_word(run).to_owned(),
    ]
}

/// The figures of runs as rows.
pub(crate) fn grid(runs: &[Run]) -> Grid {
    let mut grid = Grid::new(&[
        "run",
        "per second",
        "p50",
        "p99",
        "p99.9",
        "max",
        "failed",
        "lost",
        "CPU each",
        "valid",
        "audit",
    ]);
    for run in runs {
        grid.row([run.label.clone()].into_iter().chain(figures(run)).collect());
        for baseline in run.baselines() {
            let latency = &baseline.latency_ms;
            let cpu = baseline.process.as_ref().and_then(|process| process.cpu_us_per_operation);
            grid.row(vec![
                format!("  {}", baseline.name),
                number(baseline.throughput_per_s),
                milliseconds(latency.p50),
                milliseconds(latency.p99),
                milliseconds(latency.p999),
                milliseconds(latency.max),
                String::new(),
                String::new(),
                or_absent(cpu, microseconds),
            ]);
        }
    }
    grid
}

/// Results for a terminal: the runs, by question where a suite asks some; what took turns; what became of claims; how
/// long it all took.
pub(crate) fn results(results: &Results) -> String {
    let mut text = String::new();
    for (heading, places) in sections(results) {
        if let Some(heading) = heading {
            let _ = writeln!(text, "{}{heading}", if text.is_empty() { "" } else { "\n" });
        }
        text.push_str(&table(&runs_of(results, &places)));
    }
    if let Some(costs) = costs(&within_suites(results)) {
        let _ = writeln!(text, "\n{}", costs.text().trim_end());
    }
    for claim in claims(results) {
        let _ = writeln!(text, "\n{}:\n  {}", claim.text, claim.words);
    }
    for length in lengths(results) {
        let _ = writeln!(text, "\n{length}");
    }
    for (place, absence) in results.suites.iter().flat_map(|suite| &suite.absences).enumerate() {
        let _ = writeln!(text, "{}{absence}", if place == 0 { "\n" } else { "" });
    }
    let warnings: BTreeSet<String> = results.runs.iter().flat_map(verdict::of_run).collect();
    for (place, warning) in warnings.iter().enumerate() {
        let _ = writeln!(text, "{}warning: {warning}", if place == 0 { "\n" } else { "" });
    }
    text
}

pub(crate) fn table(runs: &[Run]) -> String {
    grid(runs).text()
}

pub(crate) const fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Real => "real",
        Judgement::Same => "the same",
        Judgement::Noise => "within noise",
        Judgement::Untold => "one measurement",
    }
}

pub(crate) const fn judged(difference: &Difference) -> &'static str {
    match difference.judgement {
        Judgement::Real if difference.within_run => "real within these runs",
        Judgement::Same if difference.within_run => "the same within these runs",
        of => judgement(of),
    }
}

pub(crate) fn pair(pair: &Pair) -> String {
    let mut text = String::new();
    if let Some(subject) = &pair.subject {
        let _ = writeln!(text, "{subject}");
    }
    let _ = writeln!(text, "{}", pair.verdict);
    let mut grid = Grid::new(&["", "base", "other", "difference", ""]);
    for difference in &pair.differences {
        let mark = if difference.within_run { " \u{2020}" } else { "" };
        grid.row(vec![
            difference.metric.name().to_owned(),
            difference.metric.format(difference.base),
            difference.metric.format(difference.other),
            format!("{}{mark}", difference.text()),
            judged(difference).to_owned(),
        ]);
    }
    text.push_str(&grid.text());
    for warning in &pair.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}

/// How long a suite took; the runs as rows, by question where it asks some; what took turns; claims; and below them
/// where the runs were made and what a reader must know.
pub(crate) fn markdown(results: &Results) -> String {
    let mut text: String =
        lengths(results).iter().map(|length| format!("{}\n", wrapped(&escaped(length), ""))).collect();
    for (heading, places) in sections(results) {
        if let Some(heading) = heading {
            let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            text.push_str(&format!("{gap}**{}**\n\n", escaped(heading)));
        }
        text.push_str(&grid(&runs_of(results, &places)).markdown());
    }
    if let Some(costs) = costs(&within_suites(results)) {
        text.push_str(&format!("\n{}", costs.markdown()));
    }
    for claim in claims(results) {
        text.push('\n');
        text.push_str(&wrapped(&format!("**{}:** {}", escaped(&claim.text), escaped(&claim.words)), ""));
    }
    if let Some(shares) = stage_shares(&results.runs) {
        text.push_str(&format!("\n**Where the hub's CPU time goes**\n\n{}", shares.markdown()));
    }
    text.push_str(&where_made(&results.runs));
    let warnings: BTreeSet<String> = results.runs.iter().flat_map(verdict::of_run).collect();
    let absences = results.suites.iter().flat_map(|suite| suite.absences.iter().cloned());
    let notes: Vec<String> = warnings.into_iter().chain(absences).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text.push_str(&wrapped(&format!("- **{}**", escaped(&note)), "  "));
    }
    text
}

/// Where the runs were made: once, and what differs in some of them.
fn where_made(runs: &[Run]) -> String {
    let all: Vec<Conditions> = runs.iter().map(conditions::of).collect();
    let shared = conditions::shared(all.iter());
    if shared.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}", wrapped(&escaped(&conditions::text(&shared)), ""));
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (run, own) in runs.iter().zip(&all) {
        let differing = conditions::differing(own, &shared);
        if !differing.is_empty() {
            others.entry(differing.join(" · ")).or_default().push(&run.label);
        }
    }
    if !others.is_empty() {
        text.push('\n');
    }
    for (what, labels) in others {
        text.push_str(&wrapped(&format!("- {}: {}", escaped(&what), escaped(&labels.join("; "))), "  "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_where_they_stay_what_they_are() {
        let words = "word ".repeat(60);
        let text = wrapped(&format!("- {words}"), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= LINE_MAX), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")) && text.lines().count() == 3);
        assert_eq!(text.split_whitespace().count(), 61);
        for sign in ["+ 6", "- 6", "2. six", "# six"] {
            let text = wrapped(&format!("{}{sign}", "x ".repeat(LINE_MAX / 2)), "");
            assert!(
                text.lines().all(|line| line.starts_with('x') || line.starts_with('s') || line == "6"),
                "{text}"
            );
        }
        assert_eq!(wrapped("short", ""), "short\n");
    }
}

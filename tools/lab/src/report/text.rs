//! Tables for a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::suite::{claims, costs, lengths, runs_of, sections, stage_shares};
use crate::figures::{ABSENT, count, microseconds, milliseconds, number, or_absent};
use crate::report::compare::{Pair, within_suites};
use crate::report::conditions::{self, Conditions};
use crate::report::difference::{Difference, judged};
use crate::report::grid::{Grid, escaped, wrapped};
use crate::report::input::Results;
use crate::report::run::Run;
use crate::report::verdict;
use crate::result::BaselineResult;
use crate::result::latency::LatencyMs;

/// The columns of figures: their names, in the order of [`figures`].
pub(crate) const FIGURES: [&str; 11] =
    ["run", "per second", "p50", "p99", "p99.9", "max", "failed", "lost", "CPU each", "valid", "audit"];

pub(crate) fn figures(run: &Run) -> impl Iterator<Item = String> {
    let throughput = or_absent(run.number("throughput_per_s"), number);
    let latency = ["p50", "p99", "p999", "max"]
        .map(|name| or_absent(run.number(&format!("latency_ms.{name}")), milliseconds));
    let counts = ["failed", "lost"].map(|name| run.count(name).map_or_else(|| ABSENT.to_owned(), count));
    let cpu = or_absent(run.hub_cpu_us(), microseconds);
    let valid = run.judged().map_or(ABSENT, |validity| if validity.valid { "yes" } else { "NO" });
    let audit = run.audited().map_or(ABSENT, |audit| if audit.ok { "holds" } else { "FAILED" });
    let words = [cpu, valid.to_owned(), audit.to_owned()];
    [throughput].into_iter().chain(latency).chain(counts).chain(words)
}

/// The figures of runs as rows, each followed by its baselines.
pub(crate) fn grid(runs: &[Run]) -> Grid {
    let of_baseline = |baseline: &BaselineResult| -> Vec<String> {
        let LatencyMs { p50, p99, p999, max, .. } = baseline.latency_ms;
        let cpu = baseline.process.as_ref().and_then(|process| process.cpu_us_per_operation);
        let figures = [format!("  {}", baseline.name), number(baseline.throughput_per_s)].into_iter();
        let latency = [p50, p99, p999, max].map(milliseconds);
        figures.chain(latency).chain([String::new(), String::new(), or_absent(cpu, microseconds)]).collect()
    };
    let rows = runs.iter().flat_map(|run| {
        let own: Vec<String> = [run.label.clone()].into_iter().chain(figures(run)).collect();
        [own].into_iter().chain(run.baselines().map(of_baseline))
    });
    Grid::new(&FIGURES, rows)
}

/// Results for a terminal: the runs, by question if a suite has questions; comparisons of runs that took turns;
/// verdicts on claims; durations.
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
    let absences = results.suites.iter().flat_map(|suite| suite.absences.iter().cloned());
    let warnings = warnings(results).into_iter().map(|warning| format!("warning: {warning}"));
    text + &block(absences.map(|absence| absence + "\n")) + &block(warnings.map(|warning| warning + "\n"))
}

/// The warnings about the runs, each stated once.
fn warnings(results: &Results) -> BTreeSet<String> {
    results.runs.iter().flat_map(verdict::of_run).collect()
}

/// Lines, separated from the text above them.
fn block(lines: impl Iterator<Item = String>) -> String {
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

pub(crate) fn table(runs: &[Run]) -> String {
    grid(runs).text()
}

pub(crate) fn pair(pair: &Pair) -> String {
    let mut text = String::new();
    if let Some(subject) = &pair.subject {
        let _ = writeln!(text, "{subject}");
    }
    let _ = writeln!(text, "{}", pair.verdict);
    let row = |difference: &Difference| {
        let mark = if difference.within_run { " \u{2020}" } else { "" };
        vec![
            difference.metric.name().to_owned(),
            difference.metric.format(difference.base),
            difference.metric.format(difference.other),
            format!("{}{mark}", difference.text()),
            judged(difference).to_owned(),
        ]
    };
    let grid = Grid::new(&["", "base", "other", "difference", ""], pair.differences.iter().map(row));
    text.push_str(&grid.text());
    for warning in &pair.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}

/// The duration of a suite; the runs as rows, by question if it has questions; comparisons of runs that took turns;
/// claims; and below them the environment of the runs and the warnings.
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
    let absences = results.suites.iter().flat_map(|suite| suite.absences.iter().cloned());
    let notes = warnings(results).into_iter().chain(absences);
    text + &block(notes.map(|note| wrapped(&format!("- **{}**", escaped(&note)), "  ")))
}

/// The common environment of the runs, and the differences of some of them.
fn where_made(runs: &[Run]) -> String {
    let all: Vec<Conditions> = runs.iter().map(conditions::of).collect();
    let shared = conditions::shared(all.iter());
    if shared.is_empty() {
        return String::new();
    }
    let text = format!("\n{}", wrapped(&escaped(&conditions::text(&shared)), ""));
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (run, own) in runs.iter().zip(&all) {
        let differing = conditions::differing(own, &shared);
        if !differing.is_empty() {
            others.entry(differing.join(" · ")).or_default().push(&run.label);
        }
    }
    let others = others.into_iter().map(|(what, labels)| {
        wrapped(&format!("- {}: {}", escaped(&what), escaped(&labels.join("; "))), "  ")
    });
    text + &block(others)
}

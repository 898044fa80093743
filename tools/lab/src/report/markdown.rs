//! Tables of Markdown, ready to paste.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::compare::within_suites;
use crate::report::conditions::{self, Conditions};
use crate::report::input::Results;
use crate::report::run::Run;
use crate::report::sections::{claims, costs, lengths, runs_of, sections, stage_shares};
use crate::report::text::{escaped, grid, wrapped};
use crate::report::warnings;

/// How long a suite took; the runs as rows, by question where it asks some; what took turns; claims; and below them
/// where the runs were made and what a reader must know.
pub(crate) fn table(results: &Results) -> String {
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
    let warnings: BTreeSet<String> = results.runs.iter().flat_map(warnings::of_run).collect();
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

//! Tables of Markdown, ready to paste.

use std::collections::BTreeSet;

use crate::input::Results;
use crate::run::{Run, plain};
use crate::text::{escaped, grid};
use crate::warnings;

/// The runs as rows, and below them where they were made and what a reader must know.
pub(crate) fn table(results: &Results) -> String {
    let runs = &results.runs;
    let mut text = grid(runs).markdown();
    let conditions: BTreeSet<String> = runs.iter().map(conditions).filter(|text| !text.is_empty()).collect();
    if !conditions.is_empty() {
        text.push('\n');
    }
    for condition in conditions {
        text.push_str(&format!("{}\n", escaped(&condition)));
    }
    let warnings: BTreeSet<String> = runs.iter().flat_map(warnings::of_run).collect();
    let missing = results.suites.iter().flat_map(|suite| &suite.missing);
    let missing = missing.map(|name| format!("{name}: left no result"));
    let notes: Vec<String> = warnings.into_iter().chain(missing).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text.push_str(&format!("- **{}**\n", escaped(&note)));
    }
    text
}

/// Where a run was made, in a line.
pub(crate) fn conditions(run: &Run) -> String {
    let member = |name: &str| run.environment.get(name).map(plain).filter(|text| !text.is_empty());
    let durable = run.durable.map(|durable| if durable { "durable" } else { "NOT durable" }.to_owned());
    let parts = [
        member("cores").map(|cores| format!("{cores} cores")),
        member("cpu"),
        member("memory_mb").map(|memory| format!("{memory} MiB")),
        member("kernel").map(|kernel| format!("Linux {kernel}")),
        member("storage").map(|storage| format!("storage {storage}")),
        member("durability").or(durable),
        member("version").map(|version| format!("version {version}")),
        member("commit").map(|commit| format!("commit {commit}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

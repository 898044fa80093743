//! Every member that is written has its place in a table of docs/lab/result.md.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::sample::full;
use super::tests::merged;
use super::to_value;
use crate::drive::suite_run::{SuitePlan, run_suite};
use crate::plan::SuiteFile;
use crate::plan::load_profile::{Load, ParallelLoad, Stage};
use crate::plan::scenario::Scenario;

const PAGE: &str = include_str!("../../../../../docs/lab/result.md");
/// Members whose own members are named by what is run, not by the layout.
const NAMED_BY_WHAT_IS_RUN: [&str; 3] = ["parameters", "repeated", "failings"];

/// The words in code of all tables: `latency_ms.p99` is two.
fn documented() -> BTreeSet<&'static str> {
    let rows = PAGE.lines().filter(|line| line.starts_with('|'));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_between = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    code.flat_map(|code| code.split(is_between)).collect()
}

/// Notes the paths of members that the page does not have.
fn note_missing(value: &Value, path: &str, documented: &BTreeSet<&str>, missing: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}.{name}");
                if !documented.contains(name.as_str()) {
                    missing.insert(path.clone());
                }
                if !NAMED_BY_WHAT_IS_RUN.contains(&name.as_str()) {
                    note_missing(value, &path, documented, missing);
                }
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| note_missing(item, path, documented, missing));
        }
        _ => {}
    }
}

/// Every shape that a load can have.
fn loads() -> Value {
    let stages = || vec![Stage { level: 2, length: Duration::from_secs(1) }];
    let arrivals = Load::Arrivals { start_per_s: 1, stages: stages(), poisson: true, outstanding_max: 9 };
    let part = |load| ParallelLoad { operation: Scenario::Quotes, load };
    let parallel = Load::Parallel { loads: vec![part(arrivals), part(Load::Closed { users: 1 })] };
    to_value(&[parallel, Load::RampingUsers { start: 1, stages: stages() }])
}

/// What a suite leaves where nothing of it can be run, with what takes turns and claims added as the lab writes them.
fn suite() -> Value {
    let text = "title = \"S\"\nwithin = \"1h\"\n[[run]]\nscenario = \"around-breakpoint\"\n\
                question = \"What then?\"\n";
    let mut plan = SuitePlan::of_suite(&SuiteFile::parse("s.toml", text, None).unwrap());
    let reason = "it needs a hub of its own".to_owned();
    plan.left_out = vec![crate::LeftOut { scenario: "y".to_owned(), question: None, reason }];
    let out = tempfile::tempdir().unwrap();
    let mut written = to_value(&run_suite(&plan, out.path(), None, &mut |_: &str| {}).unwrap());
    assert!(!written["failures"].as_array().unwrap().is_empty(), "rates that nobody found are skipped");
    let figure = crate::PairFigure {
        figure: crate::report::Metric::Ratio,
        base: vec![1.0],
        other: vec![1.0],
        base_median: 1.0,
        other_median: 1.0,
        difference: Some(crate::DifferenceResult { centre: 0.0, low: 0.0, high: 0.0, confidence: 0.95 }),
    };
    let pair = crate::PairResult { base: 0, other: 1, figures: vec![figure] };
    let claim = crate::ClaimResult {
        text: "it is cheap".to_owned(),
        verdict: crate::ClaimVerdict::Holds,
        words: "holds".to_owned(),
        base: 0,
        other: 1,
        figure: crate::report::Metric::Cpu,
        at_most_percent: 3.0,
    };
    (written["pairs"], written["claims"]) = (to_value(&[pair]), to_value(&[claim]));
    written
}

#[test]
fn every_member_that_is_written_is_documented() {
    let documented = documented();
    let result: Value = serde_json::from_str(&full(1, 10, 100).to_json()).unwrap();
    let all: BTreeMap<&str, Value> =
        [("result", result), ("merged", merged(|_, _| {})), ("load", loads()), ("suite", suite())].into();
    let mut missing = BTreeSet::new();
    for (name, value) in &all {
        note_missing(value, name, &documented, &mut missing);
    }
    assert_eq!(missing, BTreeSet::new(), "docs/lab/result.md has no row for these");
    note_missing(&json!({ "nonsense": 1 }), "", &documented, &mut missing);
    assert_eq!(missing.len(), 1, "the test looks at the page");
}

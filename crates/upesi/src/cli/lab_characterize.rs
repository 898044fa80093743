//! A page about a suite: published figures beside ours, every row of ours, and what the rows mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use upesi_lab::plan::{PUBLISHED, SuiteFile};
use upesi_report::published::{Ours, Published, table};

use crate::exit::{Exit, Failure, Outcome};

/// Members of a result that are kept beside the page. The whole results stay where the suite was run.
const KEPT: [&str; 16] = [
    "name",
    "title",
    "parameters",
    "unit",
    "seed",
    "environment",
    "completed",
    "failed",
    "lost",
    "throughput_per_s",
    "repetitions",
    "latency_ms",
    "stages",
    "processes",
    "validity",
    "breakpoint",
];

const INTRODUCTION: &str = "\
Written by `make characterize`; do not edit. [report.html](report.html) has the plots, [results.json](results.json) the figures of every
run with their environment. `upesi lab describe NAME` shows what a run does; `upesi lab run NAME` repeats it.

All of it ran on one machine: hub, simulated DFSPs and load generator share its cores. The published figures are those of other machines,
and most were reached with durability relaxed (replication 1, database flush relaxed) or without a disk at all; ours sync every batch to
storage before its answers leave, unless a row says otherwise. \"Per vCPU\" divides both figures by the vCPUs they were reached with, where
they are known; ours count all cores of the machine, those that load generator and DFSPs keep busy included.

What costs what is told by runs that take turns with the hub as shipped, A B A C A and so on, several times round, so that phases of the
machine fall on all alike: the interval is that of the differences from turn to turn.
";

const SCALE: &str = "\
## What \"scale\" means here

The reference hub keeps each position in a database row, and runs several position handlers beside each other: its scale is their number.
The figures for two, four and eight were announced and never published.

This hub has one writer. It decides every command in memory, one after the other, and makes whole batches durable with one write and one
sync; the batch, not a second writer, is what spreads the cost. So there is nothing to scale but the number of threads that hand commands to
it. The rows \"scale 2, 4, 8\" are measured so: as many submitters, each waiting for its answers. More submitters make fuller batches; beyond
what one core decides, they make queues.
";

#[derive(Deserialize)]
struct Reasons {
    rows: Vec<Reason>,
}

#[derive(Deserialize)]
struct Reason {
    id: String,
    unit: String,
    unavailable: Option<String>,
}

/// Writes the page, the report and the figures into a directory.
pub fn write(suite: &SuiteFile, out: &Path, docs: &Path) -> Outcome {
    let software =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Software, format!("published.toml: {error}"));
    let published: Published = toml::from_str(PUBLISHED).map_err(|error| software(&error))?;
    let reasons: Reasons = toml::from_str(PUBLISHED).map_err(|error| software(&error))?;
    let cannot =
        |error: std::io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", docs.display()));
    std::fs::create_dir_all(docs).map_err(cannot)?;

    let ours = ours(suite, out, &reasons.rows);
    let suite_directory = [out.to_owned()];
    let failed = |error| Failure::new(Exit::Data, error);
    let rows = upesi_report::markdown(&suite_directory).map_err(failed)?;
    let page = format!(
        "# {}\n\n{INTRODUCTION}\n## Published beside ours\n\n{}\n{SCALE}\n## Every run\n\n{rows}",
        suite.title,
        table(&published, &ours)
    );
    std::fs::write(docs.join("README.md"), page).map_err(cannot)?;
    let figures = serde_json::to_string_pretty(&figures(suite, out)).unwrap_or_default() + "\n";
    std::fs::write(docs.join("results.json"), figures).map_err(cannot)?;
    upesi_report::write_html(&suite_directory, &docs.join("report.html")).map_err(failed)
}

/// The directory of a point of a suite's scenario.
fn directory(out: &Path, scenario: &str, label: &str) -> PathBuf {
    out.join(if label.is_empty() { scenario.to_owned() } else { format!("{scenario},{label}") })
}

/// Our figure for each published row, or why there is none.
fn ours(suite: &SuiteFile, out: &Path, reasons: &[Reason]) -> BTreeMap<String, Ours> {
    let mut ours = BTreeMap::new();
    for reason in reasons {
        if let Some(text) = &reason.unavailable {
            ours.insert(reason.id.clone(), Ours::absent(&format!("n/a: {text}")));
        }
    }
    for run in &suite.runs {
        for link in &run.rows {
            let result = directory(out, &run.scenario.name, &link.point).join("result.json");
            let Ok(mut figure) = Ours::of(&result, &link.member) else {
                ours.insert(link.id.clone(), Ours::absent("n/a: the run failed"));
                continue;
            };
            // Results give shares from 0 to 1.
            if reasons.iter().any(|reason| reason.id == link.id && reason.unit == "%") {
                figure.figure = figure.figure.and_then(percent);
            }
            ours.insert(link.id.clone(), figure);
        }
    }
    ours
}

fn percent(share: f64) -> Option<f64> {
    // By way of text, as nothing outside the lab and its reports computes with fractions.
    format!("{share}e2").parse().ok()
}

/// What is kept of every result.
fn figures(suite: &SuiteFile, out: &Path) -> Value {
    let mut figures = Vec::new();
    for run in &suite.runs {
        for point in run.scenario.points() {
            let file = directory(out, &run.scenario.name, &point.label()).join("result.json");
            let Some(result) = read(&file) else { continue };
            let kept = KEPT.into_iter().map(|name| (name.to_owned(), result[name].clone()));
            figures.push(Value::Object(kept.filter(|(_, value)| !value.is_null()).collect()));
        }
    }
    json!({ "schema_version": 2, "suite": suite.name, "results": figures })
}

fn read(file: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_rows_are_read_and_those_without_a_run_say_why() {
        let published: Published = toml::from_str(PUBLISHED).unwrap();
        let reasons: Reasons = toml::from_str(PUBLISHED).unwrap();
        assert_eq!(published.rows.len(), reasons.rows.len());
        let suite = SuiteFile::named("characterize").unwrap();
        let nowhere = tempfile::tempdir().unwrap();
        let ours = ours(&suite, nowhere.path(), &reasons.rows);
        for row in &published.rows {
            let known = ours.get(&row.id).unwrap_or_else(|| panic!("{} has no run and no reason", row.id));
            assert!(known.note.starts_with("n/a: "), "{}: {}", row.id, known.note);
        }
        assert_eq!(percent(0.0003), Some(0.03));
    }

    #[test]
    fn a_page_is_written_from_what_ran() {
        let (out, docs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let result = upesi_lab::LabResult {
            name: "transfers-8".to_owned(),
            scenario: "transfers",
            throughput_per_s: 660.0,
            ..upesi_lab::LabResult::default()
        };
        let directory = out.path().join("transfers-8");
        std::fs::create_dir(&directory).unwrap();
        result.write(&directory).unwrap();
        let suite = r#"{"schema_version": 2, "name": "characterize", "title": "T", "runs": ["transfers-8"], "plots": []}"#;
        std::fs::write(out.path().join("suite.json"), suite).unwrap();
        let suite = SuiteFile::named("characterize").unwrap();
        write(&suite, out.path(), docs.path()).unwrap();
        let page = std::fs::read_to_string(docs.path().join("README.md")).unwrap();
        // 220/s were published.
        let row = page.lines().find(|line| line.contains("| 220/s |")).unwrap();
        assert!(row.contains("660/s") && row.contains("3.00 ×"), "{row}");
        let figures = read(&docs.path().join("results.json")).unwrap();
        assert_eq!(figures["results"].as_array().map(Vec::len), Some(1));
        assert!(docs.path().join("report.html").is_file());
    }
}

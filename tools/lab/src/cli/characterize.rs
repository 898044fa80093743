//! A page about a suite: published figures beside ours, every row of ours, and what the rows mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use upesi_hub::exit::{Exit, Failure, Outcome};

use crate::plan::{PUBLISHED, PublishedLink, Recorded, SuiteFile, SuiteRun, Work};
use crate::report::ReportError;
use crate::report::published::{Beside, Ours, Published, beside, summary, table};
use crate::{SCHEMA_VERSION, Scenario};

/// Members of a result that are kept beside the page: all but timelines, histograms, texts and what each DFSP counted.
/// The whole results stay where the suite was run.
const KEPT: [&str; 34] = [
    "name",
    "title",
    "kind",
    "parameters",
    "options",
    "unit",
    "seed",
    "target",
    "environment",
    "durable",
    "completed",
    "failed",
    "lost",
    "throughput_per_s",
    "repetitions",
    "repeated",
    "latency_ms",
    "http_ms",
    "phases",
    "loads",
    "schedule",
    "window",
    "stages",
    "processes",
    "hub",
    "baseline",
    "ratio",
    "audit",
    "validity",
    "thresholds",
    "machine",
    "targets",
    "breakpoint",
    "drift",
];
/// Of those, members that are long and say little: a list for every DFSP, every slice of a baseline.
const LEFT_OUT: [&str; 3] = ["/audit/positions", "/baseline/slices", "/baseline/lab"];

const INTRODUCTION: &str = "\
Written by `make characterize`; do not edit. [report.html](report.html) has the plots, [results.json](results.json) the figures of every
run with what drove it, its environment, its audit, and the thresholds that it was held against. `upesi lab describe NAME` shows what a run does; `upesi lab run NAME` repeats it.

All of it ran on one machine: hub, simulated DFSPs and load generator share its cores. The published figures are those of other machines,
and most were reached with durability relaxed (replication 1, database flush relaxed) or without a disk at all; ours sync every batch to
storage before its answers leave, unless a note says otherwise. What drove ours is taken from our results: users or arrivals, the measured
time, DFSPs, finished transfers that the hub had behind it, and how many operations it came to.

\"Per vCPU\" divides both figures by the vCPUs they were reached with; ours count all cores of the machine, those that load generator and
DFSPs keep busy included. Where theirs was one handler, a single-threaded process, it counts as one vCPU, and the database and the broker
beside it count as none, which favours it. \"Theirs not told\": the source does not say how many vCPUs it had; nothing is guessed. A
latency or a share is \"not a rate\": it does not grow with vCPUs.

What costs what is told by runs that take turns with the hub as shipped, A B A C A and so on, several times round, so that phases of the
machine fall on all alike: the interval is that of the differences from turn to turn. Two switches of Mojaloop have no
counterpart: this hub has no cache that could be off, as its state is in memory; and its audit log is the journal, without which nothing
would be durable. \"fsync off\" is the nearest to being without.

The streams of positions and callbacks alone were recorded from the journal of a hub that simulated DFSPs drove, and replayed. Those of
prepares, fulfils and the ledger alone are made up in the same shape: as many DFSPs, bodies of a like length. A hub's own traffic is
replayed with `upesi lab record` and the key `stream`: see [isolated stages](../lab/isolated.md#streams).
";

/// How long runs of ours are, and what becomes of those that missed something.
const RUNS: &str = "\
Figures of ours are of runs of seconds, but for the ramps, which are as long as the published ones, and for what `make soak` measured for an
hour and left in `soak.json`. Runs that missed what was asked of them (their thresholds, their targets, their audit) keep their figure and get
no ratio: \"missed\" says what. In the ramps to 1,000 users the hub lets all wait, as the published ones did (admission.delay_target_us = 100000); as
shipped it refuses some of so many on cores that it shares with them. Of the white paper of 2026 the weights of its thirteen pairs of DFSPs are known; its minutes are seconds here, the first
five and the last two left out as there. Each row names how theirs was reached (P) and what drove ours (O); both stand below the table.
";

const SCALE: &str = "\
## What \"scale\" means here

Mojaloop keeps each position in a database row, and runs several position handlers beside each other: its scale is their number.
The figures for two, four and eight were announced and never published.

This hub has one writer. It decides every command in memory, one after the other, and makes whole batches durable with one write and one
sync; the batch, not a second writer, is what spreads the cost. So there is nothing to scale but the number of threads that hand commands to
it. The rows \"scale 2, 4, 8\" are measured so: the same recorded stream, handed over by two, four, eight threads, message by message in turn,
however few DFSPs there are, and 1,024 commands under way in all at every scale. `submitting_threads` of a row is how many threads really
submitted.

More submitters cannot make it faster. With 1,024 under way and 50 to a batch one submitter fills every batch already (`stages`, `engine`:
`batch_mean`); what a batch then takes is deciding it, one write and one sync, whoever handed it over. More submitters can make it slower:
on a machine with fewer cores than threads they take turns that writer and sync would have had, and the answers wake as many more threads.
So rows that are level, or fall with the scale, are what one writer gives. Each figure is the median of three runs, in turn with those of the
other rows; the report's plot has their 95 % intervals. Where intervals overlap, the machine moved the figure, not the scale.
";

/// The published row that the highest rate of whole payments stands beside.
const HIGHEST_RATE: &str = "dqt-2026";

/// The same rows once more: what there is to say of ours where no run stands beside them.
#[derive(Deserialize)]
struct Rows {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    unit: String,
    unavailable: Option<String>,
}

/// Writes the page, the report and the figures into a directory.
pub fn write(suite: &SuiteFile, out: &Path, docs: &Path) -> Outcome {
    let software =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Software, format!("published.toml: {error}"));
    let published: Published = toml::from_str(PUBLISHED).map_err(|error| software(&error))?;
    let known: Rows = toml::from_str(PUBLISHED).map_err(|error| software(&error))?;
    let cannot =
        |error: std::io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", docs.display()));
    std::fs::create_dir_all(docs).map_err(cannot)?;

    let failed = |error| Failure::new(Exit::Data, error);
    let beside = told(suite, out, &published, &known.rows).map_err(failed)?;
    let suite_directory = [out.to_owned()];
    let rows = crate::report::markdown(&suite_directory).map_err(failed)?;
    let page = format!(
        "# {}\n\n{}\n{}\n{}\n## Published beside ours\n\n{}\n{}\n## Every run\n\n{rows}",
        suite.title,
        crate::report::paragraph(&beside.summary),
        crate::report::reflowed(INTRODUCTION),
        crate::report::reflowed(RUNS),
        table(&beside),
        crate::report::reflowed(SCALE),
    );
    std::fs::write(docs.join("README.md"), page).map_err(cannot)?;
    let figures = serde_json::to_string_pretty(&figures(suite, out)).unwrap_or_default() + "\n";
    std::fs::write(docs.join("results.json"), figures).map_err(cannot)?;
    crate::report::write_html_beside(&suite_directory, Some(&beside), &docs.join("report.html"))
        .map_err(failed)
}

/// Published figures beside those of a suite that was run; `None` where it is no suite of ours, or stands beside none,
/// or where a result of it cannot be read.
pub fn beside_suite(directories: &[PathBuf]) -> Option<Beside> {
    let [directory] = directories else { return None };
    let directory = if directory.is_file() { directory.parent()? } else { directory };
    let name = read(&directory.join("suite.json"))?;
    let suite = SuiteFile::named(name["name"].as_str()?).ok()?;
    if suite.runs.iter().all(|run| run.rows.is_empty()) {
        return None;
    }
    let published: Published = toml::from_str(PUBLISHED).ok()?;
    let known: Rows = toml::from_str(PUBLISHED).ok()?;
    told(&suite, directory, &published, &known.rows).ok()
}

/// Published figures beside ours, and what they come to.
fn told(suite: &SuiteFile, out: &Path, published: &Published, rows: &[Row]) -> Result<Beside, ReportError> {
    let mut beside = beside(published, &ours(suite, out, rows));
    let result = |run: &SuiteRun, point: &str| directory(out, &run.scenario.name, point).join("result.json");
    let search = suite.runs.iter().find_map(|run| {
        let link = run.rows.iter().find(|link| link.id == HIGHEST_RATE)?;
        Some(result(run, &link.point))
    });
    let looked_into = suite.runs.iter().filter(|run| run.profile).find_map(|run| {
        let point = run.scenario.points().first()?;
        let is_of_payments =
            matches!(&point.work, Work::EndToEnd { options, .. } if options.scenario == Scenario::Payments);
        is_of_payments.then(|| result(run, &point.label()))
    });
    if let Some(search) = search {
        beside.summary = summary(&beside, HIGHEST_RATE, &search, looked_into.as_deref())?;
    }
    Ok(beside)
}

/// Puts results of other times beside those of the suite, so that whoever shows it again has them: of the file that was
/// named, or else of the one that is kept where the page goes.
pub fn bring_recorded(
    suite: &SuiteFile,
    out: &Path,
    docs: Option<&Path>,
    given: &[(String, PathBuf)],
) -> Outcome {
    for (name, _) in given {
        if !suite.recorded.iter().any(|recorded| recorded.name == *name) {
            let text =
                format!("{} puts no result of other times named {name} beside published figures", suite.name);
            return Err(Failure::new(Exit::Usage, text));
        }
    }
    for recorded in &suite.recorded {
        let file = format!("{}.json", recorded.name);
        let named = given.iter().find(|(name, _)| *name == recorded.name).map(|(_, path)| path.clone());
        let kept = docs.map(|docs| docs.join(&file)).filter(|kept| kept.is_file());
        let Some(source) = named.or(kept) else { continue };
        let cannot = |error: std::io::Error| {
            let exit = if source.is_file() { Exit::CannotCreate } else { Exit::NoInput };
            Failure::new(exit, format!("{}: {error}", source.display()))
        };
        std::fs::create_dir_all(out).map_err(cannot)?;
        std::fs::copy(&source, out.join(&file)).map_err(cannot)?;
    }
    Ok(())
}

/// The directory of a point of a suite's scenario.
fn directory(out: &Path, scenario: &str, label: &str) -> PathBuf {
    out.join(if label.is_empty() { scenario.to_owned() } else { format!("{scenario},{label}") })
}

/// Our figure for each published row, or why there is none.
fn ours(suite: &SuiteFile, out: &Path, rows: &[Row]) -> BTreeMap<String, Ours> {
    let mut ours = BTreeMap::new();
    let unit = |id: &str| rows.iter().find(|row| row.id == id).map_or("", |row| row.unit.as_str());
    for row in rows {
        if let Some(text) = &row.unavailable {
            ours.insert(row.id.clone(), Ours::absent(&format!("n/a: {text}")));
        }
    }
    for run in &suite.runs {
        for link in &run.rows {
            let figure = match figure(out, &run.scenario.name, link, unit(&link.id)) {
                Ok(mut figure) => {
                    figure.remark(&link.note);
                    figure
                }
                Err(_) => Ours::absent("n/a: the run failed"),
            };
            ours.insert(link.id.clone(), figure);
        }
    }
    for recorded in &suite.recorded {
        for link in &recorded.rows {
            ours.insert(link.id.clone(), recorded_figure(out, recorded, link, unit(&link.id)));
        }
    }
    ours
}

/// The figure that a link names of a result of another time.
fn recorded_figure(out: &Path, recorded: &Recorded, link: &PublishedLink, unit: &str) -> Ours {
    match Ours::of(&out.join(format!("{}.json", recorded.name)), &link.member, unit) {
        Ok(mut figure) => {
            figure.remark(&link.note);
            figure
        }
        Err(_) => Ours::absent(&recorded.instead),
    }
}

fn figure(out: &Path, scenario: &str, link: &PublishedLink, unit: &str) -> Result<Ours, ReportError> {
    let result = directory(out, scenario, &link.point);
    if let Some(transfers) = link.at_transfers {
        return Ours::at_transfers(&result.join("result.json"), transfers);
    }
    let Some(base) = &link.against else {
        return Ours::of(&result.join("result.json"), &link.member, unit);
    };
    let name = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let [run, base] = [result, directory(out, scenario, base)].map(name);
    Ours::difference(out, &run, &base, &link.member, unit)
}

/// What is kept of every result.
fn figures(suite: &SuiteFile, out: &Path) -> Value {
    let mut figures = Vec::new();
    for run in &suite.runs {
        for point in run.scenario.points() {
            let file = directory(out, &run.scenario.name, &point.label()).join("result.json");
            let Some(result) = read(&file) else { continue };
            figures.push(kept(&result));
        }
    }
    json!({ "schema_version": SCHEMA_VERSION, "suite": suite.name, "results": figures })
}

fn kept(result: &Value) -> Value {
    let is_isolated = result["kind"] == "isolated";
    // A stage alone has parameters; the options of a load are not its own.
    let names = KEPT.into_iter().filter(|name| !(is_isolated && *name == "options"));
    let members = names.map(|name| (name.to_owned(), result[name].clone()));
    let mut kept = Value::Object(members.filter(|(_, value)| !value.is_null()).collect());
    for path in LEFT_OUT {
        let Some((parent, member)) = path.rsplit_once('/') else { continue };
        if let Some(parent) = kept.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(member);
        }
    }
    kept
}

fn read(file: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// The page of published figures: every row has a run or a reason, and every link leads somewhere.
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::result::schema::{
        BreakpointResult, DriftResult, MachineResult, ProcessRow, ProgrammeCheck, StageResult,
        ThresholdCheck, Thresholds,
    };
    use crate::{LabResult, PhaseResult, Phases, ProcessResult};

    fn suite() -> SuiteFile {
        SuiteFile::named("characterize").unwrap()
    }

    fn rows() -> Vec<Row> {
        toml::from_str::<Rows>(PUBLISHED).unwrap().rows
    }

    #[test]
    fn every_published_row_has_one_run_or_a_reason() {
        let published: Published = toml::from_str(PUBLISHED).unwrap();
        let ids: BTreeSet<&str> = published.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), published.rows.len(), "ids are told apart");
        let suite = suite();
        let recorded = suite.recorded.iter().flat_map(|recorded| &recorded.rows);
        let links = suite.runs.iter().flat_map(|run| &run.rows).chain(recorded);
        let linked: Vec<&str> = links.map(|link| link.id.as_str()).collect();
        for row in rows() {
            let runs = linked.iter().filter(|id| **id == row.id).count();
            let (has_reason, id) = (row.unavailable.is_some(), &row.id);
            assert_eq!(runs + usize::from(has_reason), 1, "{id}: one run, or a reason why there is none");
        }
        for id in linked {
            assert!(ids.contains(id), "{id} is no published row");
        }
    }

    #[test]
    fn a_row_says_what_it_is_and_conditions_refer_to_the_row_above() {
        let published: Published = toml::from_str(PUBLISHED).unwrap();
        for pair in published.rows.windows(2) {
            let [above, row] = pair else { continue };
            assert!(!row.what.starts_with("the same"), "{}: say it in full", row.id);
            if row.conditions.contains("as the row above") {
                assert_eq!(
                    (&above.source, above.vcpus),
                    (&row.source, row.vcpus),
                    "{}: not as the row above",
                    row.id
                );
            }
        }
    }

    #[test]
    fn every_link_leads_to_a_point_that_is_run_once() {
        let suite = suite();
        let mut places = BTreeSet::new();
        for run in &suite.runs {
            let labels: Vec<String> = run.scenario.points().iter().map(|point| point.label()).collect();
            for label in &labels {
                let place = directory(Path::new(""), &run.scenario.name, label);
                assert!(places.insert(place.clone()), "{} would be written twice", place.display());
            }
            for link in &run.rows {
                for point in [Some(&link.point), link.against.as_ref()].into_iter().flatten() {
                    assert!(
                        labels.contains(point),
                        "{}: {} has no point {point:?}: {labels:?}",
                        link.id,
                        run.scenario.name
                    );
                }
                assert!(
                    link.against.is_none() || run.scenario.is_against_first(),
                    "{}: they take no turns",
                    link.id
                );
            }
        }
    }

    /// What a soak found that held its load for so long.
    fn held(seconds: f64) -> DriftResult {
        let t2 = ProgrammeCheck { name: "T2 seconds".into(), measured: seconds, ..ProgrammeCheck::default() };
        DriftResult { held_s: seconds, programme_2020: vec![t2], ..DriftResult::default() }
    }

    /// A result with every member that runs of any kind have.
    fn whole_result() -> LabResult {
        let stages = ["prepare", "fulfil", "position", "journal_sync", "callback", "notification"];
        let stage = |name: &str| StageResult {
            stage: name.to_owned(),
            p50_us: Some(1.0),
            p99_us: Some(1.0),
            ..StageResult::default()
        };
        let process = |name: &str| ProcessRow {
            name: name.to_owned(),
            cpu_us_per_operation: Some(1.0),
            ..ProcessRow::default()
        };
        let phase = Some(PhaseResult::default());
        LabResult {
            stages: stages.map(stage).into(),
            processes: ["hub", "lab", "forwarder"].map(process).into(),
            hub: Some(ProcessResult { cpu_us_per_operation: Some(1.0), ..ProcessResult::default() }),
            phases: Phases { discovery: phase, agreement: phase, conversion: phase, transfer: phase },
            breakpoint: Some(BreakpointResult { highest_met_per_s: Some(1), ..BreakpointResult::default() }),
            drift: Some(held(3_600.0)),
            ..LabResult::new()
        }
    }

    #[test]
    fn every_link_names_a_member_of_a_result() {
        let out = tempfile::tempdir().unwrap();
        whole_result().write(out.path()).unwrap();
        let file = out.path().join("result.json");
        let suite = suite();
        let recorded = suite.recorded.iter().flat_map(|recorded| &recorded.rows);
        for link in suite.runs.iter().flat_map(|run| &run.rows).chain(recorded) {
            let ours = Ours::of(&file, &link.member, "").unwrap();
            assert!(ours.figure.is_some(), "{}: results have no {}", link.id, link.member);
        }
    }

    #[test]
    fn rows_of_runs_that_failed_say_so() {
        let nowhere = tempfile::tempdir().unwrap();
        for (id, row) in ours(&suite(), nowhere.path(), &rows()) {
            let says_so = row.note.starts_with("n/a: ") || row.note.starts_with("see make soak");
            assert!(row.figure.is_none() && says_so, "{id}: {}", row.note);
        }
    }

    /// Thresholds of a hub that refused too much.
    fn shed() -> Thresholds {
        let check = ThresholdCheck { name: "success_share".to_owned(), limit: 0.99, value: 0.94, met: false };
        let findings = vec!["6 % of the operations failed; it must be less than 1 %".to_owned()];
        Thresholds { met: false, findings, checked: vec![check] }
    }

    #[test]
    fn a_page_is_written_from_what_ran() {
        let (out, docs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut result = LabResult {
            name: "transfers-8".to_owned(),
            kind: "end-to-end".into(),
            scenario: "transfers".into(),
            throughput_per_s: 660.0,
            completed: 3_960,
            ..LabResult::new()
        };
        result.window.seconds = 6.0;
        result.thresholds = Some(shed());
        result.machine = Some(MachineResult { words: "shared".to_owned(), ..MachineResult::default() });
        result.http_ms.p99 = 5_250.0;
        let directory = out.path().join("transfers-8");
        std::fs::create_dir(&directory).unwrap();
        result.write(&directory).unwrap();
        let suite_json = r#"{"schema_version": 2, "name": "characterize", "title": "T", "runs": ["transfers-8"], "plots": []}"#;
        std::fs::write(out.path().join("suite.json"), suite_json).unwrap();
        // An hour of another day, kept beside the page.
        let mut hour =
            LabResult { scenario: "transfers".into(), throughput_per_s: 2_665.0, ..LabResult::new() };
        // What counts is for how long of it the load was held.
        (hour.window.seconds, hour.drift) = (3_900.0, Some(held(3_600.0)));
        hour.latency_ms.share_over_1s = 0.0003;
        let kept = docs.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        hour.write(&kept).unwrap();
        std::fs::rename(kept.join("result.json"), docs.path().join("soak.json")).unwrap();
        bring_recorded(&suite(), out.path(), Some(docs.path()), &[]).unwrap();
        write(&suite(), out.path(), docs.path()).unwrap();
        let page = std::fs::read_to_string(docs.path().join("README.md")).unwrap();
        // 220/s were published.
        let row = page.lines().find(|line| line.contains("| 220/s |")).unwrap();
        assert!(
            row.contains("660/s | missed: 6 % of the operations failed; it must be less than 1 % | – |"),
            "{row}"
        );
        assert!(page.contains("32 users, 6 s, 8 DFSPs, 3,960 transfers"), "{page}");
        let held = page.lines().find(|line| line.contains("target T2")).unwrap();
        assert!(held.contains("| 60.0 min | 60.0 min | – |"), "{held}");
        let hour = page.lines().find(|line| line.contains("target T1")).unwrap();
        assert!(hour.contains("| 200/s | 2,665/s | 13.3 × |"), "{hour}");
        assert!(page.contains("Of all "), "the summary stands on top: {page}");
        let too_long =
            page.lines().filter(|line| !line.starts_with('|')).find(|line| line.chars().count() > 125);
        assert_eq!(too_long, None);
        let share = page.lines().find(|line| line.contains("share over 1 s")).unwrap();
        assert!(share.contains("| 0.03 % | 0.03 % |"), "{share}");
        let figures = read(&docs.path().join("results.json")).unwrap();
        assert_eq!(figures["results"].as_array().map(Vec::len), Some(1));
        let report = std::fs::read_to_string(docs.path().join("report.html")).unwrap();
        assert!(
            report.contains("Published figures beside ours")
                && report.contains("<td class=\"\">220/s</td><td class=\"\">660/s</td>")
        );
        // Whoever shows the suite again gets the same.
        let again = beside_suite(&[out.path().to_owned()]).unwrap();
        assert!(
            again
                .rows
                .iter()
                .any(|row| row.ours == Some(660.0) && row.times.is_none() && row.missed.is_some())
        );
        assert!(beside_suite(&[out.path().join("suite.json")]).is_some());
        assert!(beside_suite(&[docs.path().to_owned()]).is_none());
        let kept = &figures["results"][0];
        assert_eq!(kept["options"]["load"]["closed"]["users"], 32);
        assert!(kept["audit"]["ok"] == true && kept["audit"].get("positions").is_none(), "{kept}");
        // Whoever reads that thresholds were not met can check it.
        assert!(page.contains("the hub did not meet the thresholds"), "{page}");
        assert_eq!(kept["thresholds"]["checked"][0]["value"], 0.94);
        assert_eq!((&kept["machine"]["words"], &kept["http_ms"]["p99"]), (&"shared".into(), &5_250.0.into()));
        assert!(kept.get("timeline").is_none() && kept.get("histogram").is_none(), "{kept}");
        assert!(docs.path().join("report.html").is_file());
    }
}

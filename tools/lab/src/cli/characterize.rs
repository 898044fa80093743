//! A page about a suite: published figures beside ours, every row of ours, and what the rows mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use upesi_process::exit::{Exit, Failure, Outcome};

use crate::failures::{cannot_create, software};
use crate::judge::merge::remove;
use crate::plan::{PUBLISHED, PublishedLink, SuiteFile, SuiteRun, Work};
use crate::report::ReportError;
use crate::report::published::{Beside, Ours, Published, beside, table};
use crate::report::summary::summary;
use crate::{SCHEMA_VERSION, Scenario};

/// Members of a result that are not kept beside the page: timelines, histograms, texts, what each DFSP counted, and
/// other lists that are long and say little. The whole results stay where the suite was run.
const LEFT_OUT: [&str; 16] = [
    "/schema_version",
    "/description",
    "/scenario",
    "/load_began_at",
    "/late",
    "/originated",
    "/lab",
    "/more_baselines",
    "/slices",
    "/simulators",
    "/settlement",
    "/timeline",
    "/histogram",
    "/audit/positions",
    "/baseline/slices",
    "/baseline/lab",
];

/// The page, with places for the title, what the figures come to, the published ones beside ours, and every run.
const PAGE: &str = include_str!("characterize.template");

/// The published row that the highest rate of whole payments stands beside.
const HIGHEST_RATE: &str = "dqt-2026";

/// Writes the page, the report and the figures into a directory.
pub fn write(suite: &SuiteFile, out: &Path, docs: &Path) -> Outcome {
    let published: Published =
        toml::from_str(PUBLISHED).map_err(|error| software(format!("published.toml: {error}")))?;
    let cannot = cannot_create(docs);
    std::fs::create_dir_all(docs).map_err(cannot)?;

    let failed = |error| Failure::new(Exit::Data, error);
    let beside = told(suite, out, &published).map_err(failed)?;
    let suite_directory = [out.to_owned()];
    let rows = crate::report::markdown(&suite_directory).map_err(failed)?;
    let page = PAGE
        .replace("{title}", &suite.title)
        .replace("{summary}", crate::report::paragraph(&beside.summary).trim_end())
        .replace("{published}", table(&beside).trim_end())
        .replace("{runs}", rows.trim_end());
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
    told(&suite, directory, &published).ok()
}

/// Published figures beside ours, and what they come to.
fn told(suite: &SuiteFile, out: &Path, published: &Published) -> Result<Beside, ReportError> {
    let mut beside = beside(published, &ours(suite, out, published));
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
    out.join(directory_name(scenario, label))
}

fn directory_name(scenario: &str, label: &str) -> String {
    if label.is_empty() { scenario.to_owned() } else { format!("{scenario},{label}") }
}

/// Our figure for each published row, or why there is none.
fn ours(suite: &SuiteFile, out: &Path, published: &Published) -> BTreeMap<String, Ours> {
    let unit = |id: &str| published.rows.iter().find(|row| row.id == id).map_or("", |row| row.unit.as_str());
    let told = |figure: Result<Ours, ReportError>, note: &str, instead: &str| match figure {
        Ok(mut figure) => {
            figure.remark(note);
            figure
        }
        Err(_) => Ours::absent(instead),
    };
    let mut ours = BTreeMap::new();
    for row in &published.rows {
        if let Some(text) = &row.unavailable {
            ours.insert(row.id.clone(), Ours::absent(&format!("n/a: {text}")));
        }
    }
    for run in &suite.runs {
        for link in &run.rows {
            let figure = figure(out, &run.scenario.name, link, unit(&link.id));
            ours.insert(link.id.clone(), told(figure, &link.note, "n/a: the run failed"));
        }
    }
    for recorded in &suite.recorded {
        let file = out.join(format!("{}.json", recorded.name));
        for link in &recorded.rows {
            let figure = Ours::of(&file, &link.member, unit(&link.id));
            ours.insert(link.id.clone(), told(figure, &link.note, &recorded.instead));
        }
    }
    ours
}

/// The figure that a link names of a run of the suite.
fn figure(out: &Path, scenario: &str, link: &PublishedLink, unit: &str) -> Result<Ours, ReportError> {
    let file = directory(out, scenario, &link.point).join("result.json");
    match (link.at_transfers, &link.against) {
        (Some(transfers), _) => Ours::at_transfers(&file, transfers),
        (None, None) => Ours::of(&file, &link.member, unit),
        (None, Some(base)) => {
            let [run, base] = [&link.point, base].map(|point| directory_name(scenario, point));
            Ours::difference(out, &run, &base, &link.member, unit)
        }
    }
}

/// What is kept of every result.
fn figures(suite: &SuiteFile, out: &Path) -> Value {
    let points = suite.runs.iter().flat_map(|run| {
        let name = &run.scenario.name;
        run.scenario.points().iter().map(move |point| directory(out, name, &point.label()))
    });
    let results = points.filter_map(|directory| read(&directory.join("result.json"))).map(kept);
    let results: Vec<Value> = results.collect();
    json!({ "schema_version": SCHEMA_VERSION, "suite": suite.name, "results": results })
}

fn kept(mut result: Value) -> Value {
    // A stage alone has parameters; the options of a load are not its own.
    let options = (result["kind"] == "isolated").then_some("/options");
    for member in LEFT_OUT.into_iter().chain(options) {
        remove(&mut result, member);
    }
    if let Some(members) = result.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    result
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

    fn published() -> Published {
        toml::from_str(PUBLISHED).unwrap()
    }

    #[test]
    fn every_published_row_has_one_run_or_a_reason() {
        let published = published();
        let ids: BTreeSet<&str> = published.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), published.rows.len(), "ids are told apart");
        let suite = suite();
        let recorded = suite.recorded.iter().flat_map(|recorded| &recorded.rows);
        let links = suite.runs.iter().flat_map(|run| &run.rows).chain(recorded);
        let linked: Vec<&str> = links.map(|link| link.id.as_str()).collect();
        for row in &published.rows {
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
        for pair in published().rows.windows(2) {
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
        for (id, row) in ours(&suite(), nowhere.path(), &published()) {
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

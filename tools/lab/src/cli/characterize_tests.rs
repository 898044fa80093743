//! The page of published figures: every row has a run or a reason, and every link leads somewhere.

use std::collections::BTreeSet;

use crate::result::schema::{
    BreakpointResult, DriftResult, MachineResult, ProcessRow, ProgrammeCheck, StageResult, ThresholdCheck,
    Thresholds,
};
use crate::{LabResult, PhaseResult, Phases, ProcessResult};

use super::*;

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
        ..LabResult::default()
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
        ..LabResult::default()
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
        LabResult { scenario: "transfers".into(), throughput_per_s: 2_665.0, ..LabResult::default() };
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
    let too_long = page.lines().filter(|line| !line.starts_with('|')).find(|line| line.chars().count() > 125);
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
        again.rows.iter().any(|row| row.ours == Some(660.0) && row.times.is_none() && row.missed.is_some())
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

//! Plans, their turns, and several results as one.

use super::*;
use crate::measured::{Thresholds, Validity};

#[test]
fn repetitions_become_one_and_a_bad_one_spoils_it() {
    let run = |throughput_per_s, findings: &[&str]| LabResult {
        throughput_per_s,
        validity: Validity::of(findings.iter().map(|text| (*text).to_owned()).collect()),
        thresholds: Some(Thresholds { met: findings.is_empty(), findings: Vec::new(), checked: Vec::new() }),
        ..LabResult::default()
    };
    let result = together(vec![run(30.0, &[]), run(10.0, &["lag"]), run(20.0, &["lag"])]).unwrap();
    assert_eq!((result.throughput_per_s, result.repetitions), (20.0, vec![30.0, 10.0, 20.0]));
    assert_eq!(result.validity.findings, ["lag"]);
    assert!(!result.thresholds.unwrap().met);
    assert!(result.audit.ok);
    let mut bad = run(40.0, &[]);
    bad.audit.ok = false;
    assert!(!together(vec![run(1.0, &[]), bad, run(2.0, &[])]).unwrap().passed());
    assert!(together(Vec::new()).is_none());
}

#[test]
fn rates_are_parts_of_the_one_that_was_found() {
    let text = "title = 'x'\n[load]\nshape = 'open'\nrate_per_s = 400\n\
                [sweep]\n'load.percent_of_breakpoint' = [50, 200]";
    let mut plan = SuitePlan::of_scenario(&ScenarioFile::parse("x", text).unwrap());
    let rates = |plan: &SuitePlan, found: Option<u32>| {
        let mut progress = Progress::new(plan, Path::new("/nonexistent"), None);
        progress.rate_per_s = found;
        [0, 1].map(|point| match progress.work(point)? {
            Work::EndToEnd { options, .. } => Ok(options.load.rate_per_s_max().unwrap()),
            Work::Isolated { .. } => Err("isolated".to_owned()),
        })
    };
    assert_eq!(rates(&plan, None), [Ok(200), Ok(800)], "by itself, of the file's own rate");
    assert_eq!(rates(&plan, Some(1_377)), [Ok(688), Ok(2_754)]);
    assert_eq!(plan.points[0].directory(), "x,percent_of_breakpoint-50");
    // In a suite nothing may run under the name of a rate that nobody found.
    plan.finds_rates = true;
    assert_eq!(rates(&plan, Some(1_377)), [Ok(688), Ok(2_754)]);
    let [half, twice] = rates(&plan, None).map(Result::unwrap_err);
    assert!(half.contains("at 50 % of the highest rate that holds"), "{half}");
    assert!(twice.starts_with("skipped: ") && twice.contains("200 %"), "{twice}");
}

#[test]
fn a_run_without_its_rate_is_skipped_and_told_and_what_an_earlier_suite_left_is_removed() {
    let out = tempfile::tempdir().unwrap();
    let text = "title = 'x'\n[load]\nshape = 'open'\nrate_per_s = 400\npercent_of_breakpoint = 200";
    let mut plan = SuitePlan::of_scenario(&ScenarioFile::parse("x", text).unwrap());
    plan.finds_rates = true;
    let reason = "it needs a hub of its own".to_owned();
    plan.left_out = vec![LeftOut { scenario: "y".to_owned(), question: None, reason }];
    std::fs::create_dir(out.path().join("x")).unwrap();
    let old = out.path().join("x/result.json");
    std::fs::write(&old, "{}").unwrap();
    let mut told = Vec::new();
    let suite = run_suite(&plan, out.path(), None, &mut |text: &str| told.push(text.to_owned())).unwrap();
    assert_eq!((suite.failures.len(), suite.failures[0].run.as_str()), (1, "x"));
    assert!(suite.failures[0].error.starts_with("skipped: ") && told[1].contains("skipped: "), "{told:?}");
    assert!(!old.exists());
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.path().join("suite.json")).unwrap()).unwrap();
    assert_eq!(written["left_out"][0]["scenario"], "y");
    assert!(written["failures"][0]["error"].as_str().unwrap().contains("no search before it found one"));
}

#[test]
fn what_is_compared_with_a_base_is_run_beside_it_and_all_is_counted() {
    let text = "title = 'x'\nrepetitions = 2\n[[ablation]]\nname = 'a'\n[[ablation]]\nname = 'b'\n\
                [[claim]]\ntext = 'c'\nablation = 'b'\nat_most_percent = 3";
    let mut plan = SuitePlan::of_scenario(&ScenarioFile::parse("x", text).unwrap());
    assert_eq!((plan.runs(), plan.claims.len()), (5, 1));
    let progress = Progress::new(&plan, Path::new("/nonexistent"), None);
    assert_eq!(progress.wanted, [3, 2]);
    plan.repetitions = 3;
    assert_eq!(plan.runs(), 15);
}

#[test]
fn a_plan_has_every_point_with_a_directory_of_its_own() {
    let scenario = ScenarioFile::named("position-batch").unwrap();
    let plan = SuitePlan::of_scenario(&scenario);
    assert_eq!(plan.points.len(), 21);
    assert_eq!(plan.points[20].directory(), "position-batch,batch-natural,dfsps-8");
    assert_eq!(plan.plots[0].1.len(), 21);
    let suite = SuiteFile::named("quick").unwrap();
    let plan = SuitePlan::of_suite(&suite);
    assert_eq!(
        plan.points.iter().map(SuitePoint::directory).collect::<Vec<_>>(),
        ["transfers-8", "lookups-8", "payments-8"]
    );
    let result = suite_result(&plan, Vec::new());
    assert_eq!(serde_json::to_value(&result).unwrap()["runs"][1], "lookups-8");
}

#[test]
fn what_an_earlier_run_recorded_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    forget_recordings(directory.path()).unwrap();
    let (recordings, result) = (directory.path().join(RECORDINGS), directory.path().join("suite.json"));
    std::fs::create_dir(&recordings).unwrap();
    std::fs::write(recordings.join("old.stream"), b"of another hub").unwrap();
    std::fs::write(&result, b"{}").unwrap();
    forget_recordings(directory.path()).unwrap();
    assert!(!recordings.exists() && result.exists(), "that and nothing else");
}

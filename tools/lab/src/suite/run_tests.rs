//! Plans, their turns, and the combination of several results.

use super::*;
use crate::plan::suite_plan::LeftOut;
use crate::plan::{ScenarioFile, SuiteFile};
use crate::result::ScheduleResult;
use crate::result::schema::{Thresholds, Validity};

#[test]
fn repetitions_are_combined_with_all_findings() {
    let run = |throughput_per_s, findings: &[&str]| LabResult {
        throughput_per_s,
        validity: Validity::of(findings.iter().map(|text| (*text).to_owned()).collect()),
        thresholds: Some(Thresholds { met: findings.is_empty(), findings: Vec::new(), checked: Vec::new() }),
        ..LabResult::new()
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
    let ratios = |ratios: [Option<f64>; 2]| {
        let runs = ratios.map(|ratio| LabResult { ratio, throughput_per_s: 9.0, ..LabResult::new() });
        together(runs.into()).unwrap().repeated
    };
    assert_eq!(ratios([Some(0.5), Some(0.4)]), BTreeMap::from([("ratio".into(), vec![0.5, 0.4])]));
    assert!(ratios([Some(0.5), None]).is_empty(), "what one of them lacks");
}

#[test]
fn rate_is_a_part_of_the_found_rate() {
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
    // In a suite, no run may claim a rate that no search found.
    plan.finds_rates = true;
    assert_eq!(rates(&plan, Some(1_377)), [Ok(688), Ok(2_754)]);
    let [half, twice] = rates(&plan, None).map(Result::unwrap_err);
    assert!(half.contains("needs 50 % of the highest rate"), "{half}");
    assert!(twice.starts_with("skipped: ") && twice.contains("200 %"), "{twice}");
}

#[test]
fn disturbed_run_is_repeated_once() {
    let lagging = |throughput_per_s| LabResult {
        throughput_per_s,
        schedule: Some(ScheduleResult { lag_ms_p99: 12.0, valid: false, ..ScheduleResult::default() }),
        validity: Validity::of(vec!["it lagged".to_owned()]),
        ..LabResult::new()
    };
    let quiet = |throughput_per_s| LabResult { throughput_per_s, ..LabResult::new() };
    let mut failed = lagging(1.0);
    failed.audit.ok = false;
    type Tries = Vec<Result<LabResult, String>>;
    let cases: [(Tries, Option<f64>, usize); 6] = [
        (vec![Ok(quiet(1.0))], Some(1.0), 0),
        (vec![Ok(lagging(1.0)), Ok(quiet(2.0))], Some(2.0), 1),
        (vec![Ok(lagging(1.0)), Ok(lagging(2.0))], Some(2.0), 1),
        // If the hub ended, for example, the first result is the only one.
        (vec![Ok(lagging(1.0)), Err("gone".to_owned())], Some(1.0), 1),
        // A run with a fault of the hub is not repeated until it looks right.
        (vec![Ok(failed)], Some(1.0), 0),
        (vec![Err("gone".to_owned())], None, 0),
    ];
    for (tries, expected, again) in cases {
        let (tries, told) = (std::cell::RefCell::new(tries), std::cell::RefCell::new(Vec::new()));
        let run = || tries.borrow_mut().remove(0);
        let result = undisturbed(run, |findings: &str| told.borrow_mut().push(findings.to_owned()));
        assert_eq!(result.ok().map(|result| result.throughput_per_s), expected);
        assert_eq!(told.into_inner(), vec!["it lagged"; again]);
        assert!(tries.into_inner().is_empty(), "all were made");
    }
}

#[test]
fn short_run_at_a_part_of_a_rate_is_tried_twice() {
    let tried_twice = |scenario: ScenarioFile| {
        scenario.points().iter().map(|point| may_be_tried_twice(&point.work)).collect::<Vec<_>>()
    };
    assert_eq!(tried_twice(ScenarioFile::named("around-breakpoint").unwrap()), [true; 3]);
    for (measured, is_short) in [("1m", true), ("61s", false)] {
        let text = format!(
            "title = 'x'\n[load]\nshape = 'open'\nrate_per_s = 400\npercent_of_breakpoint = 70\n\
             [time]\nmeasured = '{measured}'"
        );
        assert_eq!(tried_twice(ScenarioFile::parse("x", &text).unwrap()), [is_short], "{measured}");
    }
    // The first scenario has its own load, the second one none.
    for name in ["transfers-8", "prepare-only"] {
        assert_eq!(tried_twice(ScenarioFile::named(name).unwrap()), [false], "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let (result, kept) = (directory.path().join("result.json"), directory.path().join(DISTURBED));
    std::fs::write(&result, "{}").unwrap();
    set_aside(Some(directory.path()));
    assert!(kept.is_file() && !result.exists());
    set_aside(None);
}

#[test]
fn run_without_its_rate_is_skipped_and_old_results_are_removed() {
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
    assert!(written["took_s"].is_number() && written["began_at"].as_str() <= written["ended_at"].as_str());
    assert!(written["failures"][0]["error"].as_str().unwrap().contains("no earlier search found one"));
}

#[test]
fn compared_run_takes_turns_with_its_base() {
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
fn plan_has_a_directory_for_each_point() {
    let scenario = ScenarioFile::named("journal-alone").unwrap();
    let plan = SuitePlan::of_scenario(&scenario);
    assert_eq!(plan.points.len(), 8);
    assert_eq!(plan.points[7].directory(), "journal-alone,batch-1000,durable-false");
    assert_eq!(plan.plots[0].runs.len(), 8);
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
fn shared_question_follows_its_last_scenario() {
    let text = "title = 'S'\n[[question]]\ntext = 'both'\nscenarios = ['transfers-users', 'lookups-8']\n\
                [[question]]\ntext = 'second'\nscenarios = ['lookups-8']\n\
                [[run]]\nscenario = 'transfers-users'\nquestion = 'one'\nset = { 'sweep.load.users' = [1, 2] }\n\
                [[run]]\nscenario = 'lookups-8'\n[[run]]\nscenario = 'quotes-8'\nquestion = 'three'\n";
    let mut suite = SuiteFile::parse("s.toml", text, None).unwrap();
    let asked = |suite: &SuiteFile| -> Vec<(String, Vec<usize>)> {
        let result = suite_result(&SuitePlan::of_suite(suite), Vec::new());
        result.questions.into_iter().map(|question| (question.text, question.runs)).collect()
    };
    let expected = [("one", vec![0, 1]), ("both", vec![0, 1, 2]), ("second", vec![2]), ("three", vec![3])];
    assert_eq!(asked(&suite), expected.map(|(text, runs)| (text.to_owned(), runs)));
    // If another hub is driven, some runs are left out.
    suite.runs.remove(1);
    let expected = [("one", vec![0, 1]), ("both", vec![0, 1]), ("three", vec![2])];
    assert_eq!(asked(&suite), expected.map(|(text, runs)| (text.to_owned(), runs)));
    let architect = SuitePlan::of_suite(&SuiteFile::named("architect").unwrap());
    let limits = suite_result(&architect, Vec::new()).questions;
    let limits = limits.iter().find(|question| question.text.starts_with("What limits the rate?")).unwrap();
    let runs: Vec<String> = limits.runs.iter().map(|run| architect.points[*run].directory()).collect();
    assert_eq!(runs, ["payments-8", "transfers-8", "breakpoint"]);
    for (wrong, expected) in [
        (
            text.replace("['lookups-8']", "['soak']"),
            "s.toml:5: question.scenarios: this suite has no [[run]] of \"soak\"",
        ),
        (text.replace("['lookups-8']", "[]"), "question.scenarios: name the scenarios that answer it"),
        (text.replace("text = 'second'", "words = 'second'"), "text is missing in [question]"),
    ] {
        let error = SuiteFile::parse("s.toml", &wrong, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn recordings_of_an_earlier_run_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    forget_recordings(directory.path()).unwrap();
    let (recordings, result) = (directory.path().join(RECORDINGS), directory.path().join("suite.json"));
    std::fs::create_dir(&recordings).unwrap();
    std::fs::write(recordings.join("old.stream"), b"of another hub").unwrap();
    std::fs::write(&result, b"{}").unwrap();
    forget_recordings(directory.path()).unwrap();
    assert!(!recordings.exists() && result.exists(), "that and nothing else");
}

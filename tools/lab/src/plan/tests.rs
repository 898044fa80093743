use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use crate::plan::load_profile::Load;
use crate::plan::options::Baseline;
use crate::plan::pairs::PairChoice;
use crate::plan::parameter::Parameter;
use crate::plan::scenario::Scenario;

fn parse(text: &str) -> Result<ScenarioFile, Vec<Mistake>> {
    ScenarioFile::parse("test.toml", text).map_err(|error| match error {
        PlanError::Mistakes { mistakes, .. } => mistakes,
        other => panic!("{other}"),
    })
}

fn options(scenario: &ScenarioFile, point: usize) -> &RunOptions {
    match &scenario.points()[point].work {
        Work::EndToEnd { options, .. } => options,
        Work::Isolated { .. } => panic!("an isolated stage"),
    }
}

#[test]
fn scenario_files_are_built_in_and_valid() {
    for (directory, builtin) in [("", SCENARIOS), ("suites", SUITES)] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(directory);
        let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let toml = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        let names: BTreeSet<String> = toml.map(|path| stem(&path)).collect();
        let known: BTreeSet<String> = builtin.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names, known);
    }
    for (name, _) in SCENARIOS {
        let scenario = ScenarioFile::named(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.title.is_empty() && !scenario.description.is_empty(), "{name}");
        let labels: BTreeSet<String> = scenario.points().iter().map(Point::label).collect();
        assert_eq!(labels.len(), scenario.points().len(), "{name}: every point has a label of its own");
        has_names_for_people(&scenario);
        for plot in scenario.plots() {
            let has = |name: &String| scenario.points()[0].parameters.contains_key(name);
            assert!(has(&plot.x) && plot.series.as_ref().is_none_or(has), "{name}: {plot:?}");
        }
    }
    for (name, _) in SUITES {
        let suite = SuiteFile::named(name).unwrap_or_else(|error| panic!("{error}"));
        let mut places = BTreeSet::new();
        for run in &suite.runs {
            has_names_for_people(&run.scenario);
            for point in run.scenario.points() {
                let place = (&run.scenario.name, point.label());
                assert!(places.insert(place.clone()), "{name}: {place:?} would be written twice");
            }
        }
    }
}

/// Checks that swept parameters have names for people on pages and in tables.
fn has_names_for_people(scenario: &ScenarioFile) {
    for name in scenario.points().iter().flat_map(|point| point.parameters.keys()) {
        let is_known = crate::plan::parameters::is_known(name);
        assert!(is_known, "{}: {name} has no name in plan/parameters.rs", scenario.name);
    }
}

#[test]
fn file_becomes_options() {
    let scenario = parse(
        r#"
title = "A title"
description = "What it shows"
operation = "payments"
seed = 7
parties = 10
currency = "KES"
amount = "12.5"
[dfsps]
pairs = "weighted"
weights = [70, 10, 20]
[load]
shape = "poisson"
rate_per_s = 50
outstanding_max = 9
[time]
warm_up = "500ms"
measured = "2m"
cool_down = "1s"
slices = 3
[behaviour]
flavour = "reserved"
abort_per_mille = 5
repeat_prepare_per_mille = 7
[hub.settings]
"engine.durable" = false
[hub.settings.log]
level = "debug"
[compare]
baselines = ["forwarder"]
[targets]
p99_ms = 12.5
lost = 0
"#,
    )
    .unwrap();
    let options = options(&scenario, 0);
    assert_eq!((options.scenario, options.seed, options.dfsps), (Scenario::Payments, 7, 3));
    assert_eq!(options.pairs, PairChoice::weighted([70, 10, 20]));
    let load = Load::Arrivals { start_per_s: 50, stages: Vec::new(), poisson: true, outstanding_max: 9 };
    assert_eq!(options.load, load);
    assert_eq!((options.duration.as_secs(), options.slices, options.cool_down.as_secs()), (120, Some(3), 1));
    assert_eq!(options.hub_arguments, ["--set=engine.durable=false", "--set=log.level=debug"]);
    assert_eq!(options.durable(), Some(false));
    assert_eq!(options.baselines, [Baseline::Forwarder]);
    assert_eq!(options.identity.targets.len(), 2);
    let behaviour = options.behaviour;
    assert_eq!((behaviour.abort_per_mille, behaviour.repeat_prepare_per_mille), (5, 7));
    assert_eq!(options.amount.to_string(), "12.5");
}

#[test]
fn mistakes_are_reported_with_their_lines() {
    let text = r#"operation = "transfer"
nonsense = 1
[dfsps]
count = 1
[load]
shape = "open"
users = 5
[time]
measured = 20
warm_up = "3 s"
[time.more]
x = 1
[behaviour]
abort_per_mille = 1001
[compare]
baselines = ["nothing"]
[targets]
p99 = 1000
p50_ms = -1
[hub.settings]
"engine.durable" = [1]
[sweep]
"load.users" = 5
"#;
    let mistakes = parse(text).unwrap_err();
    let lines: BTreeSet<usize> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, BTreeSet::from([1, 2, 4, 5, 9, 10, 11, 14, 15, 18, 19, 21, 23]), "{mistakes:#?}");
    for expected in [
        "title is missing",
        "operation: give one of transfers, lookups, quotes, payments",
        "\"nonsense\" is unknown; the known ones are",
        "dfsps.count: give a whole number from 2 to 1000",
        "load.rate_per_s is missing: shape \"open\" needs it",
        "load.users has no effect on shape \"open\"",
        "time.measured: give a time with its unit",
        "the baselines are sims-only and forwarder",
        "\"p99\" is unknown in [targets]; the known ones are p50_ms",
        "hub.settings.engine.durable: give a text, a number, true or false",
        "sweep.load.users: give a list of values",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake.text.contains(expected)), "{expected}: {mistakes:#?}");
    }
}

#[test]
fn broken_toml_and_contradictions_are_mistakes() {
    for (text, expected) in [
        ("title = ", "test.toml:1: "),
        ("title = \"x\"\n[load]\nshape = \"ramping-users\"", "test.toml:2: load.stages is missing"),
        (
            "title = \"x\"\n[load]\nshape = \"ramping-rate\"\nstages = [{ to = 5 }]",
            "test.toml:4: a stage needs both",
        ),
        ("title = \"x\"\ntest = \"breakpoint\"", "test.toml: a breakpoint search needs [targets]"),
        ("title = \"x\"\n[breakpoint]\nprobes_max = 3", "test.toml:2: [breakpoint] requires"),
        ("title = \"x\"\nload = 5", "test.toml:2: load is a section"),
        (
            "title = \"x\"\n[dfsps]\nweights = [1, 0]\npairs = \"weighted\"",
            "test.toml:2: dfsps.weights: give 2",
        ),
        ("title = \"x\"\n[time]\nmeasured = \"10ms\"", "test.toml: measure for at least"),
        ("title = \"x\"\nkind = \"isolated\"\nstage = \"engine\"", "\"engine\" is not an isolated kind"),
        (
            "title = \"x\"\nkind = \"isolated\"\nstage = \"journal\"\n[isolated]\nbatch = 0\nsize = 2",
            "test.toml:5: isolated.batch: give a whole number from 1 to",
        ),
        ("title = \"x\"\n[sweep]\n\"title.x\" = [1]", "is not a path of this scenario"),
        ("title = \"x\"\n[sweep]\nseed = [1]\n[[ablation]]\nname = \"y\"", "not both"),
    ] {
        let error = ScenarioFile::parse("test.toml", text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn sweep_has_every_combination_and_ablation_one_change() {
    let scenario = parse(
        "title = \"x\"\n[sweep]\n\"load.users\" = [1, 2]\n[sweep.hub.settings]\n\"engine.batch_commands_max\" = [10, 20, 30]",
    )
    .unwrap();
    assert_eq!(scenario.points().len(), 6);
    let last = scenario.points().last().unwrap();
    assert_eq!(last.label(), "batch_commands_max-30,users-2");
    assert_eq!(last.parameters["users"], Parameter::Number(2));
    assert_eq!(options(&scenario, 5).load, Load::Closed { users: 2 });
    assert_eq!(options(&scenario, 5).hub_arguments, ["--set=engine.batch_commands_max=30"]);
    assert_eq!(options(&scenario, 5).identity.parameters.len(), 2);
    let [plot] = scenario.plots() else { panic!("one plot") };
    assert_eq!((plot.x.as_str(), plot.series.as_deref()), ("users", Some("batch_commands_max")));
    assert_eq!(plot.title, "Throughput by number of virtual users");
    assert_eq!(last.name(), "batch commands max 30, 2 virtual users");

    let ablations = ScenarioFile::named("ablations").unwrap();
    let without_sync = &ablations.points()[1];
    assert_eq!(without_sync.label(), "ablation-fsync-off");
    assert_eq!(options(&ablations, 1).durable(), Some(false));
    assert_eq!(options(&ablations, 0).hub_arguments, Vec::<String>::new());
}

#[test]
fn claim_is_about_a_repeated_ablation() {
    let text = "title = \"x\"\nrepetitions = 5\n[[ablation]]\nname = \"a\"\n[[ablation]]\nname = \"b\"\n";
    let claim = "[[claim]]\ntext = \"cheap\"\nablation = \"b\"\nfigure = \"hub.cpu_us_per_operation\"\nat_most_percent = 2.5\n";
    let scenario = parse(&format!("{text}{claim}")).unwrap();
    assert!(scenario.is_against_first());
    assert_eq!(scenario.repetitions, 5);
    let expected = Claim {
        text: "cheap".to_owned(),
        point: 1,
        figure: crate::plan::metric::Metric::Cpu,
        at_most_percent: 2.5,
    };
    assert_eq!(scenario.claims(), [expected]);
    let sweep = |values: &str| parse(&format!("title = \"x\"\n[sweep]\nseed = {values}")).unwrap();
    assert!(sweep("[1, 2]").is_against_first() && !sweep("[1, 2, 3]").is_against_first());
    assert!(!parse("title = \"x\"").unwrap().is_against_first());
    for (wrong, expected) in [
        (claim.replace("\"b\"", "\"a\""), "\"a\" is not an [[ablation]] after the first"),
        (claim.replace("hub.cpu", "cpu"), "claim.figure: give one of throughput_per_s"),
        (claim.replace("at_most_percent = 2.5", ""), "at_most_percent is missing in [claim]"),
        ("[claim]\ntext = \"x\"".to_owned(), "write each claim as [[claim]]"),
    ] {
        let mistakes = parse(&format!("{text}{wrong}")).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.text.contains(expected)), "{expected}: {mistakes:#?}");
    }
    let mistakes = parse("title = \"x\"\nrepetitions = 51").unwrap_err();
    assert_eq!(mistakes[0].text, "repetitions: give a whole number from 1 to 50");
}

#[test]
fn parallel_loads_have_an_operation_and_a_rate() {
    let quotes = "[[parallel]]\noperation = \"quotes\"\nshape = \"poisson\"\nrate_per_s = 7\n";
    let lookups = "[[parallel]]\noperation = \"lookups\"\nshape = \"ramping-rate\"\nstart = 5\n\
                   stages = [{ to = 9, within = \"4s\" }]\n";
    let both = parse(&format!("title = \"x\"\n{quotes}{lookups}")).unwrap();
    let read = options(&both, 0);
    assert_eq!((read.scenario, read.duration.as_secs()), (Scenario::Parallel, 2));
    assert_eq!(read.load.to_string(), "quotes 7 Poisson arrivals/s + lookups 5 → 9 arrivals/s");
    let ladder = ScenarioFile::named("parallel-ladder").unwrap();
    assert_eq!(options(&ladder, 0).phases().len(), 3);
    for (text, line, expected) in [
        (format!("{quotes}{lookups}[load]\nusers = 5"), 11, "have no effect beside [[parallel]]"),
        (format!("test = \"breakpoint\"\n{quotes}{lookups}[targets]\nlost = 0"), 0, "needs a single load"),
        (quotes.replace("operation = \"quotes\"", ""), 2, "a load needs an operation"),
        (quotes.replace("poisson", "closed"), 2, "parallel.rate_per_s has no effect on shape \"closed\""),
        (quotes.replace("\"poisson\"\nrate_per_s = 7", "\"closed\""), 2, "parallel loads need a rate"),
        (quotes.to_owned(), 0, "loads in parallel are 2 to 8 open loops"),
        (format!("{quotes}{lookups}percent_of_breakpoint = 5"), 6, "has no effect on shape \"ramping-rate\""),
    ] {
        let mistakes = parse(&format!("title = \"x\"\n{text}")).unwrap_err();
        assert!(
            mistakes
                .iter()
                .any(|mistake| mistake.text.contains(expected) && (line == 0 || mistake.line == line)),
            "{expected}: {mistakes:#?}"
        );
    }
}

#[test]
fn published_pairs_are_thirteen_with_one_large_payer() {
    let scenario = ScenarioFile::named("payments-weighted").unwrap();
    let options = options(&scenario, 0);
    let PairChoice::Listed(pairs) = &options.pairs else { panic!("{:?}", options.pairs) };
    let mut paid = [0; 8];
    let mut before = 0;
    for pair in pairs.iter() {
        paid[pair.payer] += pair.until - before;
        before = pair.until;
    }
    assert_eq!((pairs.len(), paid), (13, [210, 30, 30, 30, 0, 0, 0, 0]), "70 %, and three times 10 %");
    assert!(options.load.is_open() && options.cool_down.as_secs() > 0);
    for (listed, expected) in [
        ("", "dfsps.listed and pairs"),
        ("listed = [{ from = 1, to = 1, weight = 1 }]", "two different DFSPs of 1 to 3"),
        ("listed = [{ from = 1, to = 4, weight = 1 }]", "two different DFSPs of 1 to 3"),
        ("listed = [{ from = 1, to = 2 }]", "a pair needs from, to"),
    ] {
        let text = format!("title = \"x\"\n[dfsps]\ncount = 3\npairs = \"listed\"\n{listed}");
        let mistakes = parse(&text).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.text.contains(expected)), "{expected}: {mistakes:#?}");
    }
}

#[test]
fn run_of_a_suite_is_profiled_if_it_can_be() {
    let suite = |scenario: &str, set: &str| {
        let text = format!("title = \"S\"\n[[run]]\nscenario = \"{scenario}\"\nprofile = true\n{set}");
        SuiteFile::parse("s.toml", &text, None)
    };
    let looked = suite("payments-8", "").unwrap();
    assert!(looked.runs[0].profile);
    assert_eq!(options(&looked.runs[0].scenario, 0).profile, Some(crate::plan::suite::PROFILE_LENGTH));
    for scenario in ["breakpoint", "published-ramp", "simulators-only", "journal-alone"] {
        let error = suite(scenario, "").unwrap_err().to_string();
        assert!(error.contains("s.toml:2: ") && error.contains("only a steady load"), "{scenario}: {error}");
    }
    for (name, _) in SUITES.iter().filter(|(name, _)| ["architect", "characterize"].contains(name)) {
        let suite = SuiteFile::named(name).unwrap();
        let looked =
            |scenario: &str| suite.runs.iter().any(|run| run.profile && run.scenario.name == scenario);
        assert!(looked("payments-8") && looked("transfers-8"), "{name}");
    }
}

#[test]
fn suite_within_is_time_limit() {
    let text = "title = \"S\"\n[[run]]\nscenario = \"payments-8\"\n";
    let suite = SuiteFile::parse("s.toml", text, None).unwrap();
    let hour = SuiteFile::parse("s.toml", &format!("within = \"1h\"\n{text}"), None).unwrap();
    assert_eq!((suite.within, hour.within.map(|within| within.as_secs())), (None, Some(3_600)));
}

#[test]
fn load_with_stages_lasts_as_long_as_its_stages() {
    let scenario = ScenarioFile::named("published-ramp").unwrap();
    let options = options(&scenario, 0);
    assert_eq!(options.load.to_string(), "5 → 600 → 1000 virtual users");
    assert_eq!((options.duration.as_secs(), options.slice_count()), (199, 1));
    assert_eq!(options.validate(), Ok(()));
}

#[test]
fn suite_changes_its_scenarios_and_names_mistakes() {
    let text = r#"
title = "S"
repetitions = 3
[[run]]
scenario = "transfers-8"
set = { "time.measured" = "1s", "load.users" = 5 }
[[run]]
scenario = "transfers-users"
question = "More users?"
set = { "sweep.load.users" = [1, 2] }
[[run]]
scenario = "transfers-8"
set = { "load.users" = 5 }
[[plot]]
title = "P"
x = "users"
"#;
    let suite = SuiteFile::parse("s.toml", text, None).unwrap();
    assert_eq!((suite.repetitions, suite.runs.len(), suite.plots.len()), (3, 3, 1));
    assert_eq!(suite.runs[1].scenario.points()[1].label(), "users-2");
    assert_eq!(options(&suite.runs[0].scenario, 0).load, Load::Closed { users: 5 });
    assert_eq!((&suite.runs[0].question, suite.runs[1].question.as_deref()), (&None, Some("More users?")));
    for (text, expected) in [
        ("title = \"x\"", "at least one [[run]]"),
        ("title = \"x\"\n[[run]]\nscenario = \"none\"", "s.toml:2: no scenario is named \"none\""),
        (
            "title = \"x\"\n[[run]]\nscenario = \"lookups-8\"\nset = { \"load.users\" = 0 }",
            "s.toml:2: in lookups-8: load.users: give",
        ),
        ("title = \"x\"\n[[run]]\nname = \"lookups\"", "\"name\" is unknown in [run]"),
    ] {
        let error = SuiteFile::parse("s.toml", text, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let missing = SuiteFile::named("/nonexistent/suite.toml").unwrap_err();
    assert!(matches!(missing, PlanError::Unreadable { .. }));
    assert!(matches!(SuiteFile::named("none"), Err(PlanError::Unknown { .. })));
}

#[test]
fn duration_needs_a_unit() {
    for (text, ms) in [("500ms", 500), ("20s", 20_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)] {
        assert_eq!(duration_of(text).unwrap().as_millis(), ms, "{text}");
    }
    for text in ["", "20", "s", "1.5s", "-1s", "20 s", "99999999999999999999s", "99999999999999999h"] {
        assert_eq!(duration_of(text), None, "{text}");
    }
}

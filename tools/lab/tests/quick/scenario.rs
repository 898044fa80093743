//! Transfers and payments against a small hub made for the test: onboarding, load, measuring, audit. Also with two load
//! generators at the same time, and with a hub of several services and processes.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Barrier;
use std::time::Duration;

use serde_json::Value;
use upesi_lab::{
    Baseline, LabError, LabResult, Load, PairChoice, ParallelLoad, Role, RunOptions, Scenario, Stage,
    TargetHub, merge,
};
use upesi_sim::DfspSettings;

use crate::toy::{Part, STALL, Toy, Vice, run};

#[test]
fn honest_hub_passes_with_a_complete_result() {
    let out = tempfile::tempdir().unwrap();
    let result = run(Vice::None, |options| {
        options.out = Some(out.path().to_owned());
        options.baselines = vec![Baseline::SimsOnly];
        options.behaviour = DfspSettings { abort_per_mille: 300, ..DfspSettings::default() };
    });
    assert_eq!(result.audit.findings, Vec::<String>::new());
    assert!(result.passed() && result.completed > 0 && result.lost == 0);
    assert!(result.failed > 0, "three in ten are aborted, seed 1");
    let json: Value =
        serde_json::from_slice(&std::fs::read(out.path().join("result.json")).unwrap()).unwrap();
    for pointer in [
        "/scenario",
        "/completed",
        "/failed",
        "/lost",
        "/throughput_per_s",
        "/latency_ms/p50",
        "/latency_ms/p95",
        "/latency_ms/p99",
        "/latency_ms/max",
        "/durable",
        "/baseline/name",
        "/baseline/throughput_per_s",
        "/ratio",
        "/audit/ok",
        "/seed",
        "/environment/cores",
        "/phases/transfer/latency_ms/p99",
        "/phases/transfer/exchanges/accepted",
        "/baseline/lab/cpu_us_per_operation",
        "/baseline/lab/cpu_us_per_transfer",
    ] {
        assert!(json.pointer(pointer).is_some_and(|value| !value.is_null()), "{pointer}");
    }
    assert_eq!(json["baseline"]["name"], "sims-only");
    assert_eq!((&json["scenario"], json["phases"].as_object().unwrap().len()), (&"transfers".into(), 1));
    let table = result.table();
    assert!(table.contains("audit                 holds") && table.contains("dfsp-3"), "{table}");
}

/// The toy hub rejects new accounts of the hub. It has such accounts in two currencies, and not in this one.
#[test]
fn rejected_onboarding_step_without_its_object_ends_the_run() {
    let toy = Toy::start(Vice::None);
    let currency = upesi_types::Currency::parse("KES").unwrap();
    let error = upesi_lab::run(&RunOptions { currency, ..toy.options() }).unwrap_err();
    let expected = "POST /participants/Hub/accounts: the response 400 is not from a hub's admin API: no";
    assert_eq!(error.to_string(), format!("the hub cannot be prepared: {expected}"));
    toy.end();
}

#[test]
fn open_loop_keeps_its_schedule_and_counts_every_arrival() {
    let result = run(Vice::None, |options| {
        options.load = Load::Open { rate_per_s: 200, outstanding_max: 200 };
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let schedule = result.schedule.unwrap();
    // 550 ms at 200/s. The lag depends on the machine.
    assert_eq!(result.originated.sent + schedule.skipped, 110);
}

/// An open loop continues to send while the hub does nothing, and each operation's latency counts from its due time. A
/// generator that waited for answers would have sent one request, and seen one slow answer.
#[test]
fn operations_due_during_a_stall_have_its_latency() {
    let (rate_per_s, half) = (100, STALL / 2);
    let mut measured_from = Duration::ZERO;
    let result = run(Vice::Stalls, |options| {
        options.load = Load::Open { rate_per_s, outstanding_max: 200 };
        options.duration = Duration::from_millis(800);
        measured_from = options.warm_up;
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let schedule = result.schedule.unwrap();
    assert_eq!((schedule.due, schedule.skipped), (80, 0), "all of 800 ms, the stall among them");
    // The stall begins with the first arrival or later, so operations due in its first half wait at least for its
    // second half.
    let due = u128::from(rate_per_s) * (half - measured_from).as_millis() / 1_000;
    let histogram = result.histogram.unwrap();
    let slow = histogram.buckets.iter().filter(|(us, _)| u128::from(*us) >= half.as_micros());
    let slow: u64 = slow.map(|(_, count)| count).sum();
    assert!(u128::from(slow) >= due, "{slow} of {due} waited: {:?}", histogram.buckets);
}

#[test]
fn repeated_prepare_is_one_transfer() {
    let twice = |options: &mut RunOptions| {
        options.behaviour = DfspSettings { repeat_prepare_per_mille: 1000, ..DfspSettings::default() };
    };
    let result = run(Vice::None, twice);
    assert!(result.passed(), "{:?}", result.audit.findings);
    let counters = result.simulators;
    assert!(counters.prepares_sent_twice > 0 && counters.prepares_repeated == 0, "{counters:?}");
    assert_eq!(result.originated.sent, counters.prepares_received, "none is counted twice");
    let result = run(Vice::TakesRepeat, twice);
    let findings = &result.audit.findings;
    assert!(findings.iter().any(|finding| finding.contains("the hub's position changed")), "{findings:?}");
}

#[test]
fn faulty_hub_fails_the_audit() {
    for (vice, text) in [
        (Vice::ForgetsCredit, "the hub's position changed"),
        (Vice::PaysTwice, "money of 1 transfers was counted twice"),
        (Vice::LosesCallback, "have no outcome"),
        (Vice::ChangesItsMind, "contradict an outcome"),
    ] {
        let result = run(vice, |_| ());
        assert!(!result.passed(), "{vice:?}");
        assert_eq!(result.audit.doubled, u64::from(vice == Vice::PaysTwice), "{vice:?}");
        let findings = &result.audit.findings;
        assert!(findings.iter().any(|finding| finding.contains(text)), "{vice:?}: {findings:?}");
        assert!(result.table().contains("FAILED"));
    }
}

#[test]
fn varying_load_is_measured_and_audited() {
    let stage = |level, ms| Stage { level, length: Duration::from_millis(ms) };
    let stages = vec![stage(8, 600), stage(8, 600), stage(0, 300)];
    let loads = [
        Load::RampingUsers { start: 1, stages: stages.clone() },
        Load::Arrivals {
            start_per_s: 50,
            stages: vec![stage(400, 1_000)],
            poisson: false,
            outstanding_max: 300,
        },
        Load::Arrivals { start_per_s: 200, stages: Vec::new(), poisson: true, outstanding_max: 300 },
    ];
    for load in loads {
        let result = run(Vice::None, |options| {
            options.load = load.clone();
            options.duration = Duration::from_millis(1_400);
            options.cool_down = Duration::from_millis(50);
        });
        assert!(result.passed() && result.completed > 0, "{load}: {:?}", result.audit.findings);
        let timeline = result.timeline.unwrap();
        assert!(!timeline.rows.is_empty(), "{load}: there was a whole second");
        assert!(timeline.rows[0].offered >= timeline.rows[0].completed, "{load}");
        let histogram = result.histogram.unwrap();
        let counted: u64 = histogram.buckets.iter().map(|(_, count)| count).sum();
        // Operations that began in the window and ended after it have a latency, but are not in the throughput.
        assert!(counted > 0 && counted.abs_diff(result.completed) <= 300, "{load}");
        assert_eq!(result.window.trimmed_end_s, 0.05);
    }
}

/// Lookups, quotes and transfers at the same time, each at its own rate.
fn three_at_once(options: &mut RunOptions) {
    let part = |operation, rate_per_s| ParallelLoad {
        operation,
        load: Load::Open { rate_per_s, outstanding_max: 200 },
    };
    let loads = vec![part(Scenario::Lookups, 100), part(Scenario::Quotes, 60), part(Scenario::Transfers, 40)];
    (options.scenario, options.load) = (Scenario::Parallel, Load::Parallel { loads });
}

#[test]
fn parallel_loads_keep_their_schedules_and_are_audited_together() {
    let out = tempfile::tempdir().unwrap();
    let result = run(Vice::None, |options| {
        three_at_once(options);
        options.out = Some(out.path().to_owned());
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let skipped = result.schedule.unwrap().skipped;
    // 550 ms at 100, 60 and 40 per second.
    assert_eq!(result.originated.sent + skipped, 55 + 33 + 22);
    assert_eq!(result.completed, result.loads.iter().map(|load| load.completed).sum::<u64>());
    let json: Value =
        serde_json::from_slice(&std::fs::read(out.path().join("result.json")).unwrap()).unwrap();
    assert_eq!((&json["scenario"], &json["unit"]), (&"parallel".into(), &"operation".into()));
    for (place, (operation, phase)) in
        [("lookups", "discovery"), ("quotes", "agreement"), ("transfers", "transfer")].into_iter().enumerate()
    {
        let load = &json["loads"][place];
        assert_eq!(load["operation"], operation);
        assert!(load["completed"].as_u64() > Some(0) && load["schedule"]["due"].as_u64() > Some(0), "{load}");
        assert_eq!(load["phases"].as_object().map(serde_json::Map::len), Some(1));
        assert_eq!(load["phases"][phase], json["phases"][phase], "no other load has this phase");
    }
    assert_eq!(result.audit.accepted, json["phases"]["transfer"]["exchanges"]["accepted"].as_u64().unwrap());
    assert_eq!(result.audit.answers.len(), 2);
    let table = result.table();
    assert!(table.contains("  lookups  ") && table.contains("audit                 holds"), "{table}");

    for (vice, text) in
        [(Vice::LosesAnswer, "never answered"), (Vice::ForgetsCredit, "the hub's position changed")]
    {
        // The toy hub misbehaves once. Lookups would meet it before the load.
        let result = run(vice, |options| {
            three_at_once(options);
            let Load::Parallel { loads } = &mut options.load else { return };
            loads.remove(0);
        });
        let findings = &result.audit.findings;
        assert!(findings.iter().any(|finding| finding.contains(text)), "{vice:?}: {findings:?}");
    }
}

#[test]
fn hub_without_metrics_is_measured_and_audited() {
    let out = tempfile::tempdir().unwrap();
    let result = run(Vice::None, |options| {
        options.out = Some(out.path().to_owned());
        options.profile = Some(Duration::from_millis(100));
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    assert!(out.path().join("result.json").is_file() && !out.path().join("shares.json").exists());
}

#[test]
fn same_seed_has_the_same_number_of_arrivals() {
    let sent = |seed| {
        let result = run(Vice::None, |options| {
            let stages = Vec::new();
            options.load = Load::Arrivals { start_per_s: 300, stages, poisson: true, outstanding_max: 1_000 };
            options.seed = seed;
        });
        result.originated.sent + result.schedule.unwrap().skipped
    };
    assert_eq!(sent(4), sent(4));
}

#[test]
fn generator_among_several_audits_only_its_own_dfsps() {
    let result = run(Vice::None, |options| {
        options.role = Role::Load;
        options.dfsp_prefix = "west".to_owned();
        options.pairs = PairChoice::weighted([5, 1, 1]);
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let names: Vec<&str> = result.audit.positions.iter().map(|check| check.participant.as_str()).collect();
    assert_eq!(names, ["west-1", "west-2", "west-3"]);
}

/// Runs one generator for each instance in parallel. Each writes its result to its own directory.
fn beside_each_other(
    scenario: Scenario,
    out: &Path,
    instances: [Option<u32>; 2],
) -> [Result<LabResult, String>; 2] {
    let toy = Toy::start(Vice::None);
    let begin = Barrier::new(instances.len());
    let results = std::thread::scope(|scope| {
        let running = [0, 1].map(|place| {
            let (toy, begin) = (&toy, &begin);
            scope.spawn(move || {
                let options = RunOptions {
                    scenario,
                    role: Role::Load,
                    instance: instances[place],
                    dfsp_prefix: ["west", "east"][place].to_owned(),
                    out: Some(out.join(["west", "east"][place])),
                    callback_timeout: Duration::from_secs(5),
                    ..toy.options()
                };
                begin.wait();
                upesi_lab::run(&options).map_err(|error| error.to_string())
            })
        });
        running.map(|thread| thread.join().unwrap())
    });
    toy.end();
    results
}

#[test]
fn results_of_several_generators_add_up() {
    for scenario in crate::toy::operations() {
        let out = tempfile::tempdir().unwrap();
        let results = beside_each_other(scenario, out.path(), [Some(1), Some(2)]);
        let [west, east] = results.map(|result| result.unwrap());
        for result in [&west, &east] {
            assert!(result.passed(), "{}: {:?}", scenario.name(), result.audit.findings);
            assert!(result.completed > 0 && result.failed == 0 && result.lost == 0, "{}", scenario.name());
        }
        let merged = merge(&[out.path().join("west"), out.path().join("east")]).unwrap();
        assert_eq!(merged["completed"], west.completed + east.completed);
        assert_eq!(merged["merged_from"], 2);
        assert_eq!(merged["audit"]["ok"], true);
        let findings = merged["validity"]["findings"].to_string();
        assert!(!findings.contains("more than one of the results"), "{findings}");
        let names: Vec<_> = merged["audit"]["positions"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 6, "the positions of both: {names:?}");
    }
}

#[test]
fn duplicate_instance_is_reported() {
    let out = tempfile::tempdir().unwrap();
    // Both claim the same parties. The second one finds them at the first one's DFSPs, and reports this before any
    // load.
    let results = beside_each_other(Scenario::Lookups, out.path(), [Some(3), Some(3)]);
    let refused = results.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(refused.iter().any(|error| error.contains("is it registered?")), "{refused:?}");
}

const PARTS: [Part; 4] = [Part::Lookups, Part::Quotes, Part::Transfers, Part::Admin];

/// A process that a test started, which ends with this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of payments against a hub in parts.
fn run_in_parts(change: impl FnOnce(&Toy, &mut TargetHub)) -> Result<LabResult, LabError> {
    let toy = Toy::start_parts(Vice::None, &PARTS);
    let mut target = TargetHub {
        quotes_url: Some(toy.url(Part::Quotes)),
        transfers_url: Some(toy.url(Part::Transfers)),
        ..TargetHub::at(toy.url(Part::Lookups), toy.url(Part::Admin))
    };
    change(&toy, &mut target);
    let options =
        RunOptions { scenario: Scenario::Payments, target: Some(target), parties: 20, ..toy.options() };
    let result = upesi_lab::run(&options);
    toy.end();
    result
}

#[test]
fn services_and_processes_of_a_hub_are_measured() {
    let other = Ended(Command::new("sleep").arg("600").spawn().unwrap());
    let pids = [std::process::id(), other.0.id()];
    let result = run_in_parts(|toy, target| {
        // Base URLs, or the URL of the text itself.
        target.metrics_urls = [Part::Lookups, Part::Quotes].map(|part| toy.url(part)).into();
        target.metrics_urls.push(toy.url(Part::Transfers) + "/metrics");
        target.pids = pids.to_vec();
    })
    .unwrap();
    // A service rejects requests that are not its own.
    assert!(result.passed() && result.completed > 0 && result.failed == 0, "{:?}", result.audit.findings);
    for name in ["lookup", "lookup_answer", "quote", "quote_answer", "prepare", "fulfil"] {
        let stage = result.stages.iter().find(|stage| stage.stage == name);
        assert!(stage.is_some_and(|stage| stage.operations > 0), "{name}: {:?}", result.stages);
    }
    let names: Vec<&str> = result.processes.iter().map(|row| row.name.as_str()).collect();
    let sleeping = format!("hub, sleep {}", pids[1]);
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names[0] == "hub" && names[1].ends_with(&format!(" {}", pids[0])), "{names:?}");
    assert_eq!(names[2..], [sleeping.as_str(), "lab"]);
    let resident = |index: usize| result.processes[index].rss_mb;
    assert!(resident(0) > resident(1) && resident(2) > Some(0.0), "{:?}", result.processes);
    let reached = result.environment.hub.as_ref().unwrap();
    assert_eq!((reached.metrics.len(), reached.pids.as_slice()), (3, &pids[..]));
    assert!(reached.lookups != reached.quotes && reached.quotes != reached.transfers);
}

#[test]
fn missing_metrics_or_process_ends_the_run() {
    let error = run_in_parts(|toy, target| target.metrics_urls = vec![toy.url(Part::Admin)]).unwrap_err();
    assert!(matches!(error, LabError::Metrics(_)), "{error}");
    assert!(error.to_string().ends_with("it answers 404"), "{error}");
    let error =
        run_in_parts(|toy, target| target.metrics_urls = vec![toy.url(Part::Admin) + "/participants"]);
    assert!(error.unwrap_err().to_string().contains("not a metrics text"));
    let error = run_in_parts(|_, target| target.pids = vec![u32::MAX]).unwrap_err();
    assert!(matches!(error, LabError::Process(_)), "{error}");
}

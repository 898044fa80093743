//! Lookups, quotes and payments against a small hub made for the test.

use crate::toy::{Toy, Vice, run};
use upesi_lab::{Baseline, LabError, LabResult, Load, RunOptions, Scenario};
use upesi_sim::{DfspSettings, Phase};

fn run_scenario(scenario: Scenario, vice: Vice, change: impl FnOnce(&mut RunOptions)) -> LabResult {
    run(vice, |options| {
        options.scenario = scenario;
        change(options);
    })
}

#[test]
fn honest_hub_passes_every_scenario_with_its_phases() {
    for scenario in crate::toy::operations() {
        let out = tempfile::tempdir().unwrap();
        let result = run_scenario(scenario, Vice::None, |options| {
            options.out = Some(out.path().to_owned());
            options.baselines = vec![Baseline::SimsOnly];
        });
        assert!(result.passed(), "{}: {:?}", scenario.name(), result.audit.findings);
        assert!(result.completed > 0 && result.failed == 0 && result.lost == 0);
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.path().join("result.json")).unwrap()).unwrap();
        assert_eq!(json["scenario"], scenario.name());
        for phase in Phase::ALL {
            let has_it = scenario.phases().contains(&phase);
            for phases in [result.phases, result.baseline.as_ref().unwrap().phases] {
                let phase = phases.get(phase);
                assert_eq!(phase.is_some(), has_it);
                assert!(phase.is_none_or(|phase| phase.exchanges.completed > 0));
            }
            assert_eq!(json["phases"].get(upesi_lab::phase_name(phase)).is_some(), has_it);
        }
        let lab = &json["lab"];
        assert!(lab["cpu_us_per_operation"].is_number());
        assert_eq!(lab["cpu_us_per_transfer"].is_number(), scenario.moves_money());
        let answered = result.audit.answers.iter().map(|check| check.right).sum::<u64>();
        let counters = result.simulators;
        let registrations = if scenario.looks_up() { 3 + 2 * 3 } else { 0 };
        assert_eq!(counters.answers_received, answered + registrations, "{}", scenario.name());
        let table = result.table();
        assert!(table.contains("audit                 holds"), "{table}");
        assert_eq!(table.contains("  discovery"), scenario.looks_up(), "{table}");
    }
}

#[test]
fn faulty_hub_fails_the_audit_of_answers() {
    for (vice, text) in [
        (Vice::LosesAnswer, "never answered"),
        (Vice::RepeatsAnswer, "repeat an earlier answer to their query"),
        (Vice::ForgesAnswer, "wrong"),
        (Vice::RefusesLate, "no DFSP sent"),
    ] {
        // The toy hub misbehaves once. With lookups, it would do so before the load.
        let result = run_scenario(Scenario::Quotes, vice, |_| ());
        let findings = &result.audit.findings;
        assert!(findings.len() == 1 && findings[0].contains(text), "{vice:?}: {findings:?}");
        assert!(!result.passed() && result.table().contains("FAILED"));
        let (lost, doubled) = (u64::from(vice == Vice::LosesAnswer), u64::from(vice == Vice::RepeatsAnswer));
        assert_eq!((result.lost, result.audit.doubled), (lost, doubled), "{vice:?}");
    }
}

#[test]
fn transfers_of_payments_are_audited() {
    for (vice, text) in [
        (Vice::ForgetsCredit, "the hub's position changed"),
        (Vice::LosesCallback, "have no outcome"),
        (Vice::ChangesItsMind, "contradict an outcome"),
    ] {
        let result = run_scenario(Scenario::Payments, vice, |_| ());
        let findings = &result.audit.findings;
        assert!(findings.iter().any(|finding| finding.contains(text)), "{vice:?}: {findings:?}");
    }
}

#[test]
fn faults_of_dfsps_do_not_fail_the_audit() {
    // One fault at a time: lookups have no id, so a repeated error may be taken for the answer to another lookup.
    let faulty = |settings: DfspSettings| {
        let result = run_scenario(Scenario::Payments, Vice::None, |options| options.behaviour = settings);
        assert_eq!(result.audit.findings, Vec::<String>::new(), "{settings:?}");
        result
    };
    let result = faulty(DfspSettings { abort_per_mille: 200, ..DfspSettings::default() });
    assert!(result.failed > 0 && result.phases.agreement.unwrap().exchanges.errors > 0);
    let result = faulty(DfspSettings { duplicate_per_mille: 200, ..DfspSettings::default() });
    assert!(result.simulators.answers_unasked > 0);
}

#[test]
fn payments_keep_the_schedule_of_an_open_loop() {
    let result = run_scenario(Scenario::Payments, Vice::None, |options| {
        options.load = Load::Open { rate_per_s: 100, outstanding_max: 100 };
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    // 550 ms at 100/s. The lag depends on the machine.
    assert_eq!(result.originated.sent + result.schedule.unwrap().skipped, 55);
}

#[test]
fn unregistered_party_is_found_before_the_load() {
    let toy = Toy::start(Vice::None);
    let lookups = || RunOptions { scenario: Scenario::Lookups, ..toy.options() };
    // The second run registers them again, which this hub rejects, and the third one relies on it.
    for register in [true, true, false] {
        let result = upesi_lab::run(&RunOptions { register, ..lookups() }).unwrap();
        assert!(result.passed(), "{:?}", result.audit.findings);
    }
    toy.end();
    let toy = Toy::start(Vice::ForgetsParties);
    let error = upesi_lab::run(&RunOptions { scenario: Scenario::Lookups, ..toy.options() }).unwrap_err();
    assert!(matches!(error, LabError::Onboard(_)), "{error}");
    assert!(error.to_string().contains("MSISDN/260000000000000 of dfsp-1"), "{error}");
    toy.end();
}

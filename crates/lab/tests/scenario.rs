//! Transfers against a small hub made for the test: onboarding, load, measuring, audit.

mod toy;

use serde_json::Value;
use toy::{Vice, run};
use upesi_lab::{Baseline, Load};
use upesi_sim::DfspSettings;

#[test]
fn an_honest_hub_passes_and_its_result_has_what_programs_read() {
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

#[test]
fn open_loop_keeps_its_schedule_and_counts_every_arrival() {
    let result = run(Vice::None, |options| {
        options.load = Load::Open { rate_per_s: 200, outstanding_max: 200 };
    });
    assert!(result.passed(), "{:?}", result.audit.findings);
    let schedule = result.schedule.unwrap();
    // 550 ms at 200/s; how late they were depends on the machine.
    assert_eq!(result.originated.sent + schedule.skipped, 110);
}

#[test]
fn a_bad_hub_fails_the_audit() {
    for (vice, text) in [
        (Vice::ForgetsCredit, "the hub's position changed"),
        (Vice::LosesCallback, "have no outcome"),
        (Vice::ChangesItsMind, "contradict an outcome"),
    ] {
        let result = run(vice, |_| ());
        assert!(!result.passed(), "{vice:?}");
        let findings = &result.audit.findings;
        assert!(findings.iter().any(|finding| finding.contains(text)), "{vice:?}: {findings:?}");
        assert!(result.table().contains("FAILED"));
    }
}

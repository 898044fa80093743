#![allow(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::io::Cursor;
use std::time::Duration;

use crate::Load;
use crate::result::schema::{HistogramResult, TimelineResult, TimelineRow};
use crate::result::statistics::latency_histogram;
use clap::Parser;
use serde_json::Value;

use super::OverloadArguments;
use super::fairness::{FairnessReport, loads, usual_per_s};
use super::figures::{Refusals, Times};
use super::objectives::{Conditions, OverloadReport};
use super::prober::{Probe, read_answer};
use super::report::RunReport;
use crate::result::evidence::Provenance;

const TIMES: Times = Times { warm_up: Duration::from_secs(5), phase: Duration::from_secs(10) };
/// When the load falls.
const FELL_S: u32 = 35;

/// What a second, or a step, of a phase was like, by its number.
struct Conduct {
    overload: fn() -> (u64, f64),
    /// By tenths of seconds after the load fell.
    after: fn(u32) -> (u64, f64),
    rss_mb: fn(u32) -> f64,
}

const GOOD: Conduct = Conduct { overload: || (950, 6.0), after: |_| (800, 4.0), rss_mb: |_| 100.0 };

/// A row or a step that ends at `t`, of which a second has ten times as many.
fn row(t: f64, part: u64, conduct: &Conduct) -> TimelineRow {
    let (offered, (completed, p99_ms)) = if t <= 5.0 {
        (1_000, (1_000, 5.0))
    } else if t <= 15.001 {
        (800, (800, 4.0))
    } else if t <= 25.001 {
        (1_000, (1_000, 5.0))
    } else if t <= 35.001 {
        (10_000, (conduct.overload)())
    } else {
        (800, (conduct.after)(((t - f64::from(FELL_S)) * 10.0).round() as u32))
    };
    TimelineRow {
        t,
        completed: completed / part,
        failed: (offered - completed) / part,
        offered: offered / part,
        p50_ms: Some(p99_ms),
        p99_ms: (completed > 0).then_some(p99_ms),
        max_ms: Some(p99_ms),
        hub_cpu_cores: Some(0.5),
        hub_rss_mb: Some((conduct.rss_mb)(t as u32)),
        ..TimelineRow::default()
    }
}

/// The latencies of a second in which all took so long.
fn histogram(row: &TimelineRow) -> String {
    let mut histogram = latency_histogram();
    histogram.saturating_record_n((row.p50_ms.unwrap_or(0.0) * 1e3) as u64, row.completed);
    HistogramResult::of(&histogram).v2_deflate_base64
}

const REFUSALS: Refusals = Refusals { count: 90_000, p50_ms: 0.3, p99_ms: 4.0, max_ms: 30.0 };

fn run(conduct: &Conduct) -> RunReport {
    let rows: Vec<_> = (1..=45).map(|t| row(f64::from(t), 1, conduct)).collect();
    let timeline = TimelineResult {
        interval_s: 1,
        histograms: rows.iter().map(histogram).collect(),
        rows,
        steps: (1..=450).map(|t| row(f64::from(t) / 10.0, 10, conduct)).collect(),
    };
    let probe = |ms| Probe { status: 503, duration: Duration::from_millis(ms) };
    let probes: Vec<_> = (0..100).map(|index| probe(if index == 0 { 50 } else { 2 })).collect();
    RunReport { refusals: REFUSALS, audit_ok: true, ..RunReport::of_timeline(&timeline, &probes, TIMES) }
}

fn judged(runs: Vec<RunReport>) -> OverloadReport<RunReport> {
    OverloadReport::of(runs, Conditions::default(), Provenance::default())
}

fn report(conduct: &Conduct) -> OverloadReport<RunReport> {
    judged(vec![run(conduct)])
}

fn is(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-6
}

#[test]
fn a_hub_that_holds_reaches_every_goal() {
    let report = report(&GOOD);
    assert_eq!(report.missed(), Vec::<String>::new());
    let run = &report.runs[0];
    assert!(is(run.goodput, 0.95) && is(run.p99_factor, 1.5), "{run:?}");
    assert!((run.p99_whole_factor - 1.5).abs() < 0.05, "{run:?}");
    assert!(run.recovery_s.is_some_and(|s| is(s, 0.1)), "one step: {:?}", run.recovery_s);
    assert_eq!(run.probes.count, 100);
    assert!(is(run.probes.p99_ms, 2.0) && is(run.probes.max_ms, 50.0));
    // Two of the ten seconds of each phase are told apart, and the step is not lost.
    assert!(run.phases.iter().all(|phase| (phase.step.seconds, phase.figures.seconds) == (2, 8)), "{run:?}");
    assert!(is(run.phases[2].step.completed_per_s, 950.0));
    assert_eq!(report.offered, 100_000);
    assert!(is(run.usual.p99_ms_max, 4.4) && is(run.usual.completed_per_s_min, 720.0), "{:?}", run.usual);
    let table = report.table();
    assert!(table.contains("goodput under overload     95.00") && !table.contains("missed"), "{table}");
}

#[test]
fn one_that_does_not_is_told_so() {
    let after = |tenth| match tenth {
        // It takes everything again at once, late; and settles only in the end.
        0..=30 => (800, 90.0),
        40 => (800, 90.0),
        _ => (800, 4.0),
    };
    let rss_mb = |t| if t > 25 { 120.0 } else { 100.0 };
    let report = report(&Conduct { overload: || (100, 900.0), after, rss_mb });
    let missed = report.missed();
    let begins = [
        "goodput under overload is 10.00",
        "p99 of what",
        "p99 of all",
        "growth of memory is 20.00",
        "recovery is 3.10",
    ];
    assert_eq!(missed.len(), begins.len(), "{missed:?}");
    for (missed, begin) in missed.iter().zip(begins) {
        assert!(missed.starts_with(begin), "{missed}");
    }
    assert!(report.table().contains("100 ms after:    800 committed/s,      0 otherwise, p99 90.00 ms"));
}

#[test]
fn memory_that_the_peak_takes_is_no_growth() {
    let rss_mb = |t: u32| f64::from(t.min(20)) * 10.0;
    let run = run(&Conduct { rss_mb, ..GOOD });
    assert!(is(run.rss_warm_mb, 200.0) && is(run.rss_growth, 0.0), "{run:?}");
}

#[test]
fn one_good_step_is_no_recovery() {
    let flickering = run(&Conduct { after: |tenth| (800, if tenth % 3 == 0 { 9.0 } else { 4.0 }), ..GOOD });
    assert_eq!(flickering.recovery_s, None);
    let silent = run(&Conduct { after: |tenth| (if tenth > 5 { 800 } else { 0 }, 4.0), ..GOOD });
    assert!(silent.recovery_s.is_some_and(|s| is(s, 0.6)), "{:?}", silent.recovery_s);
}

#[test]
fn medians_of_runs_count() {
    let slow = Conduct { overload: || (800, 30.0), ..GOOD };
    let report = judged(vec![run(&GOOD), run(&slow), run(&GOOD)]);
    assert_eq!(report.missed(), Vec::<String>::new());
    let goodput = &report.aims[0];
    assert!(is(goodput.median, 95.0) && is(goodput.lowest, 80.0) && is(goodput.highest, 95.0), "{goodput:?}");
    let report = judged(vec![run(&slow), run(&slow), run(&GOOD)]);
    assert_eq!(report.missed().len(), 3, "{:?}", report.missed());
    let mut late = run(&GOOD);
    late.findings.push("the load generator did not keep its schedule".to_owned());
    let report = judged(vec![run(&GOOD), late]);
    assert_eq!(report.missed(), ["run 2: the load generator did not keep its schedule"]);
}

#[test]
fn answers_are_read_to_their_end() {
    for (bytes, status) in [
        (&b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"[..], Some(202)),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", Some(503)),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\n{}", None),
        (b"HTTP/1.1 5", None),
        (b"", None),
    ] {
        assert_eq!(read_answer(&mut Cursor::new(bytes)).ok(), status);
    }
}

#[test]
fn without_a_refusal_nothing_was_shown() {
    let quiet = RunReport { refusals: Refusals::default(), ..run(&GOOD) };
    let missed = judged(vec![quiet]).missed();
    assert_eq!(missed, ["p99 of refusals is inf ms, not ≤ 10"]);
}

#[test]
fn the_evidence_says_where_and_how_and_leaves_the_steps_out() {
    let mut report = report(&GOOD);
    report.provenance.command = "upesi lab overload --peak 600".to_owned();
    report.provenance.build = "release".to_owned();
    report.conditions = Conditions { seed: 7, connections: 256, dfsps: 8, ..Conditions::default() };
    assert!(!report.runs[0].recovery_steps.is_empty());
    let entry = report.evidence().unwrap();
    for name in ["commit", "machine", "build", "date", "duration_s", "hub_arguments", "phase_s", "step_s"] {
        assert!(entry.get(name).is_some(), "{name}: {entry}");
    }
    assert_eq!((&entry["seed"], &entry["connections"]), (&Value::from(7), &Value::from(256)));
    assert_eq!(entry["command"], "upesi lab overload --peak 600");
    assert_eq!(entry["flooders"], Value::Null, "all alike");
    assert!(entry["runs"][0].get("recovery_steps").is_none(), "{entry}");
    assert_eq!(entry["runs"][0]["phases"][0]["step"]["seconds"], 2);
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: OverloadArguments,
}

fn arguments(line: &str) -> OverloadArguments {
    Line::parse_from(["overload", "--out", "out"].into_iter().chain(line.split_whitespace())).arguments
}

#[test]
fn who_floods_leaves_their_share_to_the_others() {
    let one = arguments("--peak 600 --flood-from 1 --phase 20");
    assert_eq!(usual_per_s(&one, 1), (420, 60));
    let [others, flood] = loads(&one, 1);
    assert!(matches!(others, Load::Open { rate_per_s: 420, .. }), "{others:?}");
    // Warm-up, its share, ten times the peak, its share again.
    let levels: Vec<u32> = flood.stages().iter().map(|stage| stage.level).collect();
    assert_eq!(levels, [60, 60, 60, 6_000, 6_000, 60, 60]);
    assert_eq!(flood.stages_length(), Some(Duration::from_secs(10 + 3 * 20)));
    for (line, is_valid) in [
        ("", true),
        ("--flood-from 1", true),
        ("--flood-from 6", true),
        ("--flood-from 7", false),
        ("--flood-from 0", false),
        ("--flood-from 1 --dfsps 3", true),
        ("--flood-from 1 --dfsps 2", false),
    ] {
        assert_eq!(arguments(line).validate().is_ok(), is_valid, "{line}");
    }
}

/// Of the others: what they get and how late, by the phase that a second is in.
fn fairness(apart_s: f64, flooded: (u64, f64)) -> FairnessReport {
    let rows = |offered: fn(bool) -> u64, got: &dyn Fn(bool) -> (u64, f64), apart_s: f64| {
        let row = |t: u32| {
            let since = f64::from(t) - apart_s;
            let is_flood = since > 15.0 && since <= 25.0;
            let (completed, p99_ms) = got(is_flood);
            let failed = offered(is_flood) - completed;
            let (t, p99_ms) = (f64::from(t), Some(p99_ms));
            TimelineRow {
                t,
                completed,
                failed,
                offered: completed + failed,
                p50_ms: p99_ms,
                p99_ms,
                ..TimelineRow::default()
            }
        };
        let rows: Vec<_> = (1..=50).map(row).collect();
        TimelineResult { histograms: rows.iter().map(histogram).collect(), rows, ..TimelineResult::default() }
    };
    let others = rows(|_| 420, &|is_flood| if is_flood { flooded } else { (420, 4.0) }, apart_s);
    let flooders = rows(
        |is_flood| if is_flood { 6_000 } else { 60 },
        &|is_flood| if is_flood { (180, 50.0) } else { (60, 4.0) },
        0.0,
    );
    let report = FairnessReport::of_timelines(&others, &flooders, apart_s, TIMES);
    FairnessReport { refusals: REFUSALS, audit_ok: true, ..report }
}

fn missed_of(report: FairnessReport) -> Vec<String> {
    OverloadReport::of(vec![report], Conditions::default(), Provenance::default()).missed()
}

#[test]
fn the_others_are_looked_at_while_one_floods_whenever_its_load_began() {
    for apart_s in [0.0, 3.0] {
        let report = fairness(apart_s, (418, 6.0));
        assert!(is(report.goodput_before, 1.0) && is(report.goodput, 418.0 / 420.0), "{report:?}");
        assert!(is(report.p99_factor, 1.5), "{report:?}");
        let flood = &report.flooders[1];
        assert!(is(flood.figures.failed_per_s, 5_820.0) && is(flood.figures.completed_per_s, 180.0));
        assert_eq!(missed_of(report), Vec::<String>::new());
    }
}

#[test]
fn others_who_starve_or_wait_are_told() {
    let starved = missed_of(fairness(0.0, (210, 4.0)));
    assert_eq!(starved, ["goodput of the others is 50.00 % of what they ask for, not ≥ 95"]);
    let slow = missed_of(fairness(0.0, (420, 12.0)));
    assert_eq!(slow.len(), 2, "{slow:?}");
    assert!(slow[0].starts_with("p99 of the others is 3.00 times"), "{slow:?}");
}

#![allow(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::io::Cursor;
use std::time::Duration;

use upesi_lab::measured::{TimelineResult, TimelineRow};

use super::aims::OverloadReport;
use super::prober::{Probe, read_answer};
use super::report::{RunReport, Times};

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

fn run(conduct: &Conduct) -> RunReport {
    let timeline = TimelineResult {
        interval_s: 1,
        rows: (1..=45).map(|t| row(f64::from(t), 1, conduct)).collect(),
        steps: (1..=450).map(|t| row(f64::from(t) / 10.0, 10, conduct)).collect(),
        ..TimelineResult::default()
    };
    let probe = |ms| Probe { status: 503, duration: Duration::from_millis(ms) };
    let probes: Vec<_> = (0..100).map(|index| probe(if index == 0 { 50 } else { 2 })).collect();
    RunReport::of_timeline(&timeline, &probes, TIMES)
}

fn report(conduct: &Conduct) -> OverloadReport {
    OverloadReport::of(vec![run(conduct)], 1_000, 10)
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
    assert!(run.recovery_s.is_some_and(|s| is(s, 0.1)), "one step: {:?}", run.recovery_s);
    assert_eq!(run.refusals, 100);
    assert!(is(run.refusal_p99_ms, 2.0) && is(run.refusal_max_ms, 50.0));
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
    let begins =
        ["goodput under overload is 10.00", "p99 of what", "growth of memory is 20.00", "recovery is 3.10"];
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
    let report = OverloadReport::of(vec![run(&GOOD), run(&slow), run(&GOOD)], 1_000, 10);
    assert_eq!(report.missed(), Vec::<String>::new());
    let goodput = &report.aims[0];
    assert!(is(goodput.median, 95.0) && is(goodput.lowest, 80.0) && is(goodput.highest, 95.0), "{goodput:?}");
    let report = OverloadReport::of(vec![run(&slow), run(&slow), run(&GOOD)], 1_000, 10);
    assert_eq!(report.missed().len(), 2, "{:?}", report.missed());
    let mut late = run(&GOOD);
    late.findings.push("the load generator did not keep its schedule".to_owned());
    let report = OverloadReport::of(vec![run(&GOOD), late], 1_000, 10);
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

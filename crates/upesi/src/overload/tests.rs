use std::io::Cursor;
use std::time::Duration;

use upesi_lab::measured::TimelineRow;

use super::prober::{Probe, read_answer};
use super::report::OverloadReport;

fn row(t: u32, offered: u64, completed: u64, p99_ms: f64) -> TimelineRow {
    TimelineRow {
        t: f64::from(t),
        completed,
        failed: offered - completed,
        offered,
        p50_ms: Some(p99_ms),
        p99_ms: Some(p99_ms),
        max_ms: Some(p99_ms),
        hub_cpu_cores: Some(0.5),
        hub_rss_mb: Some(100.0),
        hub_disk_mb: None,
    }
}

/// Three seconds to warm up, three phases of ten.
fn report(flood: impl Fn(u32) -> TimelineRow, after: impl Fn(u32) -> TimelineRow) -> OverloadReport {
    let normal = |t| row(t, 800, 800, 4.0);
    let rows: Vec<_> = (1..=13).map(normal).chain((14..=23).map(flood)).chain((24..=33).map(after)).collect();
    let probe = |ms| Probe { status: 503, duration: Duration::from_millis(ms) };
    let probes: Vec<_> = (0..100).map(|index| probe(if index == 0 { 50 } else { 2 })).collect();
    let (phase, warm_up) = (Duration::from_secs(10), Duration::from_secs(3));
    let report = OverloadReport::of_rows(&rows, &probes, 1_000, phase, warm_up);
    OverloadReport { generator_kept_up: true, audit_ok: true, ..report }
}

#[test]
fn a_hub_that_holds_reaches_every_goal() {
    let report = report(|t| row(t, 10_000, 950, 6.0), |t| row(t, 800, 800, 4.0));
    assert_eq!(report.missed(), Vec::<String>::new());
    assert!((report.goodput - 0.95).abs() < 1e-9 && (report.p99_factor - 1.5).abs() < 1e-9, "{report:?}");
    assert_eq!((report.refusals, report.recovery_s), (100, Some(1.0)));
    assert!((report.refusal_p99_ms - 2.0).abs() < 1e-9 && (report.refusal_max_ms - 50.0).abs() < 1e-9);
    assert!(report.table().contains("goodput 95.0 % of 1000/s"), "{}", report.table());
}

#[test]
fn one_that_does_not_is_told_so() {
    let report = report(|t| row(t, 10_000, 100, 900.0), |t| row(t, 800, if t > 30 { 800 } else { 0 }, 4.0));
    let missed = report.missed();
    assert_eq!(missed.len(), 3, "{missed:?}");
    assert!(missed[0].starts_with("goodput is 0.10"), "{missed:?}");
    assert_eq!(report.recovery_s, Some(8.0));
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

//! A load generator's result for tests, with every member, both here and in the file: a new member of a
//! result must be added to `sample.json`.
#![expect(clippy::float_arithmetic, reason = "comparing measurements; no money")]

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::latency::written;
use crate::observe::timeline::{interval_histogram, percentiles};
use crate::plan::load_profile::Load;
use crate::result::exchanges::{Exchanges, GeneratorCounts};
use crate::result::latency::{LatencyMs, PhaseResult, Phases};
use crate::result::schema::{HistogramResult, ProcessRow, Queues, TimelineResult, TimelineRow};
use crate::result::{LabResult, ScheduleResult, SliceResult};
use crate::statistics::latency_histogram;

/// This number of operations with that latency.
fn latencies(mut empty: Histogram<u64>, ms: u64, count: u64) -> Histogram<u64> {
    empty.saturating_record_n(ms * 1_000, count);
    empty
}

pub(crate) fn process_row(name: &str, cpu_us: f64) -> ProcessRow {
    let row = full(1, 1, 1).processes.swap_remove(0);
    ProcessRow { name: name.to_owned(), cpu_us_per_operation: Some(cpu_us), ..row }
}

fn phases(latency: &Histogram<u64>, count: u64) -> Phases {
    let originated = GeneratorCounts { sent: count + 1, accepted: count, refused: 1, unanswered: 2 };
    let exchanges = Exchanges { originated, completed: count, errors: 3, wrong: 4, late: 5 };
    let phase = Some(PhaseResult { latency_ms: LatencyMs::of(latency), exchanges });
    Phases { discovery: phase, agreement: phase, conversion: phase, transfer: phase }
}

fn row(t: f64, ms: u64, count: u64) -> TimelineRow {
    TimelineRow {
        t,
        completed: count,
        failed: 1,
        offered: count + 1,
        share_over_1s: Some(if ms > 1_000 { 1.0 } else { 0.0 }),
        hub_cpu_cores: Some(0.7),
        hub_rss_mb: Some(64.0),
        hub_disk_mb: Some(9.0),
        queues: Queues {
            ingress: Some(1.0),
            engine: Some(count as f64),
            callbacks: Some(3.0),
            relay: Some(4.0),
        },
        ..percentiles(&latencies(interval_histogram(), ms, count))
    }
}

/// The result of one of several generators, with this number of operations of this duration.
pub(crate) fn full(instance: u32, ms: u64, count: u64) -> LabResult {
    let mut result: LabResult = serde_json::from_str(include_str!("sample.json")).unwrap();
    let (latency, per_s) = (latencies(latency_histogram(), ms, count), count as f64 / 20.0);
    let second = written(&latencies(interval_histogram(), ms, count));
    result.parameters = BTreeMap::from([("users".to_owned(), i64::from(instance).into())]);
    result.environment.cores = 4 * instance as usize;
    result.options.instance = Some(instance);
    result.options.load = Load::Closed { users: instance as usize };
    result.load_began_at = Some(format!("2026-01-01T00:00:0{instance}.000Z"));
    (result.completed, result.throughput_per_s) = (count, per_s);
    (result.originated.sent, result.originated.accepted) = (count, count);
    result.latency_ms = LatencyMs::of(&latency);
    result.http_ms = result.latency_ms;
    result.phases = phases(&latency, count);
    let [lag_ms_p50, lag_ms_p99, lag_ms_max] = [ms as f64; 3];
    let valid = false;
    result.schedule =
        Some(ScheduleResult { due: count + 1, lag_ms_p50, lag_ms_p99, lag_ms_max, skipped: 1, valid });
    result.slices = vec![SliceResult { seconds: 20.0, completed: count, throughput_per_s: per_s }];
    result.repetitions = vec![per_s];
    result.simulators.prepares_received = count;
    (result.audit.accepted, result.audit.finished) = (count, count - 1);
    result.audit.positions[0].participant = format!("dfsp{instance}-1");
    result.timeline = Some(TimelineResult {
        interval_s: 1,
        rows: [1.0, 2.0, 3.0].map(|t| row(t, ms, count)).into(),
        histograms: vec![second; 3],
        steps: Vec::new(),
    });
    let names = ["discovery", "agreement", "conversion", "transfer"];
    result.histogram = Some(HistogramResult {
        phases: names.map(|name| (name.into(), written(&latency))).into(),
        schedule_lag: Some(written(&latency)),
        ..HistogramResult::of(&latency)
    });
    result.stages[0].stage = format!("stage of {instance}");
    result.window.stolen_share = Some(0.01 * f64::from(instance));
    result
}

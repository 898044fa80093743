//! The seconds of all generators on one time.
#![expect(clippy::float_arithmetic, reason = "seconds of timelines; no money")]

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{Generator, Together, add, to_value};
use crate::observe::interval::{interval_histogram, percentiles};
use crate::result::LabResult;
use crate::result::distribution::{read_histogram, written};
use crate::result::latency::LatencyMs;
use crate::result::schema::{TimelineResult, TimelineRow, Validity, WindowResult};
use crate::result::statistics::{ratio, rounded};

/// Seconds that a generator began after the first; of none unless all tell when they began.
fn later_s(together: &Together, generator: &Generator) -> f64 {
    let all: Option<Vec<i64>> = together.generators.iter().map(|generator| generator.began_ms).collect();
    let first = all.and_then(|all| all.into_iter().min());
    first.zip(generator.began_ms).map_or(0.0, |(first, own)| (own - first) as f64 / 1e3)
}

/// Rows of the generators that end in the same second, each with the index of its generator.
type Second = Vec<(usize, usize)>;

fn seconds(together: &Together) -> BTreeMap<i64, Second> {
    let mut seconds: BTreeMap<i64, Second> = BTreeMap::new();
    for (index, generator) in together.generators.iter().enumerate() {
        let later_s = later_s(together, generator);
        for (place, row) in generator.rows.iter().enumerate() {
            seconds.entry((row.t + later_s).round() as i64).or_default().push((index, place));
        }
    }
    seconds
}

fn merged(together: &Together) -> TimelineResult {
    let mut timeline = TimelineResult { interval_s: 1, ..TimelineResult::default() };
    let mut all_known = true;
    for second in seconds(together).values() {
        let (row, histogram) = row(together, second);
        timeline.rows.push(row);
        all_known &= histogram.is_some();
        timeline.histograms.extend(histogram.map(|histogram| written(&histogram)));
    }
    if !all_known {
        // One for each row, or none.
        timeline.histograms.clear();
    }
    timeline
}

/// The latencies of all in one second, where every row has them.
fn latencies(together: &Together, second: &Second) -> Option<Histogram<u64>> {
    let mut sum = interval_histogram();
    for (index, place) in second {
        let texts = together.generators[*index].list("/timeline/histograms");
        add(&mut sum, &read_histogram(texts.get(*place)?.as_str()?)?);
    }
    Some(sum)
}

fn row(together: &Together, second: &Second) -> (TimelineRow, Option<Histogram<u64>>) {
    let rows = || second.iter().map(|(index, place)| (*index, together.generators[*index].rows[*place]));
    let ends = rows().map(|(index, row)| row.t + later_s(together, &together.generators[index]));
    let total = |count: fn(&TimelineRow) -> u64| rows().map(|(_, row)| count(&row)).sum::<u64>();
    let of = |wanted: Option<usize>| {
        rows().find(|(index, _)| Some(*index) == wanted).map(|(_, row)| row).unwrap_or_default()
    };
    let (beside, watching) = (of(together.beside), of(together.watching));
    let histogram = latencies(together, second);
    let percentiles = histogram.as_ref().map(percentiles).unwrap_or_default();
    let completed = total(|row| row.completed);
    let long: f64 = rows().map(|(_, row)| row.share_over_1s.unwrap_or(0.0) * row.completed as f64).sum();
    let share_is_known = rows().all(|(_, row)| row.completed == 0 || row.share_over_1s.is_some());
    let row = TimelineRow {
        t: rounded(ends.fold(0.0, f64::max), 2),
        completed,
        failed: total(|row| row.failed),
        offered: total(|row| row.offered),
        max_ms: rows().filter_map(|(_, row)| row.max_ms).max_by(f64::total_cmp),
        share_over_1s: ratio(long, completed as f64)
            .filter(|_| share_is_known)
            .map(|share| rounded(share, 6)),
        hub_cpu_cores: beside.hub_cpu_cores,
        hub_rss_mb: beside.hub_rss_mb,
        hub_disk_mb: beside.hub_disk_mb,
        queues: watching.queues,
        ..percentiles
    };
    (row, histogram)
}

/// Rows and their histograms; absent where no generator has a timeline.
pub(super) fn timeline(together: &Together, _: &Value) -> Value {
    if together.generators.iter().all(|generator| generator.rows.is_empty()) {
        return Value::Null;
    }
    to_value(&merged(together))
}

/// Until the last generator began to measure.
pub(super) fn trimmed_start(together: &Together, _: &Value) -> Value {
    let starts = together.generators.iter().map(|generator| {
        later_s(together, generator) + generator.number("/window/trimmed_start_s").unwrap_or(0.0)
    });
    rounded(starts.fold(0.0, f64::max), 2).into()
}

/// From where the first generator measures no more.
pub(super) fn trimmed_end(together: &Together, merged: &Value) -> Value {
    let trimmed = |generator: &Generator| generator.number("/window/trimmed_end_s").unwrap_or(0.0);
    let last = merged["timeline"]["rows"].as_array().and_then(|rows| rows.last()?["t"].as_f64());
    let ends = together.generators.iter().filter_map(|generator| {
        Some(later_s(together, generator) + generator.rows.last()?.t - trimmed(generator))
    });
    let first = ends.reduce(f64::min);
    let without_rows = together.generators.iter().map(trimmed).fold(0.0, f64::max);
    rounded(last.zip(first).map_or(without_rows, |(last, first)| last - first).max(0.0), 2).into()
}

/// Lines fitted again, to the seconds of all.
pub(super) fn drift(together: &Together, so_far: &Value) -> Value {
    if !together.generators.iter().all(|generator| generator.value["drift"].is_object()) {
        return Value::Null;
    }
    let number = |pointer: &str| so_far.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
    let result = LabResult {
        timeline: Some(merged(together)),
        window: WindowResult {
            trimmed_start_s: number("/window/trimmed_start_s"),
            trimmed_end_s: number("/window/trimmed_end_s"),
            seconds: number("/window/seconds"),
            stolen_share: None,
            idle_share: None,
        },
        validity: Validity { valid: so_far["validity"]["valid"] == true, findings: Vec::new() },
        thresholds: super::computed::thresholds_of(together),
        throughput_per_s: number("/throughput_per_s"),
        latency_ms: LatencyMs::of(&together.latency),
        ..LabResult::default()
    };
    json!(crate::judge::drift::drift(&result))
}

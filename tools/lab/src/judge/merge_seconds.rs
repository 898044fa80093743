//! Merges the seconds of all generators on one time axis.
#![expect(clippy::float_arithmetic, reason = "seconds of timelines; no money")]

use std::collections::BTreeMap;

use super::Recording;
use crate::observe::timeline::{interval_histogram, percentiles};
use crate::result::LabResult;
use crate::result::latency::{add, read_histogram, written};
use crate::result::schema::{TimelineResult, TimelineRow};
use crate::statistics::{ratio, rounded};

/// One row of a generator, shifted by the delay of its start after the first one.
struct ShiftedRow<'all> {
    one: &'all Recording,
    row: &'all TimelineRow,
    histogram: Option<&'all String>,
    t: f64,
}

/// Delay of a generator's start after the first one, in seconds; 0 unless all starts are known.
fn later_s(all: &[Recording], one: &Recording) -> f64 {
    let first =
        all.iter().map(|one| one.began_ms).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
    first.zip(one.began_ms).map_or(0.0, |(first, own)| (own - first) as f64 / 1e3)
}

/// Puts the timelines and the window of all generators into the result.
pub(super) fn merge(
    merged: &mut LabResult,
    all: &[Recording],
    beside: Option<&Recording>,
    watching: Option<&Recording>,
) {
    let mut seconds: BTreeMap<i64, Vec<ShiftedRow<'_>>> = BTreeMap::new();
    let (mut start, mut trimmed, mut end) = (0.0_f64, 0.0_f64, f64::INFINITY);
    for one in all {
        let (later, window) = (later_s(all, one), one.result.window);
        let timeline = one.result.timeline.as_ref();
        for (place, row) in timeline.iter().flat_map(|timeline| timeline.rows.iter().enumerate()) {
            let histogram = timeline.and_then(|timeline| timeline.histograms.get(place));
            let t = row.t + later;
            seconds.entry(t.round() as i64).or_default().push(ShiftedRow { one, row, histogram, t });
        }
        start = start.max(later + window.trimmed_start_s);
        trimmed = trimmed.max(window.trimmed_end_s);
        let last = timeline.and_then(|timeline| timeline.rows.last());
        end = end.min(last.map_or(f64::INFINITY, |row| later + row.t - window.trimmed_end_s));
    }
    let mut timeline = TimelineResult { interval_s: 1, ..TimelineResult::default() };
    let mut all_known = true;
    for second in seconds.values() {
        let mut latency = interval_histogram();
        let histograms = second.iter().map(|moved| moved.histogram.and_then(|text| read_histogram(text)));
        match histograms.collect::<Option<Vec<_>>>() {
            Some(all) => all.iter().for_each(|more| add(&mut latency, more)),
            None => all_known = false,
        }
        timeline.rows.push(row(second, percentiles(&latency), beside, watching));
        timeline.histograms.push(written(&latency));
    }
    if !all_known {
        timeline.histograms.clear();
    }
    merged.window.trimmed_start_s = rounded(start, 2);
    // The last moment of the measured time of all generators.
    let last = timeline.rows.last().map_or(f64::NEG_INFINITY, |row| row.t);
    merged.window.trimmed_end_s = rounded(if end.is_finite() { (last - end).max(0.0) } else { trimmed }, 2);
    merged.timeline = (!timeline.rows.is_empty()).then_some(timeline);
}

fn row(
    second: &[ShiftedRow<'_>],
    percentiles: TimelineRow,
    beside: Option<&Recording>,
    watching: Option<&Recording>,
) -> TimelineRow {
    let total = |count: fn(&TimelineRow) -> u64| second.iter().map(|moved| count(moved.row)).sum::<u64>();
    let of = |wanted: Option<&Recording>| {
        let is = |moved: &&ShiftedRow<'_>| wanted.is_some_and(|wanted| std::ptr::eq(wanted, moved.one));
        second.iter().find(is).map(|moved| *moved.row).unwrap_or_default()
    };
    let (hub, watched, completed) = (of(beside), of(watching), total(|row| row.completed));
    let long = |moved: &ShiftedRow<'_>| moved.row.share_over_1s.unwrap_or(0.0) * moved.row.completed as f64;
    let long = second.iter().map(long).sum();
    TimelineRow {
        t: rounded(second.iter().map(|moved| moved.t).fold(0.0, f64::max), 2),
        completed,
        failed: total(|row| row.failed),
        offered: total(|row| row.offered),
        max_ms: second.iter().filter_map(|moved| moved.row.max_ms).max_by(f64::total_cmp),
        share_over_1s: ratio(long, completed as f64).map(|share| rounded(share, 6)),
        hub_cpu_cores: hub.hub_cpu_cores,
        hub_rss_mb: hub.hub_rss_mb,
        hub_disk_mb: hub.hub_disk_mb,
        queues: watched.queues,
        ..percentiles
    }
}

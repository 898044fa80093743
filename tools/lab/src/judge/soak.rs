//! Judges a soak: the slopes of its figures in the measured window, and the time during which it held its load.
#![expect(clippy::float_arithmetic, reason = "changes of measurements; no money")]

use crate::judge::thresholds::{COMPLETED_OF_DUE, CheckedThreshold};
use crate::result::LabResult;
use crate::result::schema::{DriftResult, DriftRow, ProgrammeCheck, ThresholdCheck, TimelineRow};
use crate::statistics::line::Line;
use crate::statistics::{ratio, rounded};

/// A figure is steady if it changed by less than this part of its start.
const STEADY: f64 = 0.10;
/// T1 of the 2020 programme: minimum rate per second, exclusive.
const T1_PER_S: f64 = 200.0;
/// T2: minimum duration, an hour.
const T2_SECONDS: f64 = 3_600.0;
/// T3: maximum share over one second, exclusive.
const T3_SHARE: f64 = 0.01;

/// Fits lines to the rows of the measured window.
pub(crate) fn judge(result: &LabResult) -> DriftResult {
    let rows = result.rows();
    let (from, until) =
        (result.window.trimmed_start_s, rows.last().map_or(0.0, |row| row.t) - result.window.trimmed_end_s);
    let window: Vec<&TimelineRow> = rows.iter().filter(|row| row.t > from && row.t <= until).collect();
    type Figure = fn(&TimelineRow) -> Option<f64>;
    let figures: [(&'static str, Figure); 4] = [
        ("throughput_per_s", |row| Some(row.completed as f64)),
        ("p99_ms", |row| row.p99_ms),
        ("hub_rss_mb", |row| row.hub_rss_mb),
        ("hub_disk_mb", |row| row.hub_disk_mb),
    ];
    let row = |(name, figure): (&'static str, Figure)| {
        // The disk is read only every few rows.
        let points: Vec<(f64, f64)> = window.iter().filter_map(|row| Some((row.t, figure(row)?))).collect();
        Some(slope(name, Line::through(&points)?))
    };
    let seconds = (until - from).max(0.0);
    let interval_s = result.timeline.as_ref().map_or(1, |timeline| timeline.interval_s.max(1));
    let held_s = held_s(&window, interval_s);
    DriftResult {
        seconds: rounded(seconds, 1),
        held_s,
        rows: figures.into_iter().filter_map(row).collect(),
        disk_bytes_per_operation: disk_per_operation(&window),
        kept_up: kept_up(result),
        programme_2020: programme(result, held_s),
    }
}

/// The check that the hub kept up: an hour at a rate is meaningful only if the rate was completed.
fn kept_up(result: &LabResult) -> Option<ThresholdCheck> {
    let mut checked = result.thresholds.iter().flat_map(|thresholds| &thresholds.checked);
    checked.find(|check| check.name == COMPLETED_OF_DUE).cloned()
}

/// The targets of the 2020 programme beside the measured values. The hour counts only if the load was held, not only
/// offered. Invalid figures neither meet nor miss a target.
fn programme(result: &LabResult, held_s: f64) -> Vec<ProgrammeCheck> {
    let rate = result.throughput_per_s;
    let share = result.latency_ms.share_over_1s;
    let valid = result.validity.valid;
    let check = |(name, limit, measured, met): (&'static str, f64, f64, bool)| ProgrammeCheck {
        name: name.into(),
        limit,
        measured,
        met: valid.then_some(met),
        not_judged: (!valid).then(|| "the run is not valid".into()),
    };
    let targets = [
        ("T1 per second", T1_PER_S, rate, rate > T1_PER_S),
        ("T2 seconds", T2_SECONDS, held_s, held_s >= T2_SECONDS),
        ("T3 share over 1 s", T3_SHARE, share, share < T3_SHARE),
    ];
    targets.map(check).into()
}

fn disk_per_operation(rows: &[&TimelineRow]) -> Option<f64> {
    let measured: Vec<_> = rows.iter().filter(|row| row.hub_disk_mb.is_some()).collect();
    let (first, last) = (measured.first()?, measured.last()?);
    let grown = last.hub_disk_mb? - first.hub_disk_mb?;
    let between = rows.iter().filter(|row| row.t > first.t && row.t <= last.t);
    let completed: u64 = between.map(|row| row.completed).sum();
    ratio(grown * 1024.0 * 1024.0, completed as f64).map(|bytes| rounded(bytes, 0))
}

fn slope(name: &'static str, Line { slope, start, end }: Line) -> DriftRow {
    let change = ratio(end - start, start.abs());
    let verdict = match change {
        Some(change) if change > STEADY => "grows",
        Some(change) if change < -STEADY => "falls",
        Some(_) => "steady",
        None => "starts at zero",
    };
    DriftRow {
        name: name.into(),
        start: rounded(start, 2),
        end: rounded(end, 2),
        per_hour: rounded(slope * 3_600.0, 2),
        change: change.map(|change| rounded(change, 4)),
        verdict: verdict.to_owned(),
    }
}

/// The threshold for the time that a soak held its load, compared with the time requested. It is T2 of the 2020
/// programme, which requested an hour.
const SUSTAINED: &str = "sustained_s";
/// The load was held in a minute if this share of the operations due in it completed in it. Operations that end a
/// moment later belong to the next minute.
const HELD_SHARE: f64 = 0.95;
const MINUTE_ROWS: usize = 60;

/// The seconds of these rows, `interval_s` each, in minutes that held the load.
pub(crate) fn held_s(rows: &[&TimelineRow], interval_s: u32) -> f64 {
    // The rest at the end belongs to the last minute.
    let minutes = (rows.len() / MINUTE_ROWS).max(1);
    let minute = |index: usize| {
        let until = if index + 1 == minutes { rows.len() } else { (index + 1) * MINUTE_ROWS };
        &rows[index * MINUTE_ROWS..until]
    };
    let held: usize = (0..minutes).map(minute).filter(|rows| is_held(rows)).map(<[_]>::len).sum();
    held as f64 * f64::from(interval_s)
}

fn is_held(rows: &[&TimelineRow]) -> bool {
    let completed: u64 = rows.iter().map(|row| row.completed).sum();
    let due: u64 = rows.iter().map(|row| row.offered).sum();
    completed > 0 && completed as f64 >= due as f64 * HELD_SHARE
}

/// Compares with the requested time, in whole seconds. Includes a finding if the load was not held all the time.
pub(crate) fn check(asked_s: f64, held_s: f64) -> CheckedThreshold {
    let limit = asked_s.floor();
    let met = held_s >= limit;
    let finding = (!met).then(|| {
        format!(
            "the load was held for {held_s} s of the requested {limit} s: in the other minutes less than {:.0} % of \
             the due operations completed",
            HELD_SHARE * 100.0
        )
    });
    (ThresholdCheck { name: SUSTAINED.to_owned(), limit, value: held_s, met }, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::schema::{Thresholds, TimelineResult, Validity, WindowResult};

    fn result(row: impl Fn(u32) -> TimelineRow) -> LabResult {
        let rows = (1..=1_000).map(|t| TimelineRow { t: f64::from(t), ..row(t) }).collect();
        LabResult {
            timeline: Some(TimelineResult { interval_s: 1, rows, ..TimelineResult::default() }),
            window: WindowResult {
                trimmed_start_s: 100.0,
                trimmed_end_s: 50.0,
                seconds: 850.0,
                ..WindowResult::default()
            },
            throughput_per_s: 500.0,
            ..LabResult::new()
        }
    }

    #[test]
    fn lines_show_growing_and_steady_figures() {
        let drift = judge(&result(|t| TimelineRow {
            completed: 500,
            // The first hundred seconds are not steady and do not count.
            p99_ms: Some(if t <= 100 { 900.0 } else { 10.0 + f64::from(t % 2) }),
            hub_rss_mb: Some(100.0 + f64::from(t) * 0.1),
            hub_disk_mb: (t % 10 == 0).then(|| f64::from(t) * 0.5),
            ..TimelineRow::default()
        }));
        let of = |name: &str| drift.rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(
            (of("throughput_per_s").verdict.as_str(), of("p99_ms").verdict.as_str()),
            ("steady", "steady")
        );
        let memory = of("hub_rss_mb");
        assert_eq!((memory.verdict.as_str(), memory.per_hour), ("grows", 360.0));
        assert!((memory.start - 110.1).abs() < 0.02 && (memory.end - 195.0).abs() < 0.02, "{memory:?}");
        // Half a MiB for 500 operations.
        assert_eq!(drift.disk_bytes_per_operation, Some(1049.0));
        assert_eq!((drift.seconds, drift.held_s), (850.0, 850.0));
        let met: Vec<_> = drift.programme_2020.iter().map(|target| target.met).collect();
        assert_eq!(met, [true, false, true].map(Some), "850 s are less than an hour");
        assert_eq!(drift.kept_up, None, "of a closed loop");
    }

    #[test]
    fn invalid_run_is_not_judged() {
        let steady = |_| TimelineRow { offered: 500, completed: 500, ..TimelineRow::default() };
        let mut doubtful = result(steady);
        doubtful.validity = Validity::of(vec!["the load generator lagged".to_owned()]);
        let found = judge(&doubtful).programme_2020;
        let measured: Vec<f64> = found.iter().map(|target| target.measured).collect();
        assert_eq!(measured, [500.0, 850.0, 0.0]);
        let is_open = |target: &ProgrammeCheck| {
            target.met.is_none() && target.not_judged.as_deref() == Some("the run is not valid")
        };
        assert!(found.iter().all(is_open), "{found:?}");
        // A hub that does not keep up is not a fault of the measurement: this is reported separately.
        let check = ThresholdCheck { name: COMPLETED_OF_DUE.to_owned(), limit: 0.99, value: 0.7, met: false };
        let thresholds = Thresholds { met: false, findings: Vec::new(), checked: vec![check.clone()] };
        let slow = |t| TimelineRow { completed: if t <= 340 { 500 } else { 350 }, ..steady(t) };
        let behind = LabResult { thresholds: Some(thresholds), ..result(slow) };
        let drift = judge(&behind);
        assert_eq!((drift.kept_up, drift.programme_2020[0].met), (Some(check), Some(true)));
        assert_eq!(drift.programme_2020[1].measured, 240.0, "from second 101 to 340");
    }

    #[test]
    fn short_run_has_no_lines() {
        assert_eq!(judge(&LabResult::new()).rows, Vec::new());
        let drift = judge(&result(|_| TimelineRow::default()));
        assert!(!drift.rows.iter().any(|row| row.name == "p99_ms"));
        assert_eq!(drift.disk_bytes_per_operation, None);
    }

    fn held(rows: impl Iterator<Item = (u64, u64)>) -> f64 {
        let row = |(offered, completed)| TimelineRow { offered, completed, ..TimelineRow::default() };
        let rows: Vec<TimelineRow> = rows.map(row).collect();
        held_s(&rows.iter().collect::<Vec<_>>(), 1)
    }

    #[test]
    fn minute_with_a_backlog_is_not_held() {
        let steady = |_| (100, 100);
        assert_eq!(held((0..3_600).map(steady)), 3_600.0);
        assert_eq!(held(std::iter::empty()), 0.0);
        assert_eq!(held((0..5).map(steady)), 5.0, "shorter than a minute is one");
        // Two seconds without completions, and the third makes up for them. Within a minute this does not matter; at
        // its end it is within the tolerance.
        let stall = |from: u64| {
            move |second: u64| match second.wrapping_sub(from) {
                0 | 1 => (100, 0),
                2 => (100, 300),
                _ => (100, 100),
            }
        };
        assert_eq!(held((0..600).map(stall(70))), 600.0);
        assert_eq!(held((0..600).map(stall(118))), 600.0);
        // Four seconds of a minute are lost. The rest after the tenth minute belongs to that minute.
        let lost = |second: u64| if (60..64).contains(&second) { (100, 0) } else { (100, 100) };
        assert_eq!(held((0..605).map(lost)), 545.0);
        let end = |second: u64| if second >= 600 { (100, 0) } else { (100, 100) };
        assert_eq!(held((0..605).map(end)), 540.0);
        // A load that ended early, and a closed loop, where no operation is due until an earlier one ends.
        let ended = |second: u64| if second < 300 { (100, 100) } else { (0, 0) };
        assert_eq!(held((0..600).map(ended)), 300.0);
    }

    #[test]
    fn load_must_be_held_for_the_whole_requested_time() {
        let (good, nothing) = check(3_600.4, 3_600.0);
        assert!(good.met && nothing.is_none() && good.limit == 3_600.0, "{good:?}");
        let (bad, finding) = check(3_600.0, 3_540.0);
        assert!(!bad.met && bad.value == 3_540.0 && bad.name == "sustained_s");
        assert!(finding.unwrap().starts_with("the load was held for 3540 s of the requested 3600 s"));
    }
}

//! How long after an overload a hub is as it was before, in steps of 100 ms.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use crate::result::schema::TimelineRow;
use serde::Serialize;

use crate::judge::objective::quantile;

/// How far a step may be from what is usual.
const TOLERANCE: f64 = 0.1;
/// In every phase some steps are worse than others: what nine of ten reach is usual, and nine of ten must reach it
/// again.
const USUAL_PERCENT: usize = 90;
const STEPS_LOOKED_AT: usize = 10;
const STEPS_SETTLED_MIN: usize = 9;

/// A step of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Step {
    /// Seconds since the load fell, at its start and its end.
    pub from_s: f64,
    pub until_s: f64,
    pub completed_per_s: f64,
    pub failed_per_s: f64,
    /// 99th percentile of latency in milliseconds; absent where nothing was committed.
    pub p99_ms: Option<f64>,
}

/// What a step must be like to count as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usual {
    /// At least so many transfers committed per second.
    pub completed_per_s_min: f64,
    pub p99_ms_max: f64,
}

/// The steps of a timeline, by seconds since `fell_s`.
pub(super) fn steps(rows: &[TimelineRow], fell_s: f64) -> Vec<Step> {
    let step = |pair: &[TimelineRow]| {
        let [before, row] = pair else { return None };
        let seconds = row.t - before.t;
        let per_s = |count: u64| count as f64 / seconds;
        (seconds > 0.0).then(|| Step {
            from_s: before.t - fell_s,
            until_s: row.t - fell_s,
            completed_per_s: per_s(row.completed),
            failed_per_s: per_s(row.failed),
            p99_ms: row.p99_ms,
        })
    };
    rows.windows(2).filter_map(step).collect()
}

impl Usual {
    /// From the steps of a phase in which all was well.
    pub(super) fn of(steps: &[Step]) -> Self {
        let sorted = |of: &dyn Fn(&Step) -> Option<f64>| {
            let mut values: Vec<f64> = steps.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let completed = quantile(&sorted(&|step| Some(step.completed_per_s)), 100 - USUAL_PERCENT);
        let p99_ms = quantile(&sorted(&|step| step.p99_ms), USUAL_PERCENT);
        Self { completed_per_s_min: completed * (1.0 - TOLERANCE), p99_ms_max: p99_ms * (1.0 + TOLERANCE) }
    }

    fn has(&self, step: &Step) -> bool {
        step.completed_per_s >= self.completed_per_s_min
            && step.p99_ms.is_some_and(|p99_ms| p99_ms <= self.p99_ms_max)
    }

    /// The end of the first usual step that is followed by usual ones, in seconds since the load fell; `None` where
    /// there is none. So it is never less than a step.
    pub(super) fn recovered_s(&self, after: &[Step]) -> Option<f64> {
        let is_settled = |steps: &&[Step]| {
            self.has(&steps[0]) && steps.iter().filter(|step| self.has(step)).count() >= STEPS_SETTLED_MIN
        };
        after.windows(STEPS_LOOKED_AT).find(is_settled).map(|steps| steps[0].until_s)
    }
}

//! Objectives of `upesi lab grow` and `upesi lab overload`, and whether the median of all runs reached them.

use serde::Serialize;

use crate::statistics::quantiles;

/// One objective of measurements that produce an `R`.
pub(crate) struct Objective<R> {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) is_at_least: bool,
    pub(crate) goal: f64,
    /// Infinite if the expected event did not occur.
    pub(crate) of: fn(&R) -> f64,
}

impl<R> Objective<R> {
    /// An objective that is reached at `goal` or above.
    pub(crate) const fn at_least(
        name: &'static str,
        unit: &'static str,
        goal: f64,
        of: fn(&R) -> f64,
    ) -> Self {
        Self { name, unit, is_at_least: true, goal, of }
    }

    /// An objective that is reached at `goal` or below.
    pub(crate) const fn at_most(
        name: &'static str,
        unit: &'static str,
        goal: f64,
        of: fn(&R) -> f64,
    ) -> Self {
        Self { name, unit, is_at_least: false, goal, of }
    }
}

/// An objective beside the measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveResult {
    pub name: &'static str,
    pub unit: &'static str,
    pub is_at_least: bool,
    pub goal: f64,
    /// Median of the runs; null if the expected event never occurred.
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    pub is_reached: bool,
}

impl ObjectiveResult {
    pub(crate) fn of<R>(aim: &Objective<R>, runs: &[R]) -> Self {
        let [lowest, median, highest] = quantiles(runs.iter().map(aim.of), [0, 50, 100]);
        let is_reached = if aim.is_at_least { median >= aim.goal } else { median <= aim.goal };
        Self {
            name: aim.name,
            unit: aim.unit,
            is_at_least: aim.is_at_least,
            goal: aim.goal,
            median,
            lowest,
            highest,
            is_reached: is_reached && !runs.is_empty(),
        }
    }

    /// `≥` or `≤`.
    pub(crate) const fn relation(&self) -> &'static str {
        if self.is_at_least { "≥" } else { "≤" }
    }

    pub(crate) fn missed(&self) -> Option<String> {
        let Self { name, unit, median, goal, .. } = self;
        let text = || format!("{name} is {median:.2} {unit}, not {} {goal}", self.relation());
        (!self.is_reached).then(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTIVE: Objective<f64> = Objective::at_most("restart", "s", 5.0, |seconds| *seconds);

    #[test]
    fn objective_is_judged_by_the_median_and_missed_without_the_event() {
        for (runs, median, is_reached) in [
            (&[4.0, 9.0, 5.0][..], 5.0, true),
            (&[4.0, 9.0, 6.0], 6.0, false),
            (&[f64::INFINITY], f64::INFINITY, false),
            (&[], 0.0, false),
        ] {
            let result = ObjectiveResult::of(&OBJECTIVE, runs);
            assert_eq!((result.median.to_bits(), result.is_reached), (f64::to_bits(median), is_reached));
            assert_eq!(result.missed().is_none(), is_reached);
        }
        let result = ObjectiveResult::of(&OBJECTIVE, &[7.0]);
        assert_eq!(result.missed().as_deref(), Some("restart is 7.00 s, not ≤ 5"));
    }
}

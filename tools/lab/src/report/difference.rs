//! The difference of one figure between two runs, and the judgement on it.

use crate::figures;
use crate::plan::metric::Metric;
use crate::report::run::Run;
use crate::statistics::intervals::{Interval, geometric_mean};

/// The judgement on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Real,
    /// The difference is too small to matter, whatever its value.
    Same,
    Noise,
    /// Each side has a single measurement, so the noise is not known.
    Untold,
}

/// The difference of one figure between a run and the base.
#[derive(Clone, Debug)]
pub struct Difference {
    pub metric: Metric,
    /// The base's value: per second, milliseconds or microseconds.
    pub base: f64,
    pub other: f64,
    /// The difference relative to the base: 0.12 is 12 % more.
    pub relative: f64,
    /// The interval of the difference at the comparison's confidence.
    pub interval: Option<Interval>,
    pub judgement: Judgement,
    /// Further repetitions of each side that would show a difference of 5 %, if the judgement is noise.
    pub repetitions_more: Option<usize>,
    /// Whether the interval is computed from parts of single runs instead of repetitions. Then it does not contain the
    /// machine's variation between runs.
    pub within_run: bool,
    /// Number of turns behind the interval, if the two took turns; the values are medians in that case.
    pub pairs: Option<usize>,
    /// The figures of the runs if they differ in the opposite direction to the repetitions. `base` and `other` are then
    /// geometric means of the repetitions, so that no sign contradicts them.
    pub contradicting: Option<[f64; 2]>,
}

impl Difference {
    /// The difference with values whose direction agrees with `relative`.
    pub(super) fn agreeing_with(self, base: &[f64], other: &[f64]) -> Self {
        let [own_base, own_other] = [self.base, self.other];
        if (own_other - own_base) * self.relative >= 0.0 {
            return self;
        }
        let [Some(base), Some(other)] = [base, other].map(geometric_mean) else { return self };
        Self { base, other, contradicting: Some([own_base, own_other]), ..self }
    }

    /// A warning about figures that differ in the opposite direction.
    pub(super) fn contradiction(&self) -> Option<String> {
        let [base, other] = self.contradicting?.map(|value| self.metric.format(value));
        Some(format!(
            "{}: {base} and {other}, the figures of the whole runs, differ in the opposite direction to the \
             means of their repetitions; the comparison shows the means",
            self.metric.name()
        ))
    }

    pub fn is_better(&self) -> bool {
        (self.relative > 0.0) == self.metric.more_is_better()
    }

    /// `+12 % ± 3 %`.
    pub fn text(&self) -> String {
        let relative = figures::signed_percent(self.relative);
        match &self.interval {
            Some(interval) => {
                format!("{relative} ± {}", figures::percent(interval.half_width()))
            }
            None => relative,
        }
    }
}

/// The deciding figure of two runs. If the schedule set the throughput of both, throughput is not a finding.
pub(crate) fn deciding(base: &Run, other: &Run) -> Metric {
    if base.is_open_loop() && other.is_open_loop() { Metric::Tail } else { Metric::Throughput }
}

pub(crate) const fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Real => "real",
        Judgement::Same => "the same",
        Judgement::Noise => "within noise",
        Judgement::Untold => "one measurement",
    }
}

pub(crate) const fn judged(difference: &Difference) -> &'static str {
    match difference.judgement {
        Judgement::Real if difference.within_run => "real within these runs",
        Judgement::Same if difference.within_run => "the same within these runs",
        of => judgement(of),
    }
}

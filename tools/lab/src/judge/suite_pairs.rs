//! Judges runs beside their base: medians, the interval of the paired differences, and claims.
#![expect(clippy::float_arithmetic, reason = "differences of measurements; no money")]

use crate::judge::turns::{FinishedRun, beside_base};
use crate::plan::Claim;
use crate::plan::metric::Metric;
use crate::plan::suite_plan::Group;
use crate::result::LabResult;
use crate::result::suite::{ClaimResult, ClaimVerdict, DifferenceResult, PairFigure, PairResult};
use crate::statistics::intervals::{CONFIDENCE, Interval, paired_difference, pairs_to_tell};
use crate::statistics::{median, rounded};

impl From<Interval> for DifferenceResult {
    fn from(interval: Interval) -> Self {
        Self {
            centre: rounded(interval.centre, 5),
            low: rounded(interval.low, 5),
            high: rounded(interval.high, 5),
            confidence: CONFIDENCE,
        }
    }
}

/// Compares every point of a group with the first one.
pub(crate) fn pairs_of(group: &Group, sequences: &[Vec<FinishedRun>]) -> Vec<PairResult> {
    if !group.is_against_first {
        return Vec::new();
    }
    let base = group.points.start;
    let pair = |other: usize| {
        let beside: Vec<_> = sequences.iter().flat_map(|turns| beside_base(turns, base, other)).collect();
        let figures: Vec<PairFigure> = Metric::ALL
            .into_iter()
            .enumerate()
            .filter_map(|(place, figure)| {
                let both = beside.iter().filter_map(|(base, other)| base[place].zip(other[place]));
                let (base, other): (Vec<f64>, Vec<f64>) = both.unzip();
                pair_figure(figure, base, other)
            })
            .collect();
        (!figures.is_empty()).then_some(PairResult { base, other, figures })
    };
    group.points.clone().skip(1).filter_map(pair).collect()
}

fn pair_figure(figure: Metric, base: Vec<f64>, other: Vec<f64>) -> Option<PairFigure> {
    let middle = |values: &[f64]| median(values.iter().copied()).map(|value| rounded(value, 3));
    // A single measurement shows nothing about noise. Such runs are compared by the parts within them.
    if base.len() < 2 {
        return None;
    }
    let difference = paired_difference(&base, &other, CONFIDENCE).map(DifferenceResult::from);
    let (base_median, other_median) = (middle(&base)?, middle(&other)?);
    let written = |values: Vec<f64>| values.into_iter().map(|value| rounded(value, 3)).collect();
    Some(PairFigure {
        figure,
        base: written(base),
        other: written(other),
        base_median,
        other_median,
        difference,
    })
}

/// Judges a claim about a point of a group. `name` returns a point's name for reports.
pub(crate) fn judge(
    claim: &Claim,
    group: &Group,
    pairs: &[PairResult],
    name: impl Fn(usize) -> String,
) -> ClaimResult {
    let (base, other) = (group.points.start, group.points.start + claim.point);
    let figure = pairs
        .iter()
        .filter(|pair| (pair.base, pair.other) == (base, other))
        .flat_map(|pair| &pair.figures)
        .find(|figure| figure.figure == claim.figure);
    let (verdict, words) = match figure.and_then(|figure| Some((figure, figure.difference?))) {
        None => (ClaimVerdict::Untold, "it was not run often enough for an interval".to_owned()),
        Some((figure, difference)) => decide(claim, figure, difference, &name(base), &name(other)),
    };
    ClaimResult {
        text: claim.text.clone(),
        verdict,
        words,
        base,
        other,
        figure: claim.figure,
        at_most_percent: claim.at_most_percent,
    }
}

fn decide(
    claim: &Claim,
    figure: &PairFigure,
    difference: DifferenceResult,
    base: &str,
    other: &str,
) -> (ClaimVerdict, String) {
    let [centre, low, high] = [difference.centre, difference.low, difference.high].map(|share| share * 100.0);
    // Less throughput is a loss, and more of any other figure.
    let (centre, low, high) =
        if claim.figure.more_is_better() { (-centre, -high, -low) } else { (centre, low, high) };
    let bound = claim.at_most_percent;
    let pairs = figure.base.len();
    let found = format!(
        "{} of “{other}” is {:.1} % {} than that of “{base}”, with 95 % confidence between {low:.1} % and {high:.1} %, \
         by {pairs} pairs of runs",
        words(claim.figure),
        centre.abs(),
        word(claim.figure, centre),
    );
    if high <= bound {
        (ClaimVerdict::Holds, format!("holds: {found}; at most {bound} % is claimed"))
    } else if low > bound {
        (ClaimVerdict::Broken, format!("does not hold: {found}; at most {bound} % is claimed"))
    } else {
        let needed = pairs_to_tell(&figure.base, &figure.other, bound / 100.0, CONFIDENCE);
        let advice = needed.filter(|needed| *needed > pairs).map_or_else(String::new, |needed| {
            format!("; {needed} pairs would show a difference of {bound} % at this noise")
        });
        let words =
            format!("undecided: {found}; at most {bound} % is claimed, which lies between the two{advice}");
        (ClaimVerdict::Untold, words)
    }
}

/// The direction in words; `loss` above zero is worse.
fn word(figure: Metric, loss: f64) -> &'static str {
    if figure.more_is_better() == (loss > 0.0) { "lower" } else { "higher" }
}

/// The name of a figure in a sentence.
pub(crate) const fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::Ratio => "ratio to the baseline",
        Metric::Median => "p50 latency",
        Metric::Tail => "p99 latency",
        Metric::Cpu => "CPU time of the hub per operation",
    }
}

/// The figure's value in a result; `None` if it was not measured.
pub(crate) fn value(metric: Metric, result: &LabResult) -> Option<f64> {
    let value = match metric {
        Metric::Throughput => Some(result.throughput_per_s),
        Metric::Ratio => result.ratio,
        Metric::Median => Some(result.latency_ms.p50),
        Metric::Tail => Some(result.latency_ms.p99),
        // The result of an isolated stage has no member `hub`. Its `processes` contain the stage under this name.
        Metric::Cpu => {
            let hub = result.processes.iter().find(|process| process.name == "hub");
            hub.and_then(|hub| hub.cpu_us_per_operation)
        }
    };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Group = Group { points: 3..5, repetitions: 3, is_against_first: true };

    fn turns(values: &[(usize, f64)]) -> Vec<FinishedRun> {
        let turn = |&(point, cpu): &(usize, f64)| FinishedRun {
            point,
            figures: Some([Some(1_000.0 / cpu), None, None, None, Some(cpu)]),
        };
        values.iter().map(turn).collect()
    }

    fn verdict(values: &[(usize, f64)], figure: Metric, at_most_percent: f64) -> ClaimResult {
        let pairs = pairs_of(&GROUP, &[turns(values)]);
        let claim = Claim { text: "it is cheap".to_owned(), point: 1, figure, at_most_percent };
        judge(&claim, &GROUP, &pairs, |point| format!("point {point}"))
    }

    /// The machine is half as fast in half of the runs; the other point costs about 2 % more in all of them.
    const PHASES: [(usize, f64); 9] = [
        (3, 100.0),
        (4, 102.0),
        (3, 100.0),
        (4, 102.4),
        (3, 100.0),
        (4, 144.4),
        (3, 200.0),
        (4, 203.6),
        (3, 200.0),
    ];

    #[test]
    fn phases_of_the_machine_cancel_out() {
        let [pair] = &pairs_of(&GROUP, &[turns(&PHASES)])[..] else { panic!("one pair") };
        assert_eq!((pair.base, pair.other, pair.figures.len()), (3, 4, 2));
        let cpu = &pair.figures[1];
        assert_eq!((cpu.figure, cpu.base.len()), (Metric::Cpu, 4));
        let difference = cpu.difference.unwrap();
        assert!(difference.low > 0.01 && difference.high < 0.03, "{difference:?}");
        let written = serde_json::to_value(pair).unwrap();
        assert_eq!(written["figures"][1]["figure"], "hub.cpu_us_per_operation");
        assert_eq!(written["figures"][1]["difference"]["confidence"], 0.95);
    }

    #[test]
    fn claims_are_decided_by_the_whole_interval() {
        let cases = [
            (
                Metric::Cpu,
                3.0,
                ClaimVerdict::Holds,
                "holds: CPU time of the hub per operation of “point 4” is 2.1 % higher",
            ),
            (Metric::Cpu, 1.0, ClaimVerdict::Broken, "does not hold: "),
            (Metric::Cpu, 2.0, ClaimVerdict::Untold, "undecided:"),
            (Metric::Throughput, 3.0, ClaimVerdict::Holds, "holds: throughput of “point 4” is 2.0 % lower"),
            (Metric::Median, 3.0, ClaimVerdict::Untold, "not run often enough"),
        ];
        for (figure, at_most_percent, expected, words) in cases {
            let result = verdict(&PHASES, figure, at_most_percent);
            assert_eq!(result.verdict, expected, "{}", result.words);
            assert!(result.words.contains(words), "{}", result.words);
        }
        let once = verdict(&PHASES[..3], Metric::Cpu, 3.0);
        assert_eq!((once.verdict, once.other), (ClaimVerdict::Untold, 4));
    }
}

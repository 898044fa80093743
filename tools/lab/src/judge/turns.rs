//! The figures of runs that took turns, each with the figures of its base.

use crate::plan::metric::Metric;

/// The measured figures of one run, in the order of [`Metric::ALL`].
pub(crate) type RunFigures = [Option<f64>; Metric::ALL.len()];

/// A finished run: its point, and its figures if there are any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedRun {
    pub point: usize,
    pub figures: Option<RunFigures>,
}

/// The figures of `other`, each with the base's figures at the same time, from consecutive turns.
pub(crate) fn beside_base(turns: &[FinishedRun], base: usize, other: usize) -> Vec<(RunFigures, RunFigures)> {
    let figures_at = |place: Option<usize>| {
        let turn = turns.get(place?)?;
        turn.figures.filter(|_| turn.point == base)
    };
    let pair = |(place, turn): (usize, &FinishedRun)| {
        let figures = turn.figures.filter(|_| turn.point == other)?;
        let (before, after) = (figures_at(place.checked_sub(1)), figures_at(Some(place + 1)));
        let base = match (before, after) {
            (Some(before), Some(after)) => middle(before, after),
            (one, another) => one.or(another)?,
        };
        Some((base, figures))
    };
    turns.iter().enumerate().filter_map(pair).collect()
}

/// The geometric mean, because differences are ratios.
#[expect(clippy::float_arithmetic, reason = "means of measurements; no money")]
fn middle(before: RunFigures, after: RunFigures) -> RunFigures {
    let mut middle = before;
    for (place, after) in middle.iter_mut().zip(after) {
        *place = place.zip(after).map(|(before, after)| (before * after).sqrt());
    }
    middle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_base_is_replaced_by_its_neighbour() {
        let turn = |point, throughput: Option<f64>| FinishedRun {
            point,
            figures: throughput.map(|throughput| [Some(throughput), None, None, None, None]),
        };
        // A linear drift on a logarithmic scale: each run is twice as fast as the one before.
        let drifting = [turn(0, Some(1.0)), turn(1, Some(2.0)), turn(0, Some(4.0))];
        let pairs = beside_base(&drifting, 0, 1);
        assert_eq!(pairs, [([Some(2.0), None, None, None, None], [Some(2.0), None, None, None, None])]);
        let failed = [
            turn(0, None),
            turn(1, Some(3.0)),
            turn(0, Some(5.0)),
            turn(2, Some(9.0)),
            turn(0, None),
            turn(1, None),
            turn(0, Some(5.0)),
            turn(1, Some(8.0)),
        ];
        let throughputs: Vec<_> =
            beside_base(&failed, 0, 1).iter().map(|(base, other)| (base[0], other[0])).collect();
        assert_eq!(throughputs, [(Some(5.0), Some(3.0)), (Some(5.0), Some(8.0))]);
        assert!(beside_base(&[turn(0, None), turn(1, Some(1.0)), turn(0, None)], 0, 1).is_empty());
    }
}

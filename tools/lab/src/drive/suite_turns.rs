//! The order in which the runs of a suite take turns.
//!
//! Machines that others use have phases: for some minutes everything is slower, then it is not. Runs that are compared
//! must be affected alike. So a run that is compared with a base is made between two runs of the base, A B A C A B A C
//! A, and compared with the mean of these two. A phase affects both, and a linear drift cancels out.

use std::ops::Range;

use crate::report::Metric;

/// Points that belong together: those of one scenario.
#[derive(Clone, Debug)]
pub struct Group {
    pub points: Range<usize>,
    /// Repetitions of each point each time that the suite is run.
    pub repetitions: usize,
    /// Whether the others are compared with the first one.
    pub is_against_first: bool,
}

impl Group {
    /// The points in the order of their runs, for one of the `suite_repetitions` times that the suite is run.
    pub fn turns(&self, suite_repetitions: usize) -> Vec<usize> {
        let is_interleaved = self.is_against_first && self.repetitions * suite_repetitions > 1;
        if !is_interleaved {
            return (0..self.repetitions).flat_map(|_| self.points.clone()).collect();
        }
        let base = self.points.start;
        let others = (0..self.repetitions).flat_map(|_| self.points.clone().skip(1));
        [base].into_iter().chain(others.flat_map(|other| [other, base])).collect()
    }
}

/// The measured figures of one run, in the order of [`Metric::ALL`].
pub(crate) type Figures = [Option<f64>; Metric::ALL.len()];

/// A finished run: its point, and its figures if there are any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub point: usize,
    pub figures: Option<Figures>,
}

/// The figures of `other` with those of the base at the same time, from consecutive turns.
pub(crate) fn beside_base(turns: &[Turn], base: usize, other: usize) -> Vec<(Figures, Figures)> {
    let figures_at = |place: Option<usize>| {
        let turn = turns.get(place?)?;
        turn.figures.filter(|_| turn.point == base)
    };
    let pair = |(place, turn): (usize, &Turn)| {
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
fn middle(before: Figures, after: Figures) -> Figures {
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
    fn what_is_compared_runs_between_two_runs_of_the_base() {
        let group = |points, repetitions, is_against_first| Group { points, repetitions, is_against_first };
        for (group, suite_repetitions, expected) in [
            (group(0..3, 1, true), 1, &[0, 1, 2][..]),
            (group(4..6, 3, true), 1, &[4, 5, 4, 5, 4, 5, 4]),
            (group(0..3, 2, true), 1, &[0, 1, 0, 2, 0, 1, 0, 2, 0]),
            (group(0..3, 1, true), 2, &[0, 1, 0, 2, 0]),
            (group(0..3, 2, false), 1, &[0, 1, 2, 0, 1, 2]),
            (group(7..8, 2, false), 5, &[7, 7]),
        ] {
            assert_eq!(group.turns(suite_repetitions), expected, "{group:?}");
        }
    }

    #[test]
    fn a_base_that_failed_is_left_to_its_neighbour() {
        let turn = |point, throughput: Option<f64>| Turn {
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

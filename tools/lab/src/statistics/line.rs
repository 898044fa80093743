//! A line through points, by least squares.
#![expect(clippy::float_arithmetic, reason = "least squares over measurements; no money")]

use super::ratio;

/// Minimum number of points for a line.
const POINTS_MIN: usize = 3;

/// A line that was fitted to points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f64,
    /// Its value at the first point.
    pub start: f64,
    /// Its value at the last point.
    pub end: f64,
}

impl Line {
    /// Fits a line to points, which are in the order of their first coordinate. `None` for fewer than three points, or
    /// if the first and the last are at the same place.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        if points.len() < POINTS_MIN || last.0 <= first.0 {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let above: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let below: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let slope = ratio(above, below)?;
        let at = |x: f64| mean_y + slope * (x - mean_x);
        Some(Self { slope, start: at(first.0), end: at(last.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_around_line_give_its_slope_and_ends() {
        let points: Vec<(f64, f64)> =
            (0..100).map(|x| (f64::from(x), 5.0 + 2.0 * f64::from(x) + f64::from(x % 2))).collect();
        let line = Line::through(&points).unwrap();
        assert!((line.slope - 2.0).abs() < 0.001, "{line:?}");
        assert!((line.start - 5.5).abs() < 0.1 && (line.end - 203.5).abs() < 0.1, "{line:?}");
    }

    #[test]
    fn few_points_or_one_place_give_no_line() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(Line::through(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}

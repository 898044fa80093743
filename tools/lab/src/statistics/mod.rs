//! Statistics of measurements: rates, medians and ratios; in `intervals.rs` the intervals of repeated measurements, in
//! `line.rs` lines through points.
#![expect(clippy::float_arithmetic, reason = "rates, medians and ratios of measurements; no money")]

pub(crate) mod intervals;
pub(crate) mod line;

use std::time::Duration;

use hdrhistogram::Histogram;

/// Maximum distinguishable latency, in microseconds; longer ones count as this value.
pub const LATENCY_US_MAX: u64 = 600_000_000;

/// A histogram of microseconds with three significant digits.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"))
}

pub fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// `part / whole`; `None` if the whole is zero.
pub fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

pub fn times(figure: f64, count: usize) -> f64 {
    figure * count as f64
}

pub fn milliseconds(us: u64) -> f64 {
    us as f64 / 1e3
}

/// The mean of a histogram of microseconds, in milliseconds.
pub fn mean_milliseconds(histogram: &Histogram<u64>) -> f64 {
    histogram.mean() / 1e3
}

/// The share of values above a bound.
pub fn share_above(histogram: &Histogram<u64>, bound: u64) -> f64 {
    let below = histogram.count_between(0, bound);
    ratio(histogram.len().saturating_sub(below) as f64, histogram.len() as f64).unwrap_or(0.0)
}

pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

/// Microseconds of CPU per event; `None` without events.
pub fn us_per_event(cpu: Duration, count: u64) -> Option<f64> {
    ratio(cpu.as_micros() as f64, count as f64)
}

/// Share of one core that was used.
pub fn cores_used(cpu: Duration, time: Duration) -> Option<f64> {
    ratio(cpu.as_secs_f64(), time.as_secs_f64())
}

/// The median; for an even number of values, the mean of the middle two. `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// `value / of`; 0 if `of` is 0.
pub fn part(value: f64, of: f64) -> f64 {
    ratio(value, of).unwrap_or(0.0)
}

/// The percentiles `percents` of the values; 0 without values.
pub fn quantiles<const COUNT: usize>(
    values: impl IntoIterator<Item = f64>,
    percents: [usize; COUNT],
) -> [f64; COUNT] {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    percents.map(|percent| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0.0)
    })
}

/// A value rounded to a number of decimals, for reports.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_do_not_depend_on_order() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 5.0, 7.0]), Some(6.0));
    }

    #[test]
    fn ratio_with_a_zero_base_is_absent() {
        assert_eq!(per_second(5, Duration::ZERO), 0.0);
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(us_per_event(Duration::from_secs(1), 0), None);
        assert_eq!(us_per_event(Duration::from_millis(1), 10), Some(100.0));
        assert_eq!(per_second(500, Duration::from_millis(250)), 2000.0);
        assert_eq!(rounded(0.123_456, 3), 0.123);
    }

    #[test]
    fn latency_beyond_the_bound_counts_as_the_bound() {
        let mut histogram = latency_histogram();
        histogram.saturating_record(u64::MAX);
        assert!(histogram.max() >= LATENCY_US_MAX);
    }
}

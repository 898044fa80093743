//! Counting by the second, in memory that does not grow with the run.

use hdrhistogram::Histogram;

use crate::result::distribution::written;
use crate::result::latency::SECOND_US;
use crate::result::schema::TimelineRow;
use crate::result::statistics::{LATENCY_US_MAX, milliseconds, ratio, rounded};

/// What happened on one worker, or on all, since it was last looked at.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Latency of what completed, in microseconds, to two digits: coarse, but small enough to be copied each second.
    latency: Histogram<u64>,
    completed: u64,
    over_1s: u64,
    failed: u64,
    offered: u64,
}

impl Default for Interval {
    fn default() -> Self {
        Self { latency: interval_histogram(), completed: 0, over_1s: 0, failed: 0, offered: 0 }
    }
}

/// A histogram of microseconds with two significant digits.
pub(crate) fn interval_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 2)
        .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"))
}

/// The percentiles of an interval, of those that completed in it.
pub(crate) fn percentiles(latency: &Histogram<u64>) -> TimelineRow {
    let known = |us: u64| (!latency.is_empty()).then(|| rounded(milliseconds(us), 2));
    let at = |quantile| known(latency.value_at_quantile(quantile));
    TimelineRow {
        p50_ms: at(0.5),
        p90_ms: at(0.9),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        p9999_ms: at(0.9999),
        max_ms: known(latency.max()),
        ..TimelineRow::default()
    }
}

impl Interval {
    /// An operation was begun, or should have been.
    pub const fn offer(&mut self) {
        self.offered += 1;
    }

    /// An operation ended; with its latency in microseconds when it completed.
    pub fn end(&mut self, latency_us: Option<u64>) {
        match latency_us {
            Some(latency_us) => {
                self.latency.saturating_record(latency_us);
                self.completed += 1;
                self.over_1s += u64::from(latency_us > SECOND_US);
            }
            None => self.failed += 1,
        }
    }

    /// Moves everything into another.
    pub fn drain_into(&mut self, sum: &mut Self) {
        // Cannot fail: both have the same bounds.
        let _ = sum.latency.add(&self.latency);
        self.latency.reset();
        sum.completed += std::mem::take(&mut self.completed);
        sum.over_1s += std::mem::take(&mut self.over_1s);
        sum.failed += std::mem::take(&mut self.failed);
        sum.offered += std::mem::take(&mut self.offered);
    }

    /// As a row that ends at `t`.
    pub fn row(&self, t: f64) -> TimelineRow {
        TimelineRow {
            t,
            completed: self.completed,
            failed: self.failed,
            offered: self.offered,
            share_over_1s: ratio(self.over_1s as f64, self.completed as f64).map(|share| rounded(share, 6)),
            ..percentiles(&self.latency)
        }
    }

    /// Its latencies, for merging.
    pub fn histogram(&self) -> String {
        written(&self.latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_is_counted_once() {
        let (mut worker, mut sum) = (Interval::default(), Interval::default());
        worker.offer();
        worker.offer();
        worker.end(Some(10_000));
        worker.end(None);
        worker.drain_into(&mut sum);
        worker.drain_into(&mut sum);
        let row = sum.row(1.0);
        assert_eq!((row.completed, row.failed, row.offered), (1, 1, 2));
        assert!(row.p99_ms.is_some_and(|p99| (9.9..10.2).contains(&p99)));
        assert_eq!(worker.row(2.0), TimelineRow { t: 2.0, ..TimelineRow::default() });
    }

    #[test]
    fn a_row_tells_the_whole_distribution_and_its_histogram_gives_it_again() {
        let mut interval = Interval::default();
        for ms in 1..=20_000_u64 {
            // One of twenty thousand is a minute, fifty are two seconds, the rest below a tenth of one.
            let ms = if ms == 1 {
                60_000
            } else if ms <= 51 {
                2_000
            } else {
                ms % 100 + 1
            };
            interval.end(Some(ms * 1_000));
        }
        let row = interval.row(1.0);
        let near = |value: Option<f64>, wanted: f64| value.is_some_and(|ms| (ms / wanted - 1.0).abs() < 0.03);
        for (value, wanted) in [
            (row.p50_ms, 50.0),
            (row.p90_ms, 90.0),
            (row.p95_ms, 95.0),
            (row.p99_ms, 99.0),
            (row.p999_ms, 2_000.0),
            (row.p9999_ms, 2_000.0),
            (row.max_ms, 60_000.0),
        ] {
            assert!(near(value, wanted), "{wanted}: {row:?}");
        }
        // Counted, not read from the coarse histogram: exactly a second is not longer.
        assert_eq!(row.share_over_1s, Some(0.002_55));
        interval.end(Some(SECOND_US));
        assert_eq!(interval.over_1s, 51);
        let text = interval.histogram();
        assert!(text.len() < 600, "{} characters are more than an hour of them should need", text.len());
        let again = percentiles(&crate::result::distribution::read_histogram(&text).unwrap());
        assert_eq!((again.p99_ms, again.max_ms), (row.p99_ms, row.max_ms));
    }
}

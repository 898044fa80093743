//! Counting by the second, in memory that does not grow with the run.

use hdrhistogram::Histogram;

use crate::measured::TimelineRow;
use crate::statistics::{LATENCY_US_MAX, milliseconds, rounded};

/// What happened on one worker, or on all, since it was last looked at.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Latency of what completed, in microseconds, to two digits: coarse, but small enough to be copied each second.
    latency: Histogram<u64>,
    completed: u64,
    failed: u64,
    offered: u64,
}

impl Default for Interval {
    fn default() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_US_MAX, 2)
            .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"));
        Self { latency, completed: 0, failed: 0, offered: 0 }
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
        sum.failed += std::mem::take(&mut self.failed);
        sum.offered += std::mem::take(&mut self.offered);
    }

    /// As a row that ends at `t`.
    pub fn row(&self, t: f64) -> TimelineRow {
        let at = |us: u64| (self.completed > 0).then(|| rounded(milliseconds(us), 2));
        TimelineRow {
            t,
            completed: self.completed,
            failed: self.failed,
            offered: self.offered,
            p50_ms: at(self.latency.value_at_quantile(0.5)),
            p99_ms: at(self.latency.value_at_quantile(0.99)),
            max_ms: at(self.latency.max()),
            ..TimelineRow::default()
        }
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
}

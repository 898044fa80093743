//! Counters of a lane, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the start, which only increase.
#[derive(Debug, Default)]
pub struct LaneMetrics {
    /// Callbacks delivered: answered with any 2xx.
    pub delivered: AtomicU64,
    /// Attempts answered with another status.
    pub refused: AtomicU64,
    /// Attempts without an answer.
    pub unreachable: AtomicU64,
    /// Callbacks parked.
    pub parked: AtomicU64,
    /// Number of times that the breaker opened.
    pub breaker_opened: AtomicU64,
    /// Number of times that the lane had to catch up from the outbox; 1 is the start.
    pub catch_ups: AtomicU64,
    /// Number of failed reads of the outbox.
    pub backlog_failures: AtomicU64,
    /// Direct messages that were answered with any status.
    pub relayed: AtomicU64,
    /// Direct messages that were not answered, or not sent.
    pub relay_failures: AtomicU64,
    /// Time from sending a request to its answer.
    pub attempt_duration: Histogram,
    /// Time from a callback's arrival in the lane to its delivery.
    pub delivery_duration: Histogram,
    /// Time from a callback's arrival in the lane to the end of an attempt that failed.
    pub failure_duration: Histogram,
    /// Time from the decision of a prepare to its delivery to the payee.
    pub prepare_duration: Histogram,
    /// Time from the decision of a payee's fulfil or decline to its delivery to the payer.
    pub fulfil_duration: Histogram,
    /// Time from the decision of a prepare to the delivery of the payee's fulfil or decline to the payer, once per
    /// transfer.
    pub transfer_duration: Histogram,
}

/// A histogram of durations with fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; Self::BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Upper limits of the buckets except the last, in microseconds.
    pub const BOUNDS_US: [u64; 16] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        2_500_000, 5_000_000, 10_000_000,
    ];

    pub(crate) fn observe(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(Self::BOUNDS_US.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Adds all durations of another histogram.
    pub fn absorb(&self, other: &Self) {
        for (bucket, more) in self.buckets.iter().zip(other.counts()) {
            bucket.fetch_add(more, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(other.sum_us(), Ordering::Relaxed);
    }

    /// The count of each bucket; the last one has no upper limit.
    pub fn counts(&self) -> [u64; Self::BOUNDS_US.len() + 1] {
        std::array::from_fn(|index| self.buckets[index].load(Ordering::Relaxed))
    }

    /// The sum of all durations, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_us: AtomicU64::new(0) }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_their_buckets() {
        let histogram = Histogram::default();
        for us in [0, 100, 101, 10_000_000, 10_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        let counts = histogram.counts();
        assert_eq!((counts[0], counts[1], counts[15], counts[16]), (2, 1, 1, 1));
        assert_eq!(counts.iter().sum::<u64>(), 5);
        assert_eq!(histogram.sum_us(), 20_000_202);
        let both = Histogram::default();
        both.observe(Duration::from_micros(7));
        both.absorb(&histogram);
        assert_eq!((both.counts()[0], both.counts()[16], both.sum_us()), (3, 1, 20_000_209));
    }
}

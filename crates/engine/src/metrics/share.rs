//! A histogram that a whole batch is added to in one step.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::MOJALOOP_SECONDS;

/// A histogram of durations under a Mojaloop metric name. The commands of a batch share the batch's time, so a batch
/// contributes many equal durations, which are counted together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ShareHistogram(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of durations in each bucket. The last bucket has no upper bound.
    buckets: [AtomicU64; MOJALOOP_SECONDS.len() + 1],
    sum_ns: AtomicU64,
}

impl ShareHistogram {
    /// Counts `count` durations of `share` each.
    pub fn observe_many(&self, share: Duration, count: u64) {
        let (seconds, counts) = (share.as_secs_f64(), &self.0);
        let bucket = MOJALOOP_SECONDS.iter().position(|bound| seconds <= *bound);
        counts.buckets[bucket.unwrap_or(MOJALOOP_SECONDS.len())].fetch_add(count, Ordering::Relaxed);
        let share_ns = u64::try_from(share.as_nanos()).unwrap_or(u64::MAX);
        counts.sum_ns.fetch_add(share_ns.saturating_mul(count), Ordering::Relaxed);
    }
}

impl EncodeMetric for ShareHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = MOJALOOP_SECONDS.into_iter().chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count: u64 = buckets.iter().map(|(_, count)| *count).sum();
        let sum = Duration::from_nanos(self.0.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_batch_counts_as_often_as_it_has_shares() {
        let (histogram, mut registry) = (ShareHistogram::default(), Registry::default());
        registry.register("shares", "Shares", histogram.clone());
        for (share_ms, count) in [(10, 25), (50, 5), (6_000, 1), (1, 0)] {
            histogram.observe_many(Duration::from_millis(share_ms), count);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "# TYPE shares histogram",
            "shares_sum 6.5",
            "shares_count 31",
            r#"shares_bucket{le="0.01"} 25"#,
            r#"shares_bucket{le="0.05"} 30"#,
            r#"shares_bucket{le="5.0"} 30"#,
            r#"shares_bucket{le="+Inf"} 31"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}

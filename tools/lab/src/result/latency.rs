//! Latency in results, of whole operations and of their phases.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use upesi_sim::Phase;

use crate::result::exchanges::Exchanges;
use crate::result::schema::HistogramResult;
use crate::statistics::{
    LATENCY_US_MAX, latency_histogram, mean_milliseconds, milliseconds, rounded, share_above,
};

/// One second, in microseconds: the limit of Mojaloop's performance programme of 2020.
pub(crate) const SECOND_US: u64 = 1_000_000;

/// Latency from the first request (in an open loop: from its due time) to the last callback, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyMs {
    /// The fastest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The slowest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// Share of operations that took longer than one second, 0 to 1.
    pub share_over_1s: f64,
}

impl LatencyMs {
    /// Reads the percentiles of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| rounded(milliseconds(histogram.value_at_quantile(quantile)), 3);
        Self {
            min: rounded(milliseconds(histogram.min()), 3),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: rounded(milliseconds(histogram.max()), 3),
            mean: rounded(mean_milliseconds(histogram), 3),
            share_over_1s: rounded(share_above(histogram, SECOND_US), 6),
        }
    }

    /// Latency of several intervals together, from the `histograms` of a timeline. Unreadable ones are skipped.
    pub fn of_intervals<'text>(histograms: impl IntoIterator<Item = &'text str>) -> Self {
        let mut sum = latency_histogram();
        for histogram in histograms.into_iter().filter_map(read_histogram) {
            // Cannot fail: only the number of digits differs, and not the bounds.
            let _ = sum.add(&histogram);
        }
        Self::of(&sum)
    }
}

/// One phase of the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseResult {
    /// Latency from the end of the previous phase, of the operations that began in the measured time.
    pub latency_ms: LatencyMs,
    /// The outcomes of its requests, including warm-up.
    pub exchanges: Exchanges,
}

/// The phases of the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// Finding the payee: `GET /parties` until `PUT /parties`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<PhaseResult>,
    /// Agreeing the terms: `POST /quotes` until `PUT /quotes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<PhaseResult>,
    /// Buying the payee's currency: `POST /fxTransfers` until `PUT /fxTransfers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversion: Option<PhaseResult>,
    /// Moving the money: `POST /transfers` until `PUT /transfers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<PhaseResult>,
}

impl Phases {
    /// The place of a phase.
    pub(crate) const fn place(&mut self, phase: Phase) -> &mut Option<PhaseResult> {
        match phase {
            Phase::Lookup => &mut self.discovery,
            Phase::Quote => &mut self.agreement,
            Phase::FxTransfer => &mut self.conversion,
            Phase::Transfer => &mut self.transfer,
        }
    }

    /// One phase, if the scenario has it.
    pub fn get(mut self, phase: Phase) -> Option<PhaseResult> {
        *self.place(phase)
    }
}

/// Significant digits of the buckets; the merged form keeps three.
const BUCKET_DIGITS: u8 = 2;

impl HistogramResult {
    /// The result form of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut coarse = Histogram::<u64>::new_with_bounds(1, LATENCY_US_MAX, BUCKET_DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"));
        add(&mut coarse, histogram);
        let buckets =
            coarse.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        Self { unit: "us".into(), buckets, v2_deflate_base64: written(histogram), ..Self::default() }
    }
}

/// Adds counts, whatever the bounds of either.
pub(crate) fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    for step in more.iter_recorded() {
        sum.saturating_record_n(step.value_iterated_to(), step.count_at_value());
    }
}

/// A histogram as text: HdrHistogram V2, deflated, in base64.
pub(crate) fn written(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    let _ = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    STANDARD.encode(bytes)
}

/// Reads the output of [`written`]; `None` if it has another form.
pub(crate) fn read_histogram(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timeline::Interval;
    use crate::statistics::latency_histogram;

    #[test]
    fn latency_of_intervals_equals_the_whole() {
        let text = |latencies_us: &[u64]| {
            let mut interval = Interval::default();
            latencies_us.iter().for_each(|us| interval.end(Some(*us)));
            interval.histogram()
        };
        // The maximum of an interval is the maximum of the whole. The p99 is of all 200 values, not of one interval.
        let texts = [text(&[1_000; 99]), text(&[1_000; 100]), text(&[90_000])];
        let latency = LatencyMs::of_intervals(texts.iter().map(String::as_str));
        assert!((0.9..=1.1).contains(&latency.p99) && latency.max >= 89.0, "{latency:?}");
        let worse = [text(&[1_000; 96]), text(&[90_000; 4]), "nonsense".to_owned()];
        assert!(LatencyMs::of_intervals(worse.iter().map(String::as_str)).p99 >= 89.0);
        assert_eq!(LatencyMs::of_intervals([]), LatencyMs::default());
    }

    #[test]
    fn histogram_is_read_unchanged_and_its_buckets_hold_all_counts() {
        let mut histogram = latency_histogram();
        for value in 1..5_000_u64 {
            histogram.saturating_record(value * value % 900_001);
        }
        let result = HistogramResult::of(&histogram);
        assert_eq!(read_histogram(&result.v2_deflate_base64).unwrap(), histogram);
        assert_eq!(result.buckets.iter().map(|(_, count)| count).sum::<u64>(), histogram.len());
        assert!(result.buckets.is_sorted() && result.buckets.len() < 2_500);
        assert!(read_histogram("nonsense").is_none() && read_histogram("").is_none());
        assert!(HistogramResult::of(&latency_histogram()).buckets.is_empty());
    }
}

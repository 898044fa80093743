//! The distribution of latency as results carry it, and back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use upesi_sim::Phase;

use crate::observe::tally::Tally;
use crate::result::latency::Phases;
use crate::result::schema::HistogramResult;
use crate::result::statistics::LATENCY_US_MAX;

/// Significant digits of the buckets; the merged form keeps three.
const BUCKET_DIGITS: u8 = 2;

impl HistogramResult {
    /// Of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut coarse = Histogram::<u64>::new_with_bounds(1, LATENCY_US_MAX, BUCKET_DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are constants that the library accepts"));
        add(&mut coarse, histogram);
        let buckets =
            coarse.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        Self { unit: "us".into(), buckets, v2_deflate_base64: written(histogram), ..Self::default() }
    }

    /// Everything that was recorded of latency, by phase too, and of an open loop's lag.
    pub(crate) fn recorded(tally: &Tally, phases: &[Phase], is_open: bool) -> Self {
        Self {
            phases: Phases::histograms(phases, tally),
            schedule_lag: is_open.then(|| written(&tally.lag)),
            ..Self::of(&tally.latency)
        }
    }
}

/// Adds counts whatever the bounds of either.
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

/// Reads what [`written`] wrote; `None` when it is nothing like it.
pub(crate) fn read_histogram(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::statistics::latency_histogram;

    #[test]
    fn a_histogram_survives_its_text_and_its_buckets_hold_everything() {
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

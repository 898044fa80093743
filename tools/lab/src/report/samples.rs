//! The repeated measurements that a run holds, for intervals.

use crate::report::compare::Metric;
use crate::report::run::Run;
use crate::result::SliceResult;
use crate::result::schema::TimelineRow;
use crate::result::statistics::median;

/// Blocks into which a timeline is cut where a run was not repeated: enough for an interval, few enough that neighbours
/// are nearly independent.
const BLOCKS: usize = 10;
/// Fewest rows of a block.
const BLOCK_ROWS_MIN: usize = 3;

/// Where repeated measurements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Runs that were repeated, each at a moment of its own.
    Repetitions,
    /// Slices of one run, also where they take turns with those of a baseline.
    Slices,
    Blocks,
}

impl Origin {
    /// Whether all of them are parts of one run: they tell the noise within it, and not how the machine differs from
    /// one moment to the next.
    pub const fn is_within_run(self) -> bool {
        matches!(self, Self::Slices | Self::Blocks)
    }
}

/// Repeated measurements of one figure.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub values: Vec<f64>,
    pub origin: Origin,
}

impl Run {
    /// Repeated measurements of a figure, if the run holds any: of repetitions, or else of its slices, or else of its
    /// seconds.
    pub(crate) fn samples(&self, metric: Metric) -> Option<Samples> {
        let sources = [
            (Origin::Repetitions, self.of_repetitions(metric)),
            (Origin::Slices, self.of_slices(metric)),
            (Origin::Blocks, self.of_blocks(metric)),
        ];
        let found = sources.into_iter().find(|(_, values)| values.len() > 1);
        found.map(|(origin, values)| Samples { values, origin })
    }

    /// One value of each run of several. A run that nobody repeated lists its own slices as `repetitions`: these are
    /// none.
    fn of_repetitions(&self, metric: Metric) -> Vec<f64> {
        match metric {
            Metric::Throughput if self.repetitions == self.of_slices(metric) => Vec::new(),
            Metric::Throughput => self.repetitions.clone(),
            _ => self.repeated.get(metric.member()).cloned().unwrap_or_default(),
        }
    }

    fn of_slices(&self, metric: Metric) -> Vec<f64> {
        match metric {
            Metric::Throughput => rates(&self.slices),
            Metric::Ratio => {
                let baseline = self.baseline.as_ref().map(|baseline| rates(&baseline.slices));
                let (own, baseline) = (rates(&self.slices), baseline.unwrap_or_default());
                // Each slice was measured beside the baseline's of the same place.
                if own.len() == baseline.len() {
                    own.iter().zip(&baseline).map(|(own, baseline)| own / baseline).collect()
                } else {
                    Vec::new()
                }
            }
            Metric::Median | Metric::Tail | Metric::Cpu => Vec::new(),
        }
    }

    fn of_blocks(&self, metric: Metric) -> Vec<f64> {
        let rows = self.steady_rows();
        let seconds = self.interval_s();
        let length = (rows.len() / BLOCKS).max(BLOCK_ROWS_MIN);
        rows.chunks_exact(length).filter_map(|block| figure(metric, block, seconds)).collect()
    }

    /// The figure of the whole run; of several runs the one in the middle.
    pub(crate) fn figure(&self, metric: Metric) -> Option<f64> {
        let repeated = self.repeated.get(metric.member()).and_then(|values| median(values.iter().copied()));
        let value = repeated.or_else(|| match metric {
            Metric::Cpu => self.hub_cpu_us(),
            metric => self.number(metric.member()),
        });
        value.filter(|value| value.is_finite())
    }
}

fn rates(slices: &[SliceResult]) -> Vec<f64> {
    slices.iter().map(|slice| slice.throughput_per_s).collect()
}

fn figure(metric: Metric, block: &[TimelineRow], interval_s: f64) -> Option<f64> {
    let middle = |value: fn(&TimelineRow) -> Option<f64>| median(block.iter().filter_map(value));
    let sum = |value: fn(&TimelineRow) -> Option<f64>| block.iter().map(value).sum::<Option<f64>>();
    match metric {
        Metric::Throughput => {
            Some(sum(|row| Some(row.completed as f64))? / (block.len() as f64 * interval_s))
        }
        // The timeline is of the hub alone.
        Metric::Ratio => None,
        Metric::Median => middle(|row| row.p50_ms),
        Metric::Tail => middle(|row| row.p99_ms),
        Metric::Cpu => {
            let completed = sum(|row| Some(row.completed as f64))?;
            let cores = sum(|row| row.hub_cpu_cores)?;
            (completed > 0.0).then(|| cores * interval_s * 1e6 / completed)
        }
    }
}

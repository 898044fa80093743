//! The repeated measurements that a run holds, for intervals.

use crate::compare::Metric;
use crate::run::{Row, Run};
use crate::statistics::median;

/// Blocks into which a timeline is cut where a run was not repeated: enough for an interval, few enough that neighbours are
/// nearly independent.
const BLOCKS: usize = 10;
/// Fewest rows of a block.
const BLOCK_ROWS_MIN: usize = 3;

/// Where repeated measurements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Repetitions, or slices that alternate with those of a baseline.
    Repetitions,
    /// Parts of one run: they tell the noise within the run, not that between runs.
    Blocks,
}

/// Repeated measurements of one figure.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub values: Vec<f64>,
    pub origin: Origin,
}

impl Run {
    /// Repeated measurements of a figure, if the run holds any.
    pub(crate) fn samples(&self, metric: Metric) -> Option<Samples> {
        if metric == Metric::Throughput {
            let slices: Vec<f64> = self.slices.iter().filter_map(|slice| slice.throughput_per_s).collect();
            for values in [&self.repetitions, &slices] {
                if values.len() > 1 {
                    return Some(Samples { values: values.clone(), origin: Origin::Repetitions });
                }
            }
        }
        let rows = self.steady_rows();
        let seconds = self.interval_s();
        let length = (rows.len() / BLOCKS).max(BLOCK_ROWS_MIN);
        let values: Vec<f64> =
            rows.chunks_exact(length).filter_map(|block| figure(metric, block, seconds)).collect();
        (values.len() > 1).then_some(Samples { values, origin: Origin::Blocks })
    }

    /// The figure of the whole run.
    pub(crate) fn figure(&self, metric: Metric) -> Option<f64> {
        let value = match metric {
            Metric::Throughput => self.throughput_per_s,
            Metric::Median => self.latency_ms.p50,
            Metric::Tail => self.latency_ms.p99,
            Metric::Cpu => self.hub_cpu_us(),
        };
        value.filter(|value| value.is_finite())
    }
}

fn figure(metric: Metric, block: &[Row], interval_s: f64) -> Option<f64> {
    let middle = |value: fn(&Row) -> Option<f64>| median(&block.iter().filter_map(value).collect::<Vec<_>>());
    let sum = |value: fn(&Row) -> Option<f64>| block.iter().map(value).sum::<Option<f64>>();
    match metric {
        Metric::Throughput => Some(sum(|row| row.completed)? / (block.len() as f64 * interval_s)),
        Metric::Median => middle(|row| row.p50_ms),
        Metric::Tail => middle(|row| row.p99_ms),
        Metric::Cpu => {
            let completed = sum(|row| row.completed)?;
            let cores = sum(|row| row.hub_cpu_cores)?;
            (completed > 0.0).then(|| cores * interval_s * 1e6 / completed)
        }
    }
}

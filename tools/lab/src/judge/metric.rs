//! The figures by which two runs are told apart, as a result of ours has them.

use crate::report::Metric;

use crate::result::LabResult;

/// What a figure is called in a sentence.
pub(crate) const fn words(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::Ratio => "ratio to the baseline",
        Metric::Median => "p50 latency",
        Metric::Tail => "p99 latency",
        Metric::Cpu => "CPU time of the hub per operation",
    }
}

/// Its value in a result; `None` where it was not measured.
pub(crate) fn value(metric: Metric, result: &LabResult) -> Option<f64> {
    let value = match metric {
        Metric::Throughput => Some(result.throughput_per_s),
        Metric::Ratio => result.ratio,
        Metric::Median => Some(result.latency_ms.p50),
        Metric::Tail => Some(result.latency_ms.p99),
        // One stage alone has no member `hub`: its row among the processes is the same.
        Metric::Cpu => {
            let hub = result.processes.iter().find(|process| process.name == "hub");
            hub.and_then(|hub| hub.cpu_us_per_operation)
        }
    };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

//! The targets of a run.

/// The measured value of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Maximum of the median latency, in milliseconds.
    P50,
    P95,
    P99,
    P999,
    /// Maximum of the slowest operation's latency.
    Max,
    /// Maximum duration of the slowest settlement beside the load, from the close of its window to SETTLED.
    Settlement,
    /// Maximum share of operations over one second, in per mille.
    OverOneSecond,
    /// Maximum share of operations that did not complete, in per mille.
    Failed,
    /// Maximum number of accepted requests without any outcome.
    Lost,
    Throughput,
}

impl TargetKind {
    pub const ALL: [Self; 10] = [
        Self::P50,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Max,
        Self::Settlement,
        Self::OverOneSecond,
        Self::Failed,
        Self::Lost,
        Self::Throughput,
    ];

    /// Its key in scenario files and results.
    pub const fn key(self) -> &'static str {
        match self {
            Self::P50 => "p50_ms",
            Self::P95 => "p95_ms",
            Self::P99 => "p99_ms",
            Self::P999 => "p999_ms",
            Self::Max => "max_ms",
            Self::Settlement => "settlement_ms",
            Self::OverOneSecond => "over_1s_per_mille",
            Self::Failed => "failed_per_mille",
            Self::Lost => "lost",
            Self::Throughput => "throughput_per_s",
        }
    }
}

/// A bound for a measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    pub kind: TargetKind,
    /// The bound. A value equal to it meets the target, except that a latency must be below it.
    pub limit: f64,
}

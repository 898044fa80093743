//! The figures that comparisons of runs show.

use serde::{Deserialize, Serialize};

use crate::figures;

/// A figure of a comparison. In files it has the name of the result's member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    #[default]
    #[serde(rename = "throughput_per_s")]
    Throughput,
    /// Throughput divided by the throughput of a baseline that took turns with the hub: a slow machine slows both.
    #[serde(rename = "ratio")]
    Ratio,
    /// Median latency.
    #[serde(rename = "latency_ms.p50")]
    Median,
    /// 99th percentile of latency.
    #[serde(rename = "latency_ms.p99")]
    Tail,
    #[serde(rename = "hub.cpu_us_per_operation")]
    Cpu,
}

impl Metric {
    /// All figures, in the order of the reports.
    pub const ALL: [Self; 5] = [Self::Throughput, Self::Ratio, Self::Median, Self::Tail, Self::Cpu];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Ratio => "ratio to the baseline",
            Self::Median => "p50",
            Self::Tail => "p99",
            Self::Cpu => "CPU per operation",
        }
    }

    /// The member of a result with this figure.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_per_s",
            Self::Ratio => "ratio",
            Self::Median => "latency_ms.p50",
            Self::Tail => "latency_ms.p99",
            Self::Cpu => "hub.cpu_us_per_operation",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::Ratio)
    }

    /// A value of it with its unit.
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{}/s", figures::number(value)),
            Self::Ratio => figures::number(value),
            Self::Median | Self::Tail => figures::milliseconds(value),
            Self::Cpu => figures::microseconds(value),
        }
    }
}

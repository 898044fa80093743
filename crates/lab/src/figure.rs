//! The figures by which two runs are told apart.

use serde::Serialize;

use crate::result::LabResult;

/// A figure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations completed per second.
    Throughput,
    /// Latency that half of the operations stay below, in milliseconds.
    Median,
    /// Latency that 99 of 100 stay below, in milliseconds.
    Tail,
    /// CPU time of the hub per operation, in microseconds.
    Cpu,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Throughput, Self::Median, Self::Tail, Self::Cpu];

    /// The member of `result.json` that it is.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_per_s",
            Self::Median => "latency_ms.p50",
            Self::Tail => "latency_ms.p99",
            Self::Cpu => "hub.cpu_us_per_operation",
        }
    }

    /// What it is called in a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Median => "p50 latency",
            Self::Tail => "p99 latency",
            Self::Cpu => "CPU time of the hub per operation",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// Its value in a result; `None` where it was not measured.
    pub fn of(self, result: &LabResult) -> Option<f64> {
        let value = match self {
            Self::Throughput => Some(result.throughput_per_s),
            Self::Median => Some(result.latency_ms.p50),
            Self::Tail => Some(result.latency_ms.p99),
            // One stage alone has no member `hub`: its row among the processes is the same.
            Self::Cpu => {
                let hub = result.processes.iter().find(|process| process.name == "hub");
                hub.and_then(|hub| hub.cpu_us_per_operation)
            }
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.member())
    }
}

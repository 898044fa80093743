//! The result of one of several parallel loads.

use serde::{Deserialize, Serialize};

use crate::plan::load_profile::Load;
use crate::plan::scenario::Scenario;
use crate::result::ScheduleResult;
use crate::result::latency::{LatencyMs, Phases};

/// The result of one of several parallel loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadResult {
    /// The kind of its operations.
    pub operation: Scenario,
    /// Its load shape.
    pub load: Load,
    /// Operations that completed in the measured time.
    pub completed: u64,
    /// Operations that began in it and did not complete.
    pub failed: u64,
    /// Completed operations per second, over all slices.
    pub throughput_per_s: f64,
    /// Latency of its operations.
    pub latency_ms: LatencyMs,
    /// Latency by phase.
    pub phases: Phases,
    /// Accuracy of its schedule.
    pub schedule: Option<ScheduleResult>,
}

impl LoadResult {
    /// A line for a terminal.
    pub(crate) fn words(&self) -> String {
        let latency = &self.latency_ms;
        format!(
            "{:.0}/s, {} failed, p50 {:.2} ms, p99 {:.2} ms ({})",
            self.throughput_per_s, self.failed, latency.p50, latency.p99, self.load
        )
    }
}

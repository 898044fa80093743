//! The members of a result. Everything that may be absent is optional.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Reads `null` as the default: a lab writes it where something was not measured.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// Latency in milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Latency {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub p9999: Option<f64>,
    pub max: Option<f64>,
    pub mean: Option<f64>,
    pub share_over_1s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Phase {
    #[serde(default, deserialize_with = "lenient")]
    pub latency_ms: Latency,
}

/// CPU and memory of a process.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Process {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    pub cpu_us_per_operation: Option<f64>,
    pub cores: Option<f64>,
    pub rss_mb: Option<f64>,
    pub rss_peak_mb: Option<f64>,
    pub disk_write_mb: Option<f64>,
    pub context_switches_voluntary: Option<f64>,
    pub context_switches_involuntary: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Slice {
    pub throughput_per_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Baseline {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    pub throughput_per_s: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub latency_ms: Latency,
    pub process: Option<Process>,
    #[serde(default, deserialize_with = "lenient")]
    pub slices: Vec<Slice>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Position {
    #[serde(default, deserialize_with = "lenient")]
    pub participant: String,
    #[serde(default, deserialize_with = "lenient")]
    pub hub: String,
    #[serde(default, deserialize_with = "lenient")]
    pub books: String,
    #[serde(default, deserialize_with = "lenient")]
    pub ok: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Audit {
    #[serde(default, deserialize_with = "lenient")]
    pub ok: bool,
    /// Absent in results of other programs, which then did perform it.
    pub performed: Option<bool>,
    pub accepted: Option<u64>,
    pub finished: Option<u64>,
    pub in_flight: Option<u64>,
    pub lost: Option<u64>,
    pub doubled: Option<u64>,
    pub contradictions: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub positions: Vec<Position>,
    #[serde(default, deserialize_with = "lenient")]
    pub findings: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Schedule {
    pub lag_ms_p99: Option<f64>,
    pub skipped: Option<u64>,
    pub valid: Option<bool>,
}

/// One interval of the timeline; `t` is the second at its end.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Row {
    #[serde(default, deserialize_with = "lenient")]
    pub t: f64,
    pub completed: Option<f64>,
    pub failed: Option<f64>,
    pub offered: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    pub hub_cpu_cores: Option<f64>,
    pub hub_rss_mb: Option<f64>,
    pub hub_disk_mb: Option<f64>,
    pub queue_ingress: Option<f64>,
    pub queue_engine: Option<f64>,
    pub queue_callbacks: Option<f64>,
    pub queue_relay: Option<f64>,
}

/// A target beside what was measured.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Target {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    pub limit: Option<f64>,
    #[serde(alias = "value")]
    pub measured: Option<f64>,
    /// Absent where it was not judged.
    pub met: Option<bool>,
    pub not_judged: Option<String>,
}

/// One probe of a search for the highest rate.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Probe {
    pub rate_per_s: Option<f64>,
    pub throughput_per_s: Option<f64>,
    pub p99_ms: Option<f64>,
    pub lost: Option<u64>,
    pub idle_share: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub met: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub reasons: Vec<String>,
}

/// What a search for the highest rate found.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Breakpoint {
    pub highest_met_per_s: Option<f64>,
    pub lowest_missed_per_s: Option<f64>,
    pub limited_by: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub probes: Vec<Probe>,
}

impl Breakpoint {
    /// Whether the load generator gave up before the hub did.
    pub fn is_generators(&self) -> bool {
        self.limited_by.as_deref() == Some("generator")
    }
}

/// How one figure moved.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct DriftRow {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    pub start: Option<f64>,
    pub end: Option<f64>,
    pub per_hour: Option<f64>,
    pub change: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub verdict: String,
}

/// What time did to the hub.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Drift {
    pub seconds: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub rows: Vec<DriftRow>,
    pub disk_bytes_per_operation: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub programme_2020: Vec<Target>,
    pub kept_up: Option<Target>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Timeline {
    pub interval_s: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub rows: Vec<Row>,
}

/// Counts per latency: each bucket is its upper bound in microseconds and how many were in it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Histogram {
    #[serde(default, deserialize_with = "lenient")]
    pub buckets: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Stage {
    #[serde(default, deserialize_with = "lenient")]
    pub stage: String,
    pub per_s: Option<f64>,
    pub mean_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub queue_depth: Option<f64>,
    pub batch_mean: Option<f64>,
    pub cpu_share: Option<f64>,
}

/// One of several loads at the same time.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct LoadPart {
    #[serde(default, deserialize_with = "lenient")]
    pub operation: String,
    #[serde(default)]
    pub load: Value,
    pub throughput_per_s: Option<f64>,
    pub failed: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub latency_ms: Latency,
    pub schedule: Option<Schedule>,
}

/// One of the load generators whose results were merged.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Generator {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
    #[serde(default, deserialize_with = "lenient")]
    pub environment: Map<String, Value>,
    pub throughput_per_s: Option<f64>,
    pub failed: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub latency_ms: Latency,
    pub schedule: Option<Schedule>,
    pub validity: Option<Validity>,
    pub window: Option<Window>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Validity {
    pub valid: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub findings: Vec<String>,
}

/// Whether the hub did what was asked of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Thresholds {
    pub met: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub findings: Vec<String>,
}

/// What the load generator's machine had left.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Machine {
    pub shared: Option<bool>,
    pub full: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    pub words: String,
}

/// The steady window: seconds left out at the start and at the end, and what is between.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Window {
    pub trimmed_start_s: Option<f64>,
    pub trimmed_end_s: Option<f64>,
    pub seconds: Option<f64>,
    pub stolen_share: Option<f64>,
}

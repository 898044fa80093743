//! The measurements beside throughput and latency: the members that version 2 of `result.json` added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A word that this program writes as a constant and reads as any text.
pub type Name = std::borrow::Cow<'static, str>;

/// One interval of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct TimelineRow {
    /// Seconds of load from the start of the run to the end of this interval.
    pub t: f64,
    /// Operations that completed in it.
    pub completed: u64,
    /// Operations that ended in it without completion.
    pub failed: u64,
    /// Operations that began, or were due.
    pub offered: u64,
    /// Median latency of the completed operations, in milliseconds; absent if there are none.
    pub p50_ms: Option<f64>,
    /// The 90th percentile.
    pub p90_ms: Option<f64>,
    /// The 95th percentile.
    pub p95_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// The 99.9th percentile.
    pub p999_ms: Option<f64>,
    /// The 99.99th percentile.
    pub p9999_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
    /// Share of the completed operations that took longer than one second, 0 to 1.
    pub share_over_1s: Option<f64>,
    /// Cores that the hub kept busy; absent if its process is not on this machine.
    pub hub_cpu_cores: Option<f64>,
    /// The hub's resident memory in MiB.
    pub hub_rss_mb: Option<f64>,
    /// Size of the hub's data directory in MiB, if the lab knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_disk_mb: Option<f64>,
    /// Depths of the hub's queues at the end of the interval.
    #[serde(flatten)]
    pub queues: Queues,
}

/// Depths of the hub's queues at one moment, or their means; absent if the hub does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Queues {
    /// Admitted requests that wait for the engine's answer: for their turn, the decision and the journal.
    #[serde(rename = "queue_ingress", skip_serializing_if = "Option::is_none")]
    pub ingress: Option<f64>,
    /// Commands that wait to be decided.
    #[serde(rename = "queue_engine", skip_serializing_if = "Option::is_none")]
    pub engine: Option<f64>,
    /// Callbacks that wait in the lanes of all DFSPs, for their first attempt or another.
    #[serde(rename = "queue_callbacks", skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<f64>,
    /// Lookups, quotes and similar messages that are being forwarded.
    #[serde(rename = "queue_relay", skip_serializing_if = "Option::is_none")]
    pub relay: Option<f64>,
}

/// The run second by second, including warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineResult {
    /// Length of an interval in seconds.
    pub interval_s: u32,
    /// The intervals in order. Each slice starts a new one; an interval that the end of a slice cuts short is left out.
    #[serde(serialize_with = "one_line")]
    pub rows: Vec<TimelineRow>,
    /// The latencies of each row, to two digits, as [`HistogramResult::v2_deflate_base64`]: for merging.
    #[serde(serialize_with = "one_line")]
    pub histograms: Vec<String>,
    /// The run in steps of about 100 ms, without the hub's figures, if the load varies; not written to `result.json`.
    #[serde(skip)]
    pub steps: Vec<TimelineRow>,
}

/// The distribution of latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistogramResult {
    /// `us`: microseconds.
    pub unit: Name,
    /// Highest value and count of each bucket that is not empty, to two significant digits.
    #[serde(serialize_with = "one_line")]
    pub buckets: Vec<(u64, u64)>,
    /// The whole distribution, to three digits, as HdrHistogram V2, deflated, in base64: for merging.
    pub v2_deflate_base64: String,
    /// The distributions by phase, if there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<Name, String>,
    /// The distribution of the arrivals' lag, in the same form; open loop only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_lag: Option<String>,
}

/// One stage of the hub, from its metrics and its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageResult {
    /// `prepare`, `fulfil`, `journal_sync`, `callback` and so on; see docs/lab/result.md.
    pub stage: String,
    /// Operations in the measured time.
    pub operations: u64,
    /// Operations per second.
    pub per_s: f64,
    /// Mean time of one, in microseconds.
    pub mean_us: f64,
    /// Median time, for a stage that was measured alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99th percentile over all slices, read from the hub's histogram, so no finer than its buckets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Mean number waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<f64>,
    /// Mean number handled at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_mean: Option<f64>,
    /// Share of the hub's CPU that its threads used, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

/// Resource usage of one process in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRow {
    /// `hub`, `lab` (load generator and DFSPs) or `forwarder`. If the hub has several processes, `hub` is all of them
    /// together, and `hub, PROGRAM PID` is each.
    pub name: String,
    /// User and system time per completed operation, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// Cores kept busy.
    pub cores: Option<f64>,
    /// Resident memory at the end, in MiB. For parts of one process, the first part has the value of the whole, and the
    /// others have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_mb: Option<f64>,
    /// Peak of resident memory since the process started, in MiB; for parts of one process as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak_mb: Option<f64>,
    /// Data written to storage, in MiB; absent if the kernel does not report it, and for a part of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_write_mb: Option<f64>,
    /// Voluntary context switches of its threads, which waited for something; absent in the same cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches_voluntary: Option<u64>,
    /// Involuntary context switches of its threads, which lost the core; absent in the same cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches_involuntary: Option<u64>,
    /// The part of its threads' busy time that was spent waiting for a core; absent if the kernel does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_share: Option<f64>,
}

/// Whether the figures are valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// Whether the list of findings is empty.
    pub valid: bool,
    /// Findings against the figures, in words.
    pub findings: Vec<String>,
}

impl Default for Validity {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Validity {
    /// Valid if the list of findings is empty.
    pub const fn of(findings: Vec<String>) -> Self {
        Self { valid: findings.is_empty(), findings }
    }
}

/// One threshold beside the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ThresholdCheck {
    /// `success_share`, `completed_share_of_due`, `end_to_end_p99_ms` and so on; see docs/lab/result.md.
    pub name: String,
    /// The bound.
    pub limit: f64,
    /// The measured value.
    pub value: f64,
    /// Whether it is within the bound.
    pub met: bool,
}

/// Whether the hub met the thresholds. The validity of the figures is a separate question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Thresholds {
    /// Whether every threshold was met.
    pub met: bool,
    /// The missed thresholds, in words.
    pub findings: Vec<String>,
    /// All thresholds that apply to the run.
    pub checked: Vec<ThresholdCheck>,
}

/// The steady window of the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowResult {
    /// Seconds of load before it that do not count.
    pub trimmed_start_s: f64,
    /// Seconds of load after it that do not count.
    pub trimmed_end_s: f64,
    /// Its length in seconds, all slices together.
    pub seconds: f64,
    /// The part of the cores' time that the hypervisor assigned to other machines; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_share: Option<f64>,
    /// The part of the cores' time that was idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
}

/// Settlements beside the load, including the final one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettlementResult {
    /// Number of calls of `upesi settlement run`.
    pub runs: u64,
    /// Windows that were closed.
    pub windows: u64,
    /// Settlements that were created from them and completed.
    pub settlements: u64,
    /// Duration of the slowest call, from the close of the window to SETTLED, in milliseconds.
    pub slowest_ms: u64,
}

/// The spare capacity of the load generator's machine: a condition of the run, and not a reason to doubt its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineResult {
    /// Whether the subject of the measurement ran on the same cores as load generator and DFSPs.
    pub shared: bool,
    /// Whether the cores were idle for less than a tenth of the time.
    pub full: bool,
    /// The part of the cores' time that programs outside the run used; absent if the hub's process is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_programs_share: Option<f64>,
    /// The condition in words.
    pub words: String,
}

/// One target beside the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct TargetCheck {
    /// The target's key, such as `p99_ms`.
    pub name: Name,
    /// The required value.
    pub limit: f64,
    /// The measured value.
    pub measured: f64,
    /// Whether it was met.
    pub met: bool,
}

/// One probe of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Arrivals per second.
    pub rate_per_s: u32,
    /// Completed operations per second.
    pub throughput_per_s: f64,
    /// 99th percentile of latency, in milliseconds.
    pub p99_ms: f64,
    /// Accepted requests that never ended.
    pub lost: u64,
    /// Whether every target was met and the run was valid.
    pub met: bool,
    /// Whether the figures are valid, whatever their values.
    pub valid: bool,
    /// The part of the cores' time that was idle; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// The reasons why the rate was not met, in words.
    pub reasons: Vec<String>,
}

/// The limit of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The lowest missed rate missed a target.
    Target,
    /// The lowest missed rate met the targets, and the load generator failed to keep up twice: the hub may handle more.
    Generator,
}

/// The result of a search for the highest rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BreakpointResult {
    /// Highest rate that met every target; absent if none did.
    pub highest_met_per_s: Option<u32>,
    /// Lowest rate that did not; absent if the search's bound was reached first.
    pub lowest_missed_per_s: Option<u32>,
    /// The limit at the lowest missed rate; absent if no rate was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// All probes in their order. A rate is tried once more if the load generator lagged or other programs used its
    /// cores.
    pub probes: Vec<Probe>,
}

impl BreakpointResult {
    /// The last probe of the lowest missed rate.
    pub fn lowest_missed(&self) -> Option<&Probe> {
        self.probes.iter().rev().find(|probe| Some(probe.rate_per_s) == self.lowest_missed_per_s)
    }

    /// Whether the load generator failed before the hub did.
    pub fn is_generators(&self) -> bool {
        self.limited_by == Some(Limit::Generator)
    }
}

/// One target of the 2020 programme beside the measured value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgrammeCheck {
    /// The name of the target.
    pub name: Name,
    /// The required value.
    pub limit: f64,
    /// The measured value.
    pub measured: f64,
    /// Whether it was met; absent if it was not judged.
    pub met: Option<bool>,
    /// The reason why it was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<Name>,
}

/// The drift of one figure during a run: a line fitted to the timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriftRow {
    /// `p99_ms`, `throughput_per_s`, `hub_rss_mb` or `hub_disk_mb`.
    pub name: Name,
    /// Value of the line at the start.
    pub start: f64,
    /// Value of the line at the end.
    pub end: f64,
    /// Slope per hour.
    pub per_hour: f64,
    /// Change relative to the start; absent if the start is zero.
    pub change: Option<f64>,
    /// In words: steady, grows, falls.
    pub verdict: String,
}

/// The drift of a hub in a long run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriftResult {
    /// Seconds over which the lines were fitted.
    pub seconds: f64,
    /// The part of these seconds in minutes that held the load: in such a minute, 95 % of the due operations completed.
    pub held_s: f64,
    /// One row per figure.
    pub rows: Vec<DriftRow>,
    /// Disk usage per completed operation, in bytes; absent if the data directory is not known.
    pub disk_bytes_per_operation: Option<f64>,
    /// The threshold `completed_share_of_due`: whether the hub kept up with the schedule all the time; absent in closed
    /// loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_up: Option<ThresholdCheck>,
    /// The targets of the 2020 performance programme of Mojaloop: more than 200/s (T1), for an hour or more (T2), under
    /// one per cent over one second (T3).
    pub programme_2020: Vec<ProgrammeCheck>,
}

/// Long lists of numbers on one line each, so that the file stays readable.
fn one_line<T: Serialize, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(value).map_err(serde::ser::Error::custom)?;
    RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

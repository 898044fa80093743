//! What is measured beside throughput and latency: the members that version 2 of `result.json` added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A word that this program writes as a constant and reads as any text.
pub type Name = std::borrow::Cow<'static, str>;

/// A value that a sweep varied: a number or a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A whole number, such as a number of DFSPs.
    Number(i64),
    /// Anything else, such as `fsync off`.
    Text(String),
}

impl From<i64> for Parameter {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Parameter {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One interval of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct TimelineRow {
    /// Seconds of load from the start of the run to the end of this interval.
    pub t: f64,
    /// Operations that completed in it.
    pub completed: u64,
    /// Operations that ended otherwise.
    pub failed: u64,
    /// Operations that were begun, or should have been.
    pub offered: u64,
    /// Median latency of those that completed, in milliseconds; absent without any.
    pub p50_ms: Option<f64>,
    /// 90 of 100.
    pub p90_ms: Option<f64>,
    /// 95 of 100.
    pub p95_ms: Option<f64>,
    /// 99 of 100.
    pub p99_ms: Option<f64>,
    /// 999 of 1000.
    pub p999_ms: Option<f64>,
    /// 9999 of 10000.
    pub p9999_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
    /// Share of those that completed that took longer than one second, 0 to 1.
    pub share_over_1s: Option<f64>,
    /// Cores that the hub kept busy; absent where its process is not on this machine.
    pub hub_cpu_cores: Option<f64>,
    /// The hub's resident memory in MiB.
    pub hub_rss_mb: Option<f64>,
    /// Size of the hub's data directory in MiB, where the lab knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_disk_mb: Option<f64>,
    /// What waited in the hub at the end of the interval.
    #[serde(flatten)]
    pub queues: Queues,
}

/// How much waits at one moment, by queue of the hub, or the mean over many; absent where the hub does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Queues {
    /// Requests let in that wait for the engine's answer: for their turn, the deciding and the journal.
    #[serde(rename = "queue_ingress", skip_serializing_if = "Option::is_none")]
    pub ingress: Option<f64>,
    /// Commands that wait to be decided.
    #[serde(rename = "queue_engine", skip_serializing_if = "Option::is_none")]
    pub engine: Option<f64>,
    /// Callbacks that wait in the lanes of all DFSPs, for their first attempt or another.
    #[serde(rename = "queue_callbacks", skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<f64>,
    /// Lookups, quotes and the like that are being passed on.
    #[serde(rename = "queue_relay", skip_serializing_if = "Option::is_none")]
    pub relay: Option<f64>,
}

/// The run second by second, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineResult {
    /// Length of an interval in seconds.
    pub interval_s: u32,
    /// The intervals in order. Each slice begins a new one; an interval that a slice's end cuts short is left out.
    #[serde(serialize_with = "one_line")]
    pub rows: Vec<TimelineRow>,
    /// The latencies of each row, to two digits, as [`HistogramResult::v2_deflate_base64`]: for merging.
    #[serde(serialize_with = "one_line")]
    pub histograms: Vec<String>,
    /// The same in steps of about 100 ms, without what is the hub's, where the load moves; not written to
    /// `result.json`.
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
    /// The whole, to three digits, as HdrHistogram V2, deflated, in base64: for merging.
    pub v2_deflate_base64: String,
    /// The same by phase, where there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<Name, String>,
    /// How late arrivals were sent, the same way; open loop only.
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
    /// The same per second.
    pub per_s: f64,
    /// Mean time of one, in microseconds.
    pub mean_us: f64,
    /// Half were faster; of a stage that was measured alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99 of 100 in all slices together, read from the hub's histogram, so no finer than its buckets.
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

/// What one process used in the measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRow {
    /// `hub`, `lab` (load generator and DFSPs) or `forwarder`. Where the hub is several processes, `hub` is all of
    /// them, and `hub, PROGRAM PID` each.
    pub name: String,
    /// User and system time per completed operation, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// Cores kept busy.
    pub cores: Option<f64>,
    /// Resident memory at the end, in MiB. Of parts of one process the first has that of the whole, and no other has
    /// any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_mb: Option<f64>,
    /// The most it was since the process started, in MiB; the same of parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak_mb: Option<f64>,
    /// Written to storage, in MiB; absent where the kernel does not tell, and of a part of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_write_mb: Option<f64>,
    /// Times that its threads waited for something; absent in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches_voluntary: Option<u64>,
    /// Times that its threads were put off the core; absent in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches_involuntary: Option<u64>,
    /// Of the time in which its threads had something to do, the part in which they waited for a core; absent where the
    /// kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_share: Option<f64>,
}

/// Whether the figures count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// Whether nothing speaks against them.
    pub valid: bool,
    /// What does, in words.
    pub findings: Vec<String>,
}

impl Default for Validity {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl Validity {
    /// Valid when there are no findings.
    pub const fn of(findings: Vec<String>) -> Self {
        Self { valid: findings.is_empty(), findings }
    }
}

/// One threshold beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ThresholdCheck {
    /// `success_share`, `completed_share_of_due`, `end_to_end_p99_ms` and so on; see docs/lab/result.md.
    pub name: String,
    /// The bound.
    pub limit: f64,
    /// What was measured.
    pub value: f64,
    /// Whether it is within the bound.
    pub met: bool,
}

/// Whether the hub did what was asked of it: another question than whether the figures count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Thresholds {
    /// Whether every threshold was met.
    pub met: bool,
    /// Those that were not, in words.
    pub findings: Vec<String>,
    /// All that apply to the run.
    pub checked: Vec<ThresholdCheck>,
}

/// The steady window that the figures are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowResult {
    /// Seconds of load before it that do not count.
    pub trimmed_start_s: f64,
    /// Seconds of load after it that do not count.
    pub trimmed_end_s: f64,
    /// Its length in seconds, all slices together.
    pub seconds: f64,
    /// The part of the cores' time in it that the hypervisor gave to other machines; absent where that is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_share: Option<f64>,
    /// The part of the cores' time in it in which nobody wanted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
}

/// What was settled beside the load: all of it, in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettlementResult {
    /// How often `upesi settlement run` was called.
    pub runs: u64,
    /// Windows that it closed.
    pub windows: u64,
    /// Settlements that it made of them and brought to their end.
    pub settlements: u64,
    /// How long the slowest call took, from the close of the window to SETTLED, in milliseconds.
    pub slowest_ms: u64,
}

/// What the load generator's machine had left: a condition of the run, and no doubt about its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineResult {
    /// Whether what was measured ran on the same cores as load generator and DFSPs.
    pub shared: bool,
    /// Whether the cores were idle for less than a tenth of the time.
    pub full: bool,
    /// The part of the cores' time that programs used which have no part in the run; absent where the hub's process is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_programs_share: Option<f64>,
    /// The same in words.
    pub words: String,
}

/// One target beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct TargetCheck {
    /// The target's key, such as `p99_ms`.
    pub name: Name,
    /// What was asked for.
    pub limit: f64,
    /// What was measured.
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
    /// Completed per second.
    pub throughput_per_s: f64,
    /// 99 of 100 were faster, in milliseconds.
    pub p99_ms: f64,
    /// Accepted and never ended.
    pub lost: u64,
    /// Whether every target was met and the run was valid.
    pub met: bool,
    /// Whether the figures count, whatever they are.
    pub valid: bool,
    /// The part of the cores' time in which nobody wanted them; absent where that is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// Why not, in words.
    pub reasons: Vec<String>,
}

/// What keeps a search from a higher rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The lowest missed rate missed a target.
    Target,
    /// It met the targets, and the load generator could not keep up, twice: the hub may hold more.
    Generator,
}

/// What a search for the highest rate found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BreakpointResult {
    /// Highest rate that met every target; absent when none did.
    pub highest_met_per_s: Option<u32>,
    /// Lowest rate that did not; absent when the search's bound was reached first.
    pub lowest_missed_per_s: Option<u32>,
    /// What the lowest missed rate failed by; absent where none was missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// Every probe, in the order they were made. A rate at which the load generator lagged, or other
    /// programs took its cores, is tried once more.
    pub probes: Vec<Probe>,
}

impl BreakpointResult {
    /// The last try of the lowest rate that did not hold.
    pub fn lowest_missed(&self) -> Option<&Probe> {
        self.probes.iter().rev().find(|probe| Some(probe.rate_per_s) == self.lowest_missed_per_s)
    }

    /// Whether the load generator gave up before the hub did.
    pub fn is_generators(&self) -> bool {
        self.limited_by == Some(Limit::Generator)
    }
}

/// One target of the 2020 programme beside what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgrammeCheck {
    /// Which one.
    pub name: Name,
    /// What was asked for.
    pub limit: f64,
    /// What was measured.
    pub measured: f64,
    /// Whether it was met; absent where that was not judged.
    pub met: Option<bool>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<Name>,
}

/// How one figure moved during a run: a line fitted to the timeline.
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
    /// How much it changed, relative to the start; absent where the start is nothing.
    pub change: Option<f64>,
    /// In words: steady, grows, falls.
    pub verdict: String,
}

/// What a long run did to the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriftResult {
    /// Seconds that the lines were fitted over.
    pub seconds: f64,
    /// Of these, the seconds of the minutes in which the load was held: in which 95 of 100 operations that were due
    /// completed.
    pub held_s: f64,
    /// One row per figure.
    pub rows: Vec<DriftRow>,
    /// Disk per completed operation, in bytes; absent where the data directory is not known.
    pub disk_bytes_per_operation: Option<f64>,
    /// The threshold `completed_share_of_due`: whether the hub kept up with the schedule for all of it; absent in
    /// closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_up: Option<ThresholdCheck>,
    /// The targets of the 2020 performance programme of Mojaloop: more than 200/s (T1), for an hour or more
    /// (T2), under one per cent over one second (T3).
    pub programme_2020: Vec<ProgrammeCheck>,
}

/// Long lists of numbers on one line each, so that the file stays readable.
fn one_line<T: Serialize, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(value).map_err(serde::ser::Error::custom)?;
    RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
}

//! The result of a run: the contents of `result.json`.

pub mod audit;
pub mod environment;
pub mod evidence;
pub mod exchanges;
pub(crate) mod file;
pub(crate) mod latency;
pub(crate) mod load;
#[cfg(test)]
pub(crate) mod sample;
pub mod schema;
pub mod suite;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use upesi_sim::{Counters, DfspSettings};

use crate::plan::load_profile::Load;
use crate::plan::operations::operations_of;
use crate::plan::options::{Baseline, RunOptions, Settlement};
use crate::plan::pairs::PairChoice;
use crate::plan::parameter::Parameter;
use crate::plan::scenario::Scenario;
use crate::plan::security::Security;
use crate::result::audit::AuditSummary;
use crate::result::environment::Environment;
use crate::result::exchanges::GeneratorCounts;
use crate::result::latency::{LatencyMs, Phases};
use crate::result::load::LoadResult;
use crate::result::schema::{
    BreakpointResult, DriftResult, HistogramResult, MachineResult, Name, ProcessRow, SettlementResult,
    StageResult, TargetCheck, Thresholds, TimelineResult, TimelineRow, Validity, WindowResult,
};
use crate::statistics::rounded;

/// Version of the layout of `result.json`; docs/lab/result.md describes when it increases.
pub const SCHEMA_VERSION: u32 = 2;

/// Resource usage of a process during the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessResult {
    /// User and system time per completed operation, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// User and system time per transfer, if each operation is one transfer.
    pub cpu_us_per_transfer: Option<f64>,
    /// Cores kept busy.
    pub cores: Option<f64>,
    /// Resident memory at the end of the last slice, in MiB.
    pub rss_mb: f64,
    /// Peak of resident memory since the process started, in MiB.
    pub rss_peak_mb: f64,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct SliceResult {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Operations completed in it.
    pub completed: u64,
    /// Completed operations per second.
    pub throughput_per_s: f64,
}

/// The result of a baseline in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct BaselineResult {
    /// The baseline's name.
    pub name: Name,
    /// Median of its slices.
    pub throughput_per_s: f64,
    /// The hub's median divided by this one.
    pub ratio: Option<f64>,
    /// Its latency.
    pub latency_ms: LatencyMs,
    /// Latency by phase.
    pub phases: Phases,
    /// CPU and memory of the forwarder; absent without such a process.
    pub process: Option<ProcessResult>,
    /// CPU and memory of load generator and simulators during the baseline.
    pub lab: ProcessResult,
    /// Operations completed.
    pub completed: u64,
    /// Operations that failed.
    pub failed: u64,
    /// The slices of the baseline.
    pub slices: Vec<SliceResult>,
}

/// The options that shaped a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct OptionsEcho {
    /// The kind of operation.
    pub scenario: Scenario,
    /// Number of DFSPs.
    pub dfsps: usize,
    /// Parties of each DFSP.
    pub parties: u64,
    /// Number of this generator among several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<u32>,
    /// Load shape.
    pub load: Load,
    /// Measured seconds.
    pub duration_s: f64,
    /// Seconds before measuring.
    pub warm_up_s: f64,
    /// Number of slices.
    pub slices: usize,
    /// Amount of each operation.
    pub amount: String,
    /// Its currency.
    pub currency: String,
    /// Whether all operations go in one direction.
    pub unidirectional: bool,
    /// Choice of payer and payee: `uniform`, `unidirectional`, `hot pair 900 ‰` or `weighted`.
    pub pairs: String,
    /// FXPs beside the DFSPs; 0 without FX transfers.
    #[serde(skip_serializing_if = "is_default")]
    pub fxps: usize,
    /// Whether payees convert the money that they receive.
    #[serde(skip_serializing_if = "is_default")]
    pub payees_convert: bool,
    /// Transfers in each bulk transfer; 0 without bulk transfers.
    #[serde(skip_serializing_if = "is_default")]
    pub bulk_items: usize,
    /// How transfers are settled, if the scenario specifies it.
    #[serde(skip_serializing_if = "is_default")]
    pub settlement: Settlement,
    /// Seconds of load after each slice.
    pub cool_down_s: f64,
    /// Finished transfers that the started hub already had.
    pub existing_transfers: u64,
    /// Arguments of the started hub.
    pub hub_arguments: Vec<String>,
    /// Behaviour of the DFSPs.
    pub behaviour: DfspSettings,
    /// Whether trace contexts were sent.
    pub trace: bool,
    /// Baselines.
    pub baselines: Vec<Baseline>,
    /// Threads of load generator and simulators.
    pub workers: usize,
    /// Authentication of hub, DFSPs and baselines.
    pub security: Security,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for OptionsEcho {
    fn default() -> Self {
        Self::of(&RunOptions::default())
    }
}

impl OptionsEcho {
    /// Copies the relevant options.
    pub fn of(options: &RunOptions) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        Self {
            scenario: options.scenario,
            dfsps: options.dfsps,
            parties: options.parties,
            instance: options.instance,
            load: options.load.clone(),
            duration_s: seconds(options.duration),
            warm_up_s: seconds(options.warm_up),
            slices: options.slice_count(),
            amount: options.amount.to_string(),
            currency: options.currency.to_string(),
            unidirectional: options.pairs == PairChoice::Unidirectional,
            pairs: options.pairs.to_string(),
            fxps: if options.converts() { options.fxps } else { 0 },
            payees_convert: options.payees_convert,
            bulk_items: if options.has_bulks() { options.bulk_items } else { 0 },
            settlement: options.settlement,
            cool_down_s: seconds(options.cool_down),
            existing_transfers: options.existing_transfers,
            hub_arguments: options.hub_arguments.clone(),
            behaviour: options.behaviour,
            trace: options.trace,
            baselines: options.baselines.clone(),
            workers: options.worker_count(),
            security: options.security,
        }
    }
}

impl OptionsEcho {
    pub(crate) fn moves_money(&self) -> bool {
        operations_of(self.scenario, &self.load).into_iter().any(Scenario::moves_money)
    }
}

/// The accuracy of an open loop's schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleResult {
    /// Arrivals that the schedule has in the measured time, sent or not.
    pub due: u64,
    /// Median lag of the arrivals, in milliseconds.
    pub lag_ms_p50: f64,
    /// 99th percentile of the lag.
    pub lag_ms_p99: f64,
    /// Maximum lag.
    pub lag_ms_max: f64,
    /// Arrivals not sent because too many operations were outstanding.
    pub skipped: u64,
    /// Whether the load was as requested: nothing skipped, and the 99th percentile of the lag at most 10 ms.
    pub valid: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default = "LabResult::new")]
pub struct LabResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Name of the scenario file, such as `transfers-uni`; the kind of operation if there was no file.
    pub name: String,
    /// A short title.
    pub title: String,
    /// The purpose of the run.
    pub description: String,
    /// `end-to-end` or `isolated`.
    pub kind: Name,
    /// The unit of counts: `transfer`, `lookup`, `quote`, `payment`, `prepare`, `fulfil`, `callback`, `record` or
    /// `operation`.
    pub unit: Name,
    /// The parameters that a sweep varied.
    pub parameters: BTreeMap<String, Parameter>,
    /// The kind of operation: `transfers`, `lookups`, `quotes` or `payments`, or `parallel`; otherwise the isolated
    /// kind.
    pub scenario: Name,
    /// The environment of the run.
    pub environment: Environment,
    /// The options of the run.
    pub options: OptionsEcho,
    /// Start of the load, ISO 8601, which is the start of the timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_began_at: Option<String>,
    /// The seed, to repeat the run.
    pub seed: u64,
    /// Base URL of the hub.
    pub target: String,
    /// Operations that completed in the measured time.
    pub completed: u64,
    /// Operations that began in it and were aborted, rejected, answered wrongly or not answered in time.
    pub failed: u64,
    /// Accepted requests without any outcome at the end.
    pub lost: u64,
    /// Requests whose callback came after the user's timeout.
    pub late: u64,
    /// The first requests of all operations, including warm-up.
    pub originated: GeneratorCounts,
    /// Median of the slices.
    pub throughput_per_s: f64,
    /// Latency.
    pub latency_ms: LatencyMs,
    /// Latency by phase.
    pub phases: Phases,
    /// Time until requests had their own answers, the `202` before any callback; includes rejections and errors.
    pub http_ms: LatencyMs,
    /// Rejected requests of operations that began in the measured time; not written to `result.json`.
    #[serde(skip)]
    pub refusals: u64,
    /// Time until these rejections; not written to `result.json` either.
    #[serde(skip)]
    pub refusal_ms: LatencyMs,
    /// Open loop only.
    pub schedule: Option<ScheduleResult>,
    /// CPU and memory of the hub; absent if its process is not on this machine.
    pub hub: Option<ProcessResult>,
    /// CPU and memory of load generator and simulators.
    pub lab: ProcessResult,
    /// Whether the hub makes transfers durable before it answers; absent when unknown.
    pub durable: Option<bool>,
    /// The first baseline.
    pub baseline: Option<BaselineResult>,
    /// Hub throughput divided by the first baseline's.
    pub ratio: Option<f64>,
    /// Further baselines.
    pub more_baselines: Vec<BaselineResult>,
    /// The hub's slices.
    pub slices: Vec<SliceResult>,
    /// The DFSPs' counters.
    pub simulators: Counters,
    /// Settlements beside the load, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<SettlementResult>,
    /// The audit.
    pub audit: AuditSummary,
    /// The run second by second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineResult>,
    /// The distribution of latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<HistogramResult>,
    /// The hub's stages; empty if its metrics cannot be read.
    pub stages: Vec<StageResult>,
    /// CPU, memory, disk and context switches by process.
    pub processes: Vec<ProcessRow>,
    /// Whether the figures count.
    pub validity: Validity,
    /// Whether the hub met the thresholds; absent if one stage ran alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// The window of the figures.
    pub window: WindowResult,
    /// The machine's spare capacity; absent if one stage ran alone, or if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineResult>,
    /// Each load separately, if there are several in parallel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LoadResult>,
    /// Throughput of each slice, or of each of several runs.
    pub repetitions: Vec<f64>,
    /// For each of several runs, the other figures that are compared, by their member: `latency_ms.p99`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub repeated: BTreeMap<Name, Vec<f64>>,
    /// Targets of the scenario.
    pub targets: Vec<TargetCheck>,
    /// The search for the highest rate, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakpoint: Option<BreakpointResult>,
    /// The drift of the hub over time, if the test is a soak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftResult>,
}

impl LabResult {
    /// An empty result to be filled in. Without a hub there is no disagreement.
    pub fn new() -> Self {
        let audit = AuditSummary { ok: true, ..AuditSummary::default() };
        let options = OptionsEcho::of(&RunOptions::default());
        let unit = "transfer".into();
        Self { schema_version: SCHEMA_VERSION, unit, audit, options, ..Self::default() }
    }

    /// The run second by second, as far as it was kept.
    pub fn rows(&self) -> &[TimelineRow] {
        self.timeline.as_ref().map(|timeline| timeline.rows.as_slice()).unwrap_or_default()
    }

    /// Whether the run passed: there are no [`Self::failings`].
    pub fn passed(&self) -> bool {
        self.failings().is_empty()
    }

    /// The reasons why the run did not pass, a sentence each: the audit failed, a target was missed, a search found no
    /// rate. The figures of a soak must also be valid and meet every threshold: an hour whose load was not held, or
    /// that was not measured, shows nothing.
    pub fn failings(&self) -> Vec<String> {
        let told = |text: &str, findings: &[String]| match findings {
            [] => text.to_owned(),
            findings => format!("{text}: {}", findings.join("; ")),
        };
        let mut failings = Vec::new();
        if !self.audit.ok {
            failings.push(told("the audit failed", &self.audit.findings));
        }
        failings.extend(self.targets.iter().filter(|target| !target.met).map(|target| {
            let (measured, limit) = (rounded(target.measured, 3), target.limit);
            format!("the target {} was missed: {measured} (bound {limit})", target.name)
        }));
        if let Some(search) = &self.breakpoint
            && search.highest_met_per_s.is_none()
        {
            let lowest =
                search.lowest_missed_per_s.map_or(String::new(), |rate| format!(", not even {rate}/s"));
            failings.push(format!("the search found no rate that meets every target{lowest}"));
        }
        if self.drift.is_none() {
            return failings;
        }
        // A failed audit is among these findings.
        if self.audit.ok && !self.validity.valid {
            failings.push(told("the figures of this soak are not valid", &self.validity.findings));
        }
        if let Some(thresholds) = self.thresholds.as_ref().filter(|thresholds| !thresholds.met) {
            failings.push(told("the thresholds of a soak were not met", &thresholds.findings));
        }
        failings
    }

    /// The contents of `result.json`.
    pub fn to_json(&self) -> String {
        // Cannot fail: the members are plain values and all keys are texts.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Writes `result.json` into a directory. Fails with the system's error.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::write(directory.join("result.json"), self.to_json() + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::schema::ThresholdCheck;

    #[test]
    fn failings_name_the_reasons() {
        type Change = fn(&mut LabResult);
        let invalid: Change = |result| result.validity = Validity::of(vec!["it lagged".to_owned()]);
        let not_held: Change = |result| {
            let check =
                ThresholdCheck { name: "sustained_s".to_owned(), limit: 60.0, value: 0.0, met: false };
            let findings = vec!["held for 0 s".to_owned()];
            result.thresholds = Some(Thresholds { met: false, findings, checked: vec![check] });
        };
        let soak: Change = |result| result.drift = Some(DriftResult::default());
        let unaudited: Change = |result| {
            result.audit.ok = false;
            result.audit.findings = vec!["one differs".to_owned(), "two too".to_owned()];
        };
        let missed: Change = |result| {
            result.targets =
                vec![TargetCheck { name: "p99_ms".into(), limit: 5.0, measured: 7.12345, met: false }];
        };
        let no_rate: Change = |result| {
            let lowest_missed_per_s = Some(9);
            result.breakpoint = Some(BreakpointResult { lowest_missed_per_s, ..BreakpointResult::default() });
        };
        let cases: [(&[Change], &[&str]); 8] = [
            // A load beyond the hub's limits, or a disturbed measurement, is reported beside the figures.
            (&[invalid, not_held], &[]),
            (&[soak], &[]),
            (&[unaudited], &["the audit failed: one differs; two too"]),
            (&[missed], &["the target p99_ms was missed: 7.123 (bound 5)"]),
            (&[no_rate], &["the search found no rate that meets every target, not even 9/s"]),
            (&[soak, invalid], &["the figures of this soak are not valid: it lagged"]),
            (&[soak, not_held], &["the thresholds of a soak were not met: held for 0 s"]),
            (&[soak, unaudited, invalid], &["the audit failed: one differs; two too"]),
        ];
        for (changes, failings) in cases {
            let mut result = LabResult::new();
            changes.iter().for_each(|change| change(&mut result));
            assert_eq!(result.failings(), failings);
            assert_eq!(result.passed(), failings.is_empty());
        }
    }
}

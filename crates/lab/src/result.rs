//! What a run gives: the contents of `result.json`.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use upesi_sim::{Counters, DfspSettings, Phase};

use crate::answers::AnswerCheck;
use crate::audit::{Originated, PositionCheck};
use crate::environment::Environment;
use crate::options::{Baseline, Load, RunOptions};
use crate::scenario::Scenario;
use crate::statistics::{mean_milliseconds, milliseconds, rounded};
use crate::tally::{Exchanges, PhaseTally, Tally};

/// Version of the layout of `result.json`; it grows when a member changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Latency from the first request (in open loop: from when it should have been sent) to the last callback, in
/// milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyMs {
    /// Half of the operations were faster.
    pub p50: f64,
    /// 90 of 100.
    pub p90: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl LatencyMs {
    /// Reads the percentiles of a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| rounded(milliseconds(histogram.value_at_quantile(quantile)), 3);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: rounded(milliseconds(histogram.max()), 3),
            mean: rounded(mean_milliseconds(histogram), 3),
        }
    }
}

/// One phase of the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseResult {
    /// Latency from the end of the phase before it, of the operations that began in the measured time.
    pub latency_ms: LatencyMs,
    /// What became of its requests, warm-up included.
    pub exchanges: Exchanges,
}

/// The phases that the scenario has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Finding the payee: `GET /parties` until `PUT /parties`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<PhaseResult>,
    /// Agreeing the terms: `POST /quotes` until `PUT /quotes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<PhaseResult>,
    /// Moving the money: `POST /transfers` until `PUT /transfers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<PhaseResult>,
}

impl Phases {
    /// The phases of a scenario.
    pub(crate) fn of(scenario: Scenario, tally: &Tally) -> Self {
        let mut phases = Self::default();
        for &phase in scenario.phases() {
            let PhaseTally { latency, exchanges } = &tally.phases[phase as usize];
            let result = PhaseResult { latency_ms: LatencyMs::of(latency), exchanges: *exchanges };
            *phases.place(phase) = Some(result);
        }
        phases
    }

    const fn place(&mut self, phase: Phase) -> &mut Option<PhaseResult> {
        match phase {
            Phase::Lookup => &mut self.discovery,
            Phase::Quote => &mut self.agreement,
            Phase::Transfer => &mut self.transfer,
        }
    }

    /// One phase, if the scenario has it.
    pub fn get(mut self, phase: Phase) -> Option<PhaseResult> {
        *self.place(phase)
    }
}

/// What a process used during the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessResult {
    /// User and system time per completed operation, in microseconds.
    pub cpu_us_per_operation: Option<f64>,
    /// The same where each operation is one transfer.
    pub cpu_us_per_transfer: Option<f64>,
    /// Cores kept busy.
    pub cores: Option<f64>,
    /// Resident memory at the end of the last slice, in MiB.
    pub rss_mb: f64,
    /// The most it was since the process started, in MiB.
    pub rss_peak_mb: f64,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SliceResult {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Operations completed in it.
    pub completed: u64,
    /// Completed per second.
    pub throughput_per_s: f64,
}

/// What a baseline reached in the same run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineResult {
    /// Which one.
    pub name: &'static str,
    /// Median of its slices.
    pub throughput_per_s: f64,
    /// The hub's median divided by this one.
    pub ratio: Option<f64>,
    /// Its latency.
    pub latency_ms: LatencyMs,
    /// The same by phase.
    pub phases: Phases,
    /// CPU and memory of the forwarder; absent without such a process.
    pub process: Option<ProcessResult>,
    /// CPU and memory of load generator and simulators meanwhile.
    pub lab: ProcessResult,
    /// Operations completed.
    pub completed: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Its slices.
    pub slices: Vec<SliceResult>,
}

/// The audit's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditSummary {
    /// Whether hub and books agree and nothing was lost or doubled.
    pub ok: bool,
    /// Whether there was a hub to audit.
    pub performed: bool,
    /// Whether every position is what the DFSP's books say.
    pub positions_ok: bool,
    /// Whether all positions together are zero but for what is reserved.
    pub sum_ok: bool,
    /// Requests of the last phase that the hub accepted; transfers, also those that it may have accepted.
    pub accepted: u64,
    /// Of those, ended.
    pub finished: u64,
    /// Of those, not ended.
    pub in_flight: u64,
    /// Accepted and without outcome when the run gave up waiting, of all phases.
    pub lost: u64,
    /// Answers beyond one per question.
    pub doubled: u64,
    /// Callbacks that contradicted a final outcome.
    pub contradictions: u64,
    /// Callbacks that repeated an outcome; allowed, since delivery is at least once.
    pub callbacks_repeated: u64,
    /// What became of questions: lookups and quotes.
    pub answers: Vec<AnswerCheck>,
    /// Every participant's position beside its books.
    pub positions: Vec<PositionCheck>,
    /// What is wrong, in words.
    pub findings: Vec<String>,
}

/// The options that shaped a run.
#[derive(Clone, Debug, Serialize)]
pub struct OptionsEcho {
    /// What one operation is.
    pub scenario: Scenario,
    /// Number of DFSPs.
    pub dfsps: usize,
    /// Parties of each DFSP.
    pub parties: u64,
    /// Load shape.
    pub load: Load,
    /// Measured seconds.
    pub duration_s: f64,
    /// Seconds before measuring.
    pub warm_up_s: f64,
    /// Slices.
    pub slices: usize,
    /// Amount of each operation.
    pub amount: String,
    /// Its currency.
    pub currency: String,
    /// One direction only.
    pub unidirectional: bool,
    /// Behaviour of the payees.
    pub behaviour: DfspSettings,
    /// Trace contexts sent.
    pub trace: bool,
    /// Baselines.
    pub baselines: Vec<Baseline>,
    /// Threads of load generator and simulators.
    pub workers: usize,
}

impl OptionsEcho {
    /// Copies what matters.
    pub fn of(options: &RunOptions) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        Self {
            scenario: options.scenario,
            dfsps: options.dfsps,
            parties: options.parties,
            load: options.load,
            duration_s: seconds(options.duration),
            warm_up_s: seconds(options.warm_up),
            slices: options.slice_count(),
            amount: options.amount.to_string(),
            currency: options.currency.to_string(),
            unidirectional: options.unidirectional,
            behaviour: options.behaviour,
            trace: options.trace,
            baselines: options.baselines.clone(),
            workers: options.worker_count(),
        }
    }
}

/// How well an open loop kept its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleResult {
    /// How late half of the arrivals were sent, in milliseconds.
    pub lag_ms_p50: f64,
    /// How late 99 of 100 were.
    pub lag_ms_p99: f64,
    /// The latest.
    pub lag_ms_max: f64,
    /// Arrivals not sent because too many operations were outstanding.
    pub skipped: u64,
    /// Whether the load was what was asked for: nothing skipped, and the 99th percentile of lag at most 10 ms.
    pub valid: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LabResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// The scenario's name.
    pub scenario: &'static str,
    /// Where it ran.
    pub environment: Environment,
    /// What was asked for.
    pub options: OptionsEcho,
    /// The seed, to repeat the run.
    pub seed: u64,
    /// Base URL of the hub.
    pub target: String,
    /// Operations that completed in the measured time.
    pub completed: u64,
    /// Operations that began in it and were aborted, refused, answered wrongly or not answered in time.
    pub failed: u64,
    /// Accepted requests without any outcome at the end.
    pub lost: u64,
    /// Requests whose callback came later than a user waits.
    pub late: u64,
    /// The first requests of all operations, warm-up included.
    pub originated: Originated,
    /// Median of the slices.
    pub throughput_per_s: f64,
    /// Latency.
    pub latency_ms: LatencyMs,
    /// The same by phase.
    pub phases: Phases,
    /// Open loop only.
    pub schedule: Option<ScheduleResult>,
    /// CPU and memory of the hub; absent when its process is not on this machine.
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
    /// What the DFSPs counted.
    pub simulators: Counters,
    /// The audit.
    pub audit: AuditSummary,
}

impl LabResult {
    /// Whether the run counts: the audit holds.
    pub const fn passed(&self) -> bool {
        self.audit.ok
    }

    /// The contents of `result.json`.
    pub fn to_json(&self) -> String {
        // Cannot fail: the members are plain values and no key is anything but a text.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Writes `result.json` into a directory.
    ///
    /// # Errors
    /// What the system said.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::write(directory.join("result.json"), self.to_json() + "\n")
    }
}

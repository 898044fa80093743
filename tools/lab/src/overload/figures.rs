//! The figures of the seconds of a phase.

#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::OverloadArguments;
use super::prober::Probe;
use crate::judge::objectives::{Objective, ObjectiveResult};
use crate::result::evidence::Provenance;
use crate::result::schema::{TimelineResult, TimelineRow};
use crate::statistics::quantiles;
use crate::{LabResult, LatencyMs};

/// Seconds at the start of a phase that are reported separately: the first one contains the change of the load.
pub(super) const EDGE_S: u32 = 2;

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Before the first phase.
    pub(super) warm_up: Duration,
    pub(super) phase: Duration,
}

impl Times {
    /// Seconds from the start of the run to the start of a phase.
    pub(super) fn start_s(&self, phase: u32) -> f64 {
        (self.warm_up + self.phase * phase).as_secs_f64()
    }
}

/// Figures of several seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepFigures {
    pub seconds: usize,
    pub offered_per_s: f64,
    pub completed_per_s: f64,
    /// Transfers that were rejected or did not complete, per second.
    pub failed_per_s: f64,
    /// Median of the seconds' median latencies, in milliseconds.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p99_worst_ms: f64,
    /// The 99th percentile of all transfers that were committed in these seconds.
    pub p99_whole_ms: f64,
    pub hub_cores: f64,
    /// Maximum resident memory of the hub in these seconds, in MiB.
    pub rss_mb: f64,
}

/// The figures of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// `before`, `peak`, `overload` or `after`.
    pub name: &'static str,
    /// The figures without the first seconds.
    #[serde(flatten)]
    pub figures: StepFigures,
    /// The figures of the first seconds, with the change of the load.
    pub step: StepFigures,
}

impl PhaseReport {
    pub(super) fn of(name: &'static str, timeline: &TimelineResult, from_s: f64, until_s: f64) -> Self {
        let edge_s = (from_s + f64::from(EDGE_S)).min(until_s);
        let between = |from_s, until_s| StepFigures::of(&seconds(timeline, from_s, until_s));
        Self { name, figures: between(edge_s, until_s), step: between(from_s, edge_s) }
    }

    /// Number of transfers started in the phase.
    fn offered(&self) -> u64 {
        self.figures.offered() + self.step.offered()
    }

    /// Appends the figures of the phase as a line, and its first seconds as the next line.
    pub(super) fn push_to(&self, text: &mut String) {
        self.figures.push_to(self.name, text);
        self.step.push_to("  step", text);
    }

    /// The headings of [`Self::push_to`]'s figures.
    pub(super) fn heading() -> String {
        format!(
            "phase        s  offered/s  completed/s  failed/s   p50 ms   p99 ms  worst p99  p99 of all  hub cores  RSS MiB\n\
             (step: its first {EDGE_S} s, which the lines of the phases leave out)\n"
        )
    }
}

/// A second, and its latencies if they were kept.
type Second<'timeline> = (&'timeline TimelineRow, Option<&'timeline str>);

/// The seconds that end after `from_s`, until `until_s`.
pub(super) fn seconds(timeline: &TimelineResult, from_s: f64, until_s: f64) -> Vec<Second<'_>> {
    let histograms = timeline.histograms.iter().map(|text| Some(text.as_str()));
    let all = timeline.rows.iter().zip(histograms.chain(std::iter::repeat(None)));
    // A row is recorded a moment after the end of its second.
    all.filter(|(row, _)| row.t > from_s + 0.01 && row.t <= until_s + 0.01).collect()
}

/// Maximum resident memory in some seconds, in MiB.
pub(super) fn rss_most(seconds: &[Second<'_>]) -> f64 {
    seconds.iter().filter_map(|(row, _)| row.hub_rss_mb).fold(0.0, f64::max)
}

impl StepFigures {
    fn of(seconds: &[Second<'_>]) -> Self {
        let count = seconds.len().max(1) as f64;
        let per_s =
            |of: fn(&TimelineRow) -> u64| seconds.iter().map(|(row, _)| of(row)).sum::<u64>() as f64 / count;
        let known = |of: fn(&TimelineRow) -> Option<f64>| seconds.iter().filter_map(move |(row, _)| of(row));
        let [p50_ms] = quantiles(known(|row| row.p50_ms), [50]);
        let [p99_ms, p99_worst_ms] = quantiles(known(|row| row.p99_ms), [50, 100]);
        let [hub_cores] = quantiles(known(|row| row.hub_cpu_cores), [50]);
        let histograms = seconds.iter().filter_map(|(_, histogram)| *histogram);
        Self {
            seconds: seconds.len(),
            offered_per_s: per_s(|row| row.offered),
            completed_per_s: per_s(|row| row.completed),
            failed_per_s: per_s(|row| row.failed),
            p50_ms,
            p99_ms,
            p99_worst_ms,
            p99_whole_ms: LatencyMs::of_intervals(histograms).p99,
            hub_cores,
            rss_mb: rss_most(seconds),
        }
    }

    /// Number of transfers started in these seconds.
    fn offered(&self) -> u64 {
        (self.offered_per_s * self.seconds as f64).round() as u64
    }

    fn push_to(&self, name: &str, text: &mut String) {
        // Writing to a String does not fail.
        let Self { seconds, offered_per_s, completed_per_s, failed_per_s, p50_ms, p99_ms, .. } = self;
        let Self { p99_worst_ms, p99_whole_ms, hub_cores, rss_mb, .. } = self;
        let _ = writeln!(
            text,
            "{name:<9} {seconds:>4} {offered_per_s:>10.0} {completed_per_s:>12.0} {failed_per_s:>9.0} {p50_ms:>8.2} {p99_ms:>8.2} \
             {p99_worst_ms:>10.2} {p99_whole_ms:>11.2} {hub_cores:>10.2} {rss_mb:>8.1}"
        );
    }
}

/// Rejections and the time until they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Refusals {
    pub count: u64,
    /// Median time, in milliseconds.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Refusals {
    /// Rejections that the load generator received, in all phases.
    pub(super) const fn of_load(result: &LabResult) -> Self {
        let LatencyMs { p50, p99, max, .. } = result.refusal_ms;
        Self { count: result.refusals, p50_ms: p50, p99_ms: p99, max_ms: max }
    }

    /// Rejections that the probers received.
    pub(super) fn of_probes(probes: &[Probe]) -> Self {
        let refused = probes.iter().filter(|probe| probe.status == 503);
        let ms: Vec<f64> = refused.map(|probe| probe.duration.as_secs_f64() * 1000.0).collect();
        let count = ms.len() as u64;
        let [p50_ms, p99_ms, max_ms] = quantiles(ms, [50, 99, 100]);
        Self { count, p50_ms, p99_ms, max_ms }
    }

    /// The 99th percentile; infinite without rejections, because nothing was measured.
    pub(super) const fn p99_ms_shown(&self) -> f64 {
        if self.count > 0 { self.p99_ms } else { f64::INFINITY }
    }

    pub(super) fn push_to(&self, whose: &str, text: &mut String) {
        let Self { count, p50_ms, p99_ms, max_ms } = self;
        let _ = writeln!(
            text,
            "{count} rejections of {whose}: p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, longest {max_ms:.2} ms"
        );
    }
}

/// Reasons why the figures of a load generator's run are not valid, in words.
pub(super) fn findings_of(result: &LabResult) -> Vec<String> {
    let mut findings = Vec::new();
    match &result.schedule {
        Some(schedule) if schedule.valid => {}
        Some(schedule) => findings.push(format!(
            "the load generator did not keep its schedule: p99 {:.1} ms late, {} not sent",
            schedule.lag_ms_p99, schedule.skipped
        )),
        None => findings.push("the load had no schedule".to_owned()),
    }
    if !result.audit.ok {
        findings.push("the audit has findings: see result.json".to_owned());
    }
    findings
}

// Objectives for a hub under overload, and their results over all runs.

const SCHEMA_VERSION: u32 = 3;

/// The result of a run of either kind.
pub(super) trait Measured: Clone + Serialize + 'static {
    const OBJECTIVES: &'static [Objective<Self>];

    fn findings(&self) -> &[String];

    fn is_audit_ok(&self) -> bool;

    /// The phase with the excessive load.
    fn excess(&self) -> Option<&PhaseReport>;

    /// The result without the parts that are useful only beside the run itself.
    fn shortened(&self) -> Self {
        self.clone()
    }

    fn push_to(&self, text: &mut String);
}

/// The conditions of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Transfers per second that the hub must accept.
    pub peak_per_s: u32,
    /// The load under overload, as a multiple of the peak.
    pub factor: u32,
    /// Load before and after, in per cent of the peak.
    pub normal_percent: u32,
    /// Number of DFSPs that send the excess; absent if all DFSPs send it.
    pub flooders: Option<usize>,
    pub dfsps: usize,
    pub phase_s: u64,
    /// Seconds at the start of a phase that are reported separately.
    pub step_s: u32,
    /// Duration of load before the first phase, in seconds.
    pub warm_up_s: u64,
    pub seed: u64,
    pub connections: u32,
    pub hub_arguments: Vec<String>,
}

impl Conditions {
    pub(super) fn of(arguments: &OverloadArguments) -> Self {
        Self {
            peak_per_s: arguments.peak,
            factor: arguments.factor,
            normal_percent: arguments.normal,
            flooders: arguments.flood_from,
            dfsps: arguments.dfsps,
            phase_s: arguments.phase_length().as_secs(),
            step_s: EDGE_S,
            warm_up_s: arguments.warm_up_length().as_secs(),
            seed: arguments.seed,
            connections: arguments.connections,
            hub_arguments: arguments.hub_arguments(),
        }
    }
}

/// The content of `overload.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadReport<R> {
    pub schema_version: u32,
    #[serde(flatten)]
    pub provenance: Provenance,
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Transfers that were started during the excess, in all runs.
    pub offered: u64,
    /// Whether the audits of all runs found nothing.
    pub audits_ok: bool,
    pub aims: Vec<ObjectiveResult>,
    pub runs: Vec<R>,
}

impl<R: Measured> OverloadReport<R> {
    pub(super) fn of(runs: Vec<R>, conditions: Conditions, provenance: Provenance) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            provenance,
            conditions,
            offered: runs.iter().filter_map(R::excess).map(PhaseReport::offered).sum(),
            audits_ok: runs.iter().all(R::is_audit_ok),
            aims: R::OBJECTIVES.iter().map(|aim| ObjectiveResult::of(aim, &runs)).collect(),
            runs,
        }
    }

    /// The missed goals, and the reasons why runs are not valid, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.aims.iter().filter_map(ObjectiveResult::missed);
        let findings = self.runs.iter().zip(1..).flat_map(|(run, number)| {
            run.findings().iter().map(move |finding: &String| format!("run {number}: {finding}"))
        });
        missed.chain(findings).collect()
    }

    pub(super) fn evidence(&self) -> Result<Value, serde_json::Error> {
        let runs: Vec<R> = self.runs.iter().map(R::shortened).collect();
        serde_json::to_value(Self { runs, ..self.clone() })
    }

    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        for (run, number) in self.runs.iter().zip(1..) {
            if self.runs.len() > 1 {
                let _ = writeln!(text, "run {number}");
            }
            run.push_to(&mut text);
            text.push('\n');
        }
        let _ = writeln!(text, "{:<23} {:>8}  {:>19}  aim", "", "median", "lowest–highest");
        for aim in &self.aims {
            let ObjectiveResult { name, median, lowest, highest, goal, unit, .. } = aim;
            let (relation, verdict) = (aim.relation(), if aim.is_reached { "reached" } else { "missed" });
            let range = format!("{lowest:>9.2} – {highest:>8.2}");
            let _ = writeln!(text, "{name:<23} {median:>8.2} {range}  {relation} {goal} {unit}: {verdict}");
        }
        text
    }
}

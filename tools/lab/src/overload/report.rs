//! The results of the phases of one run with an excess from all DFSPs.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::fmt::Write as _;

use serde::Serialize;

use super::figures::{EDGE_S, Measured, PhaseReport, Refusals, Times, findings_of, rss_most, seconds};
use super::prober::Probe;
use crate::LabResult;
use crate::judge::objectives::Objective;
use crate::result::schema::{TimelineResult, TimelineRow};
use crate::statistics::{part, quantiles};

/// Seconds of steps that are kept: before the load falls, and after.
const STEPS_BEFORE_S: f64 = 1.0;
const STEPS_AFTER_S: f64 = 5.0;
/// Minimum part of the requested peak that the hub must reach. Below it, the peak was chosen too high.
const PEAK_REACHED_MIN: f64 = 0.95;

/// The phases of a run, and the figures of their comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    pub phases: Vec<PhaseReport>,
    /// Committed transfers under overload, as a part of the committed transfers at the peak.
    pub goodput: f64,
    /// 99th percentile under overload, as the median of the seconds' values and a multiple of the value before.
    pub p99_factor: f64,
    /// The same ratio for all transfers of the phases.
    pub p99_whole_factor: f64,
    /// Maximum resident memory until the end of the peak, including warm-up, in MiB.
    pub rss_warm_mb: f64,
    pub rss_most_mb: f64,
    /// Growth from `rss_warm_mb` to `rss_most_mb`, as a part of the former.
    pub rss_growth: f64,
    pub refusals: Refusals,
    /// Responses to the probers, whose connections carry no other requests.
    pub probes: Refusals,
    /// Seconds after the overload until goodput and latency were within a tenth of their usual values at this load;
    /// absent if they never were.
    pub recovery_s: Option<f64>,
    pub usual: UsualBounds,
    /// Steps from one second before the load fell until five seconds after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery_steps: Vec<Step>,
    /// Reasons why the figures are not valid, in words.
    pub findings: Vec<String>,
    /// Whether the audit of the run found nothing.
    pub audit_ok: bool,
}

impl RunReport {
    /// Reads the phases from the timeline of a run.
    pub(super) fn of(result: &LabResult, probes: &[Probe], peak_per_s: u32, times: Times) -> Self {
        let nothing = TimelineResult::default();
        let mut report = Self::of_timeline(result.timeline.as_ref().unwrap_or(&nothing), probes, times);
        report.refusals = Refusals::of_load(result);
        report.audit_ok = result.audit.ok;
        let peak = report.phases.iter().find(|phase| phase.name == "peak");
        let reached = peak.map_or(0.0, |peak| part(peak.figures.completed_per_s, f64::from(peak_per_s)));
        if reached < PEAK_REACHED_MIN {
            let text = format!("the hub reached {:.0} % of the peak: choose a lower --peak", reached * 100.0);
            report.findings.push(text);
        }
        report.findings.extend(findings_of(result));
        report
    }

    pub(super) fn of_timeline(timeline: &TimelineResult, probes: &[Probe], times: Times) -> Self {
        let phase = |name, number: u32| {
            PhaseReport::of(name, timeline, times.start_s(number), times.start_s(number + 1))
        };
        let (before, peak) = (phase("before", 0), phase("peak", 1));
        let (overload, after) = (phase("overload", 2), phase("after", 3));
        let rss_between = |from_s, until_s| rss_most(&seconds(timeline, from_s, until_s));
        let rss_warm_mb = rss_between(0.0, times.start_s(2));
        let rss_most_mb = rss_between(times.start_s(2), times.start_s(4));
        let fell_s = times.start_s(3);
        let steps = steps(&timeline.steps, fell_s);
        let between = |from_s: f64, until_s: f64| -> Vec<Step> {
            steps.iter().filter(|step| step.from_s >= from_s && step.until_s <= until_s).copied().collect()
        };
        let usual = UsualBounds::of(&between(
            times.start_s(0) + f64::from(EDGE_S) - fell_s,
            times.start_s(1) - fell_s,
        ));
        Self {
            goodput: part(overload.figures.completed_per_s, peak.figures.completed_per_s),
            p99_factor: part(overload.figures.p99_ms, before.figures.p99_ms),
            p99_whole_factor: part(overload.figures.p99_whole_ms, before.figures.p99_whole_ms),
            rss_warm_mb,
            rss_most_mb,
            rss_growth: part(rss_most_mb, rss_warm_mb) - 1.0,
            probes: Refusals::of_probes(probes),
            recovery_s: usual.recovered_s(&between(0.0, f64::INFINITY)),
            usual,
            recovery_steps: between(-STEPS_BEFORE_S, STEPS_AFTER_S),
            phases: vec![before, peak, overload, after],
            ..Self::default()
        }
    }
}

impl Measured for RunReport {
    const OBJECTIVES: &'static [Objective<Self>] = &[
        Objective::at_least("goodput under overload", "% of the peak's", 90.0, |run| run.goodput * 100.0),
        Objective::at_most("p99 of accepted transfers", "times the value before", 2.0, |run| run.p99_factor),
        Objective::at_most("p99 of all accepted transfers", "times the value before", 2.0, |run| {
            run.p99_whole_factor
        }),
        Objective::at_most("growth of memory", "% of the maximum at the peak", 5.0, |run| {
            run.rss_growth * 100.0
        }),
        Objective::at_most("p99 of refusals", "ms", 10.0, |run| run.refusals.p99_ms_shown()),
        Objective::at_most("p99 of rejected probes", "ms", 10.0, |run| run.probes.p99_ms_shown()),
        Objective::at_most("recovery", "s", 1.0, |run| run.recovery_s.unwrap_or(f64::INFINITY)),
    ];

    fn findings(&self) -> &[String] {
        &self.findings
    }

    fn is_audit_ok(&self) -> bool {
        self.audit_ok
    }

    fn excess(&self) -> Option<&PhaseReport> {
        self.phases.iter().find(|phase| phase.name == "overload")
    }

    fn shortened(&self) -> Self {
        Self { recovery_steps: Vec::new(), ..self.clone() }
    }

    fn push_to(&self, text: &mut String) {
        text.push_str(&PhaseReport::heading());
        self.phases.iter().for_each(|phase| phase.push_to(text));
        self.refusals.push_to("the load", text);
        self.probes.push_to("probes", text);
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "memory: at most {:.1} MiB until the end of the peak, {:.1} MiB from there on\n\
             usual: p99 of 100 ms up to {:.2} ms, {:.0} committed/s and more",
            self.rss_warm_mb, self.rss_most_mb, self.usual.p99_ms_max, self.usual.completed_per_s_min
        );
        push_steps(&self.recovery_steps, text);
    }
}

/// Appends the steps of the first second after the load fell.
fn push_steps(steps: &[Step], text: &mut String) {
    for step in steps.iter().filter(|step| step.until_s > 0.0 && step.until_s <= 1.1) {
        let p99 = step.p99_ms.map_or_else(|| "–".to_owned(), |p99| format!("{p99:.2}"));
        let _ = writeln!(
            text,
            "  {:>4.0} ms after: {:>6.0} committed/s, {:>6.0} not committed, p99 {p99} ms",
            step.until_s * 1000.0,
            step.completed_per_s,
            step.failed_per_s
        );
    }
}

/// Maximum deviation of a step from the usual values.
const TOLERANCE: f64 = 0.1;
/// In every phase some steps are worse than others. The usual value is the value that nine of ten steps reach. After
/// the overload, nine of ten steps must reach it again.
const USUAL_PERCENT: usize = 90;
const STEPS_LOOKED_AT: usize = 10;
const STEPS_SETTLED_MIN: usize = 9;

/// A part of a second after the load fell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Step {
    /// Seconds from the fall of the load to the start of the step.
    pub from_s: f64,
    /// Seconds from the fall of the load to the end of the step.
    pub until_s: f64,
    pub completed_per_s: f64,
    pub failed_per_s: f64,
    /// 99th percentile of latency in milliseconds; absent if nothing was committed.
    pub p99_ms: Option<f64>,
}

/// The bounds of a usual step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UsualBounds {
    /// Minimum of committed transfers per second.
    pub completed_per_s_min: f64,
    pub p99_ms_max: f64,
}

/// The steps of a timeline, by seconds since `fell_s`.
pub(super) fn steps(rows: &[TimelineRow], fell_s: f64) -> Vec<Step> {
    let step = |pair: &[TimelineRow]| {
        let [before, row] = pair else { return None };
        let seconds = row.t - before.t;
        let per_s = |count: u64| count as f64 / seconds;
        (seconds > 0.0).then(|| Step {
            from_s: before.t - fell_s,
            until_s: row.t - fell_s,
            completed_per_s: per_s(row.completed),
            failed_per_s: per_s(row.failed),
            p99_ms: row.p99_ms,
        })
    };
    rows.windows(2).filter_map(step).collect()
}

impl UsualBounds {
    /// Computes the bounds from the steps of a normal phase.
    pub(super) fn of(steps: &[Step]) -> Self {
        let [completed] = quantiles(steps.iter().map(|step| step.completed_per_s), [100 - USUAL_PERCENT]);
        let [p99_ms] = quantiles(steps.iter().filter_map(|step| step.p99_ms), [USUAL_PERCENT]);
        Self { completed_per_s_min: completed * (1.0 - TOLERANCE), p99_ms_max: p99_ms * (1.0 + TOLERANCE) }
    }

    fn has(&self, step: &Step) -> bool {
        step.completed_per_s >= self.completed_per_s_min
            && step.p99_ms.is_some_and(|p99_ms| p99_ms <= self.p99_ms_max)
    }

    /// The end of the first usual step that is followed by usual ones, in seconds since the load fell; `None` if there
    /// is none. So it is never less than a step.
    fn recovered_s(&self, after: &[Step]) -> Option<f64> {
        let is_settled = |steps: &&[Step]| {
            self.has(&steps[0]) && steps.iter().filter(|step| self.has(step)).count() >= STEPS_SETTLED_MIN
        };
        after.windows(STEPS_LOOKED_AT).find(is_settled).map(|steps| steps[0].until_s)
    }
}

//! What the phases of one run showed.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::time::Duration;

use serde::Serialize;
use upesi_lab::LabResult;
use upesi_lab::measured::{TimelineResult, TimelineRow};

use super::prober::Probe;
use super::recovery::{Step, Usual, steps};

/// Seconds at the beginning of a phase that are not looked at: the first is the step itself.
const EDGE_S: f64 = 2.0;
/// Steps that are kept: seconds before the load falls, and after.
const STEPS_BEFORE_S: f64 = 1.0;
const STEPS_AFTER_S: f64 = 5.0;
/// Part of the asked-for peak that the hub must reach, or the peak was chosen too high.
const PEAK_REACHED_MIN: f64 = 0.95;

/// How a run is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Before the first phase.
    pub(super) warm_up: Duration,
    /// Of each phase.
    pub(super) phase: Duration,
}

impl Times {
    /// Seconds from the start to the beginning of a phase.
    fn start_s(&self, phase: u32) -> f64 {
        (self.warm_up + self.phase * phase).as_secs_f64()
    }
}

/// One phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// `before`, `peak`, `overload` or `after`.
    pub name: &'static str,
    /// Transfers begun per second.
    pub offered_per_s: f64,
    /// Transfers committed per second.
    pub completed_per_s: f64,
    /// Transfers that were refused, or ended otherwise, per second.
    pub failed_per_s: f64,
    /// Median of the seconds' medians of latency, in milliseconds.
    pub p50_ms: f64,
    /// Median of the seconds' 99th percentiles.
    pub p99_ms: f64,
    /// The worst second's.
    pub p99_worst_ms: f64,
    /// The hub's cores.
    pub hub_cores: f64,
    /// The most resident memory that the hub had in it, in MiB.
    pub rss_mb: f64,
}

/// What one run showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// Commit that was measured.
    pub commit: Option<String>,
    /// In order.
    pub phases: Vec<PhaseReport>,
    /// Committed under overload, as a part of what was committed at the peak.
    pub goodput: f64,
    /// 99th percentile under overload, as a multiple of that before.
    pub p99_factor: f64,
    /// The most resident memory until the end of the peak, warm-up included, in MiB.
    pub rss_warm_mb: f64,
    /// The most under overload and after it.
    pub rss_most_mb: f64,
    /// What the second is more than the first, as a part of it.
    pub rss_growth: f64,
    /// Answers with 503 that the probers saw.
    pub refusals: usize,
    /// How long they took, in milliseconds.
    pub refusal_p50_ms: f64,
    /// 99 of 100.
    pub refusal_p99_ms: f64,
    /// The slowest.
    pub refusal_max_ms: f64,
    /// Seconds after the overload until goodput and latency were within a tenth of what is usual at this load; absent where
    /// they never were.
    pub recovery_s: Option<f64>,
    /// What is usual at this load.
    pub usual: Usual,
    /// From a second before the load fell until five after.
    pub recovery_steps: Vec<Step>,
    /// Why the figures do not count, in words.
    pub findings: Vec<String>,
    /// Whether the audit of the run found nothing.
    pub audit_ok: bool,
}

impl RunReport {
    /// Reads the phases from the timeline of a run.
    pub(super) fn of(result: &LabResult, probes: &[Probe], peak_per_s: u32, times: Times) -> Self {
        let nothing = TimelineResult::default();
        let mut report = Self::of_timeline(result.timeline.as_ref().unwrap_or(&nothing), probes, times);
        report.commit = result.environment.commit.clone();
        report.audit_ok = result.audit.ok;
        let peak = report.phases.iter().find(|phase| phase.name == "peak");
        let reached = peak.map_or(0.0, |peak| part(peak.completed_per_s, f64::from(peak_per_s)));
        if reached < PEAK_REACHED_MIN {
            let text = format!("the hub reached {:.0} % of the peak: choose a lower --peak", reached * 100.0);
            report.findings.push(text);
        }
        match &result.schedule {
            Some(schedule) if schedule.valid => {}
            Some(schedule) => report.findings.push(format!(
                "the load generator did not keep its schedule: p99 {:.1} ms late, {} not sent",
                schedule.lag_ms_p99, schedule.skipped
            )),
            None => report.findings.push("the load had no schedule".to_owned()),
        }
        if !report.audit_ok {
            report.findings.push("the audit found something: see result.json".to_owned());
        }
        report
    }

    pub(super) fn of_timeline(timeline: &TimelineResult, probes: &[Probe], times: Times) -> Self {
        let rows = |from: f64, until: f64| -> Vec<&TimelineRow> {
            timeline.rows.iter().filter(|row| row.t > from && row.t <= until + 0.01).collect()
        };
        let phase = |name, number: u32| {
            phase_of(name, &rows(times.start_s(number) + EDGE_S, times.start_s(number + 1)))
        };
        let (before, peak) = (phase("before", 0), phase("peak", 1));
        let (overload, after) = (phase("overload", 2), phase("after", 3));
        let rss_warm_mb = rss_most(&rows(0.0, times.start_s(2)));
        let rss_most_mb = rss_most(&rows(times.start_s(2), times.start_s(4)));
        let fell_s = times.start_s(3);
        let steps = steps(&timeline.steps, fell_s);
        let between = |from_s: f64, until_s: f64| -> Vec<Step> {
            steps.iter().filter(|step| step.from_s >= from_s && step.until_s <= until_s).copied().collect()
        };
        let usual = Usual::of(&between(times.start_s(0) + EDGE_S - fell_s, times.start_s(1) - fell_s));
        let refusals = refusal_ms(probes);
        Self {
            goodput: part(overload.completed_per_s, peak.completed_per_s),
            p99_factor: part(overload.p99_ms, before.p99_ms),
            rss_warm_mb,
            rss_most_mb,
            rss_growth: part(rss_most_mb, rss_warm_mb) - 1.0,
            refusals: refusals.len(),
            refusal_p50_ms: quantile(&refusals, 50),
            refusal_p99_ms: quantile(&refusals, 99),
            refusal_max_ms: quantile(&refusals, 100),
            recovery_s: usual.recovered_s(&between(0.0, f64::INFINITY)),
            usual,
            recovery_steps: between(-STEPS_BEFORE_S, STEPS_AFTER_S),
            phases: vec![before, peak, overload, after],
            ..Self::default()
        }
    }
}

fn rss_most(rows: &[&TimelineRow]) -> f64 {
    rows.iter().filter_map(|row| row.hub_rss_mb).fold(0.0, f64::max)
}

fn phase_of(name: &'static str, rows: &[&TimelineRow]) -> PhaseReport {
    let seconds = rows.len().max(1) as f64;
    let per_s =
        |of: &dyn Fn(&TimelineRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>() as f64 / seconds;
    let sorted = |of: &dyn Fn(&TimelineRow) -> Option<f64>| {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| of(row)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let p99 = sorted(&|row| row.p99_ms);
    PhaseReport {
        name,
        offered_per_s: per_s(&|row| row.offered),
        completed_per_s: per_s(&|row| row.completed),
        failed_per_s: per_s(&|row| row.failed),
        p50_ms: quantile(&sorted(&|row| row.p50_ms), 50),
        p99_ms: quantile(&p99, 50),
        p99_worst_ms: quantile(&p99, 100),
        hub_cores: quantile(&sorted(&|row| row.hub_cpu_cores), 50),
        rss_mb: rss_most(rows),
    }
}

fn refusal_ms(probes: &[Probe]) -> Vec<f64> {
    let refused = probes.iter().filter(|probe| probe.status == 503);
    let mut refused: Vec<f64> = refused.map(|probe| probe.duration.as_secs_f64() * 1000.0).collect();
    refused.sort_by(f64::total_cmp);
    refused
}

/// Of sorted values; 0 of none.
pub(super) fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

fn part(value: f64, of: f64) -> f64 {
    if of > 0.0 { value / of } else { 0.0 }
}

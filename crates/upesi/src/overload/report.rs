//! What the phases showed, and what they were to show.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use upesi_lab::LabResult;
use upesi_lab::measured::TimelineRow;

use super::prober::Probe;

/// Seconds at the edges of the phase of overload that are not looked at: its first is the step itself.
const EDGE_S: f64 = 2.0;
/// Goodput under overload, as a part of the peak.
const GOODPUT_MIN: f64 = 0.9;
/// 99th percentile of what is taken under overload, as a multiple of that below the peak.
const P99_FACTOR_MAX: f64 = 2.0;
/// Growth of the resident memory.
const RSS_GROWTH_MAX: f64 = 0.05;
/// Refusal at the 99th percentile, in milliseconds.
const REFUSAL_MS_MAX: f64 = 10.0;
/// Seconds after the overload until the load is taken whole and in time again.
const RECOVERY_S_MAX: f64 = 2.0;

/// One phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PhaseReport {
    /// `before`, `overload` or `after`.
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
    /// The hub's resident memory at the phase's end, in MiB.
    pub rss_mb: f64,
}

/// What `overload.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverloadReport {
    /// Version of this layout.
    pub schema_version: u32,
    /// Commit that was measured.
    pub commit: Option<String>,
    /// Transfers per second that the hub is to take.
    pub peak_per_s: u32,
    /// In order.
    pub phases: Vec<PhaseReport>,
    /// Committed under overload, as a part of the peak.
    pub goodput: f64,
    /// 99th percentile under overload, as a multiple of that before.
    pub p99_factor: f64,
    /// Growth of the resident memory during the overload, as a part of what it was.
    pub rss_growth: f64,
    /// Answers with 503 that the probers saw.
    pub refusals: usize,
    /// How long they took, in milliseconds.
    pub refusal_p50_ms: f64,
    /// 99 of 100.
    pub refusal_p99_ms: f64,
    /// The slowest.
    pub refusal_max_ms: f64,
    /// Seconds after the overload until a second in which nothing failed and the 99th percentile was in bounds.
    pub recovery_s: Option<f64>,
    /// Whether the load generator kept its schedule; without, what was offered is less than what was asked for.
    pub generator_kept_up: bool,
    /// Whether the audit of the run found nothing.
    pub audit_ok: bool,
}

impl OverloadReport {
    /// Reads the phases from the timeline of a run.
    pub(super) fn of(
        result: &LabResult,
        probes: &[Probe],
        peak_per_s: u32,
        phase: Duration,
        warm_up: Duration,
    ) -> Self {
        let rows = result.timeline.as_ref().map_or(&[][..], |timeline| &timeline.rows);
        let mut report = Self::of_rows(rows, probes, peak_per_s, phase, warm_up);
        report.commit = result.environment.commit.clone();
        report.generator_kept_up = result.schedule.is_some_and(|schedule| schedule.valid);
        report.audit_ok = result.audit.ok;
        report
    }

    pub(super) fn of_rows(
        rows: &[TimelineRow],
        probes: &[Probe],
        peak_per_s: u32,
        phase: Duration,
        warm_up: Duration,
    ) -> Self {
        let (start, length) = (warm_up.as_secs_f64(), phase.as_secs_f64());
        let between = |from: f64, until: f64| -> Vec<&TimelineRow> {
            rows.iter().filter(|row| row.t > from && row.t <= until + 0.01).collect()
        };
        let before = phase_of("before", &between(start, start + length));
        let overload = phase_of("overload", &between(start + length + EDGE_S, start + 2.0 * length));
        let last = between(start + 2.0 * length, start + 3.0 * length);
        let after = phase_of("after", &last);
        let p99_bound = P99_FACTOR_MAX * before.p99_ms;
        let recovered =
            last.iter().find(|row| row.failed == 0 && row.p99_ms.is_some_and(|p99| p99 <= p99_bound));
        let refusals = refusal_ms(probes);
        Self {
            schema_version: 1,
            peak_per_s,
            goodput: part(overload.completed_per_s, f64::from(peak_per_s)),
            p99_factor: part(overload.p99_ms, before.p99_ms),
            rss_growth: part(overload.rss_mb, before.rss_mb) - 1.0,
            refusals: refusals.len(),
            refusal_p50_ms: quantile(&refusals, 50),
            refusal_p99_ms: quantile(&refusals, 99),
            refusal_max_ms: quantile(&refusals, 100),
            recovery_s: recovered.map(|row| row.t - start - 2.0 * length),
            phases: vec![before, overload, after],
            ..Self::default()
        }
    }

    /// The goals that were missed, in words.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut goal = |is_reached: bool, text: String| {
            if !is_reached {
                missed.push(text);
            }
        };
        goal(
            self.goodput >= GOODPUT_MIN,
            format!("goodput is {:.2} of the peak, not {GOODPUT_MIN}", self.goodput),
        );
        goal(
            self.p99_factor <= P99_FACTOR_MAX,
            format!("p99 is {:.1} times that before, not {P99_FACTOR_MAX}", self.p99_factor),
        );
        goal(
            self.rss_growth <= RSS_GROWTH_MAX,
            format!("memory grew by {:.1} %, not {:.0} %", self.rss_growth * 100.0, RSS_GROWTH_MAX * 100.0),
        );
        goal(
            self.refusals > 0 && self.refusal_p99_ms <= REFUSAL_MS_MAX,
            format!("{} refusals, p99 {:.1} ms, not {REFUSAL_MS_MAX}", self.refusals, self.refusal_p99_ms),
        );
        goal(
            self.recovery_s.is_some_and(|seconds| seconds <= RECOVERY_S_MAX),
            format!("recovered after {:?} s, not {RECOVERY_S_MAX}", self.recovery_s),
        );
        goal(self.generator_kept_up, "the load generator did not keep its schedule".to_owned());
        goal(self.audit_ok, "the audit found something: see result.json".to_owned());
        missed
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "phase      offered/s  completed/s  failed/s   p50 ms   p99 ms  worst p99  hub cores  RSS MiB\n",
        );
        // Writing to a String does not fail.
        for phase in &self.phases {
            let _ = writeln!(
                text,
                "{:<9} {:>10.0} {:>12.0} {:>9.0} {:>8.2} {:>8.2} {:>10.2} {:>10.2} {:>8.1}",
                phase.name,
                phase.offered_per_s,
                phase.completed_per_s,
                phase.failed_per_s,
                phase.p50_ms,
                phase.p99_ms,
                phase.p99_worst_ms,
                phase.hub_cores,
                phase.rss_mb
            );
        }
        let recovery =
            self.recovery_s.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.0} s"));
        let _ = writeln!(
            text,
            "goodput {:.1} % of {}/s, p99 x {:.2}, memory {:+.1} %, recovered: {recovery}\n\
             {} refusals: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            self.goodput * 100.0,
            self.peak_per_s,
            self.p99_factor,
            self.rss_growth * 100.0,
            self.refusals,
            self.refusal_p50_ms,
            self.refusal_p99_ms,
            self.refusal_max_ms
        );
        text
    }
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
        rss_mb: rows.iter().rev().find_map(|row| row.hub_rss_mb).unwrap_or(0.0),
    }
}

fn refusal_ms(probes: &[Probe]) -> Vec<f64> {
    let refused = probes.iter().filter(|probe| probe.status == 503);
    let mut refused: Vec<f64> = refused.map(|probe| probe.duration.as_secs_f64() * 1000.0).collect();
    refused.sort_by(f64::total_cmp);
    refused
}

/// Of sorted values; 0 of none.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

fn part(value: f64, of: f64) -> f64 {
    if of > 0.0 { value / of } else { 0.0 }
}

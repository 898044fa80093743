//! What an overload must not do to a hub, and whether it did, over all runs.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::fmt::Write as _;

use serde::Serialize;

use super::report::{PhaseReport, RunReport, quantile};

/// Version of the layout of `overload.json`.
const SCHEMA_VERSION: u32 = 2;

/// One aim.
struct Aim {
    name: &'static str,
    unit: &'static str,
    is_at_least: bool,
    goal: f64,
    /// Infinite where what is hoped for never came.
    of: fn(&RunReport) -> f64,
}

const AIMS: [Aim; 5] = [
    Aim {
        name: "goodput under overload",
        unit: "% of the peak's",
        is_at_least: true,
        goal: 90.0,
        of: |run| run.goodput * 100.0,
    },
    Aim {
        name: "p99 of what is taken",
        unit: "times that before",
        is_at_least: false,
        goal: 2.0,
        of: |run| run.p99_factor,
    },
    Aim {
        name: "growth of memory",
        unit: "% of the most at the peak",
        is_at_least: false,
        goal: 5.0,
        of: |run| run.rss_growth * 100.0,
    },
    Aim {
        name: "p99 of refusals",
        unit: "ms",
        is_at_least: false,
        goal: 10.0,
        // Without refusals nothing was shown.
        of: |run| if run.refusals > 0 { run.refusal_p99_ms } else { f64::INFINITY },
    },
    Aim {
        name: "recovery",
        unit: "s",
        is_at_least: false,
        goal: 1.0,
        of: |run| run.recovery_s.unwrap_or(f64::INFINITY),
    },
];

/// An aim beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AimResult {
    /// What is measured.
    pub name: &'static str,
    /// In what.
    pub unit: &'static str,
    /// Whether more is better.
    pub is_at_least: bool,
    /// The bound.
    pub goal: f64,
    /// Median of the runs; null where it never came.
    pub median: f64,
    /// The least of the runs.
    pub lowest: f64,
    /// The most.
    pub highest: f64,
    /// Whether the median is within the bound.
    pub is_reached: bool,
}

impl AimResult {
    fn of(aim: &Aim, runs: &[RunReport]) -> Self {
        let mut values: Vec<f64> = runs.iter().map(aim.of).collect();
        values.sort_by(f64::total_cmp);
        let median = quantile(&values, 50);
        let is_reached = if aim.is_at_least { median >= aim.goal } else { median <= aim.goal };
        Self {
            name: aim.name,
            unit: aim.unit,
            is_at_least: aim.is_at_least,
            goal: aim.goal,
            median,
            lowest: quantile(&values, 0),
            highest: quantile(&values, 100),
            is_reached: is_reached && !runs.is_empty(),
        }
    }

    const fn relation(&self) -> &'static str {
        if self.is_at_least { "≥" } else { "≤" }
    }
}

/// What `overload.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadReport {
    /// Version of this layout.
    pub schema_version: u32,
    /// Commit that was measured.
    pub commit: Option<String>,
    /// Transfers per second that the hub is to take.
    pub peak_per_s: u32,
    /// How many times the peak is offered under overload.
    pub factor: u32,
    /// What was to be reached, and whether it was.
    pub aims: Vec<AimResult>,
    /// The runs.
    pub runs: Vec<RunReport>,
}

impl OverloadReport {
    /// Judges the runs.
    pub(super) fn of(runs: Vec<RunReport>, peak_per_s: u32, factor: u32) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            commit: runs.first().and_then(|run| run.commit.clone()),
            peak_per_s,
            factor,
            aims: AIMS.iter().map(|aim| AimResult::of(aim, &runs)).collect(),
            runs,
        }
    }

    /// The goals that were missed, and why runs do not count, in words.
    pub fn missed(&self) -> Vec<String> {
        let missed = self.aims.iter().filter(|aim| !aim.is_reached).map(|aim| {
            let AimResult { name, unit, median, goal, .. } = aim;
            format!("{name} is {median:.2} {unit}, not {} {goal}", aim.relation())
        });
        let findings = self.runs.iter().zip(1..).flat_map(|(run, number)| {
            run.findings.iter().map(move |finding: &String| format!("run {number}: {finding}"))
        });
        missed.chain(findings).collect()
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        for (run, number) in self.runs.iter().zip(1..) {
            if self.runs.len() > 1 {
                let _ = writeln!(text, "run {number}");
            }
            push_phases(&run.phases, &mut text);
            let _ = writeln!(
                text,
                "{} refusals: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms\n\
                 memory: at most {:.1} MiB until the end of the peak, {:.1} MiB from there on\n\
                 usual: p99 of 100 ms up to {:.2} ms, {:.0} committed/s and more",
                run.refusals,
                run.refusal_p50_ms,
                run.refusal_p99_ms,
                run.refusal_max_ms,
                run.rss_warm_mb,
                run.rss_most_mb,
                run.usual.p99_ms_max,
                run.usual.completed_per_s_min
            );
            push_steps(run, &mut text);
            text.push('\n');
        }
        let _ = writeln!(text, "{:<23} {:>8}  {:>19}  aim", "", "median", "lowest–highest");
        for aim in &self.aims {
            let _ = writeln!(
                text,
                "{:<23} {:>8.2} {:>9.2} – {:>8.2}  {} {} {}: {}",
                aim.name,
                aim.median,
                aim.lowest,
                aim.highest,
                aim.relation(),
                aim.goal,
                aim.unit,
                if aim.is_reached { "reached" } else { "missed" }
            );
        }
        text
    }
}

fn push_phases(phases: &[PhaseReport], text: &mut String) {
    text.push_str(
        "phase      offered/s  completed/s  failed/s   p50 ms   p99 ms  worst p99  hub cores  RSS MiB\n",
    );
    for phase in phases {
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
}

/// The steps of the first second after the load fell.
fn push_steps(run: &RunReport, text: &mut String) {
    let first = run.recovery_steps.iter().filter(|step| step.until_s > 0.0 && step.until_s <= 1.1);
    for step in first {
        let p99 = step.p99_ms.map_or_else(|| "–".to_owned(), |p99| format!("{p99:.2}"));
        let _ = writeln!(
            text,
            "  {:>4.0} ms after: {:>6.0} committed/s, {:>6.0} otherwise, p99 {p99} ms",
            step.until_s * 1000.0,
            step.completed_per_s,
            step.failed_per_s
        );
    }
}

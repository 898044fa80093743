//! The effect of a flood on the other DFSPs: one DFSP sends many times the load that the hub accepts, and the others
//! send their usual load.
#![expect(clippy::float_arithmetic, reason = "statistics of a measurement; no money")]

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use upesi_process::exit::Failure;
use upesi_types::Timestamp;

use super::figures::{Measured, PhaseReport, Refusals, Times, findings_of};
use super::{MeasuredHub, OUTSTANDING_MAX, OverloadArguments};
use crate::judge::objectives::Objective;
use crate::result::schema::TimelineResult;
use crate::statistics::part;
use crate::{LabResult, Load, PairChoice, Role, RunOptions};

/// The phases before, during and after the flood.
const PHASES: u32 = 3;
/// Prefix of the DFSPs' names. They have separate load generators, so that their outcomes are counted separately.
const OTHERS_PREFIX: &str = "other";
const FLOODERS_PREFIX: &str = "flooder";
/// Additional load of the others after the last phase, because the generators do not start at the same moment.
const SLACK: Duration = Duration::from_secs(10);
/// Minimum part of the others' load that must complete before the flood. Below it, the peak was chosen too high.
const BEFORE_MIN: f64 = 0.95;

/// The phases of both kinds of DFSPs, and the figures of their comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FairnessReport {
    /// The phases of the DFSPs with a constant load.
    pub others: Vec<PhaseReport>,
    /// The phases of the DFSPs that flood.
    pub flooders: Vec<PhaseReport>,
    /// Completed part of the others' load before the flood.
    pub goodput_before: f64,
    /// Completed part of the others' load during the flood, including its first seconds.
    pub goodput: f64,
    /// The others' 99th percentile during the flood, as the median of the seconds' values and a multiple of the value
    /// before.
    pub p99_factor: f64,
    /// The same ratio for all transfers of the phases.
    pub p99_whole_factor: f64,
    pub refusals: Refusals,
    pub refusals_of_others: Refusals,
    /// Reasons why the figures are not valid, in words.
    pub findings: Vec<String>,
    pub audit_ok: bool,
}

impl FairnessReport {
    /// Reads the results of both load generators.
    pub(super) fn of(others: &LabResult, flooders: &LabResult, times: Times) -> Self {
        let nothing = TimelineResult::default();
        let apart_s = match (began(others), began(flooders)) {
            (Some(others), Some(flooders)) => flooders.ms_since(others) as f64 / 1000.0,
            _ => 0.0,
        };
        let timelines = [others, flooders].map(|result| result.timeline.as_ref().unwrap_or(&nothing));
        let mut report = Self::of_timelines(timelines[0], timelines[1], apart_s, times);
        report.refusals = Refusals::of_load(flooders);
        report.refusals_of_others = Refusals::of_load(others);
        report.audit_ok = others.audit.ok && flooders.audit.ok;
        for (whose, result) in [("the others", others), ("who floods", flooders)] {
            report.findings.extend(findings_of(result).into_iter().map(|text| format!("{whose}: {text}")));
        }
        if report.refusals.count == 0 {
            report.findings.push("no request was rejected: the load was not a flood".to_owned());
        }
        report
    }

    /// Reads both timelines. The flooders' load began this many seconds after the others' load.
    pub(super) fn of_timelines(
        others: &TimelineResult,
        flooders: &TimelineResult,
        apart_s: f64,
        times: Times,
    ) -> Self {
        let phases = |timeline: &TimelineResult, apart_s: f64| -> Vec<PhaseReport> {
            let phase = |(name, number)| {
                let (from_s, until_s) = (times.start_s(number), times.start_s(number + 1));
                PhaseReport::of(name, timeline, from_s + apart_s, until_s + apart_s)
            };
            ["before", "flood", "after"].into_iter().zip(0..).map(phase).collect()
        };
        let (others, flooders) = (phases(others, apart_s), phases(flooders, 0.0));
        let [before, flood, _] = &others[..] else { return Self::default() };
        let mut report = Self {
            goodput_before: got(before),
            goodput: got(flood),
            p99_factor: part(flood.figures.p99_ms, before.figures.p99_ms),
            p99_whole_factor: part(flood.figures.p99_whole_ms, before.figures.p99_whole_ms),
            ..Self::default()
        };
        if report.goodput_before < BEFORE_MIN {
            let percent = report.goodput_before * 100.0;
            report.findings.push(format!(
                "before the flood, {percent:.0} % of the others' load was committed: choose a lower --peak"
            ));
        }
        Self { others, flooders, ..report }
    }
}

/// The part of the started transfers that were committed, including the first seconds.
fn got(phase: &PhaseReport) -> f64 {
    let sum = |of: fn(&super::figures::StepFigures) -> f64| -> f64 {
        [&phase.step, &phase.figures].into_iter().map(|figures| of(figures) * figures.seconds as f64).sum()
    };
    part(sum(|figures| figures.completed_per_s), sum(|figures| figures.offered_per_s))
}

fn began(result: &LabResult) -> Option<Timestamp> {
    Timestamp::parse_iso(result.load_began_at.as_deref()?)
}

impl Measured for FairnessReport {
    const OBJECTIVES: &'static [Objective<Self>] = &[
        Objective::at_least("goodput of the others", "% of their load", 95.0, |run| run.goodput * 100.0),
        Objective::at_most("p99 of the others", "times the value before", 2.0, |run| run.p99_factor),
        Objective::at_most("p99 of all transfers of the others", "times the value before", 2.0, |run| {
            run.p99_whole_factor
        }),
    ];

    fn findings(&self) -> &[String] {
        &self.findings
    }

    fn is_audit_ok(&self) -> bool {
        self.audit_ok
    }

    fn excess(&self) -> Option<&PhaseReport> {
        self.flooders.iter().find(|phase| phase.name == "flood")
    }

    fn push_to(&self, text: &mut String) {
        for (whose, phases) in [("the others", &self.others), ("who floods", &self.flooders)] {
            text.push_str(whose);
            text.push('\n');
            text.push_str(&PhaseReport::heading());
            phases.iter().for_each(|phase| phase.push_to(text));
        }
        self.refusals.push_to("who floods", text);
        self.refusals_of_others.push_to("the others", text);
    }
}

/// The usual load per second of each kind of DFSP: its share of the normal load.
pub(super) fn usual_per_s(arguments: &OverloadArguments, flooders: usize) -> (u32, u32) {
    let normal = u64::from(arguments.normal_per_s());
    let others = normal * (arguments.dfsps.saturating_sub(flooders)) as u64 / (arguments.dfsps.max(1)) as u64;
    let rate = |per_s: u64| u32::try_from(per_s).unwrap_or(u32::MAX).max(1);
    (rate(others), rate(normal - others))
}

/// The load of the others, and of the DFSPs that flood.
pub(super) fn loads(arguments: &OverloadArguments, flooders: usize) -> [Load; 2] {
    let (others, usual) = usual_per_s(arguments, flooders);
    let flood = arguments.staged(usual, &[usual, arguments.flood_per_s(), usual]);
    [Load::Open { rate_per_s: others, outstanding_max: OUTSTANDING_MAX }, flood]
}

pub(super) fn measure(arguments: &OverloadArguments, out: &Path) -> Result<FairnessReport, Failure> {
    let flooders = arguments.flood_from.unwrap_or(1);
    let mut tried = MeasuredHub::start(arguments, out)?;
    let [others_load, flood_load] = loads(arguments, flooders);
    let duration = arguments.phase_length() * PHASES;
    let usual = tried.options(arguments);
    let others = RunOptions {
        dfsps: arguments.dfsps - flooders,
        load: others_load,
        duration: duration + SLACK,
        slices: Some(1),
        dfsp_prefix: OTHERS_PREFIX.to_owned(),
        out: Some(out.join("others")),
        ..usual.clone()
    };
    let flood = RunOptions {
        // A single flooder needs a DFSP to pay, which sends nothing.
        dfsps: flooders.max(2),
        pairs: if flooders == 1 { PairChoice::Unidirectional } else { PairChoice::Uniform },
        load: flood_load,
        duration,
        dfsp_prefix: FLOODERS_PREFIX.to_owned(),
        out: Some(out.join("flooders")),
        ..usual
    };
    let half = |options: RunOptions| RunOptions {
        role: Role::Load,
        connections_max: options.connections_max.map(|connections| (connections / 2).max(1)),
        ..options
    };
    let (others, flood) = (half(others), half(flood));
    let (others, flood) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| crate::drive::run::run(&flood));
        (crate::drive::run::run(&others), flood.join())
    });
    tried.hub.end();
    let (others, flood) = (others?, flood.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    let report = FairnessReport::of(&others, &flood, arguments.times());
    tried.tidy(report.audit_ok);
    Ok(report)
}

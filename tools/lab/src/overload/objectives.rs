//! What an overload must not do to a hub, and whether it did, over all runs.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::OverloadArguments;
use super::figures::EDGE_S;
use crate::judge::objective::{Objective, ObjectiveResult};
use crate::result::evidence::Provenance;

const SCHEMA_VERSION: u32 = 3;

/// What a run of either kind gives.
pub(super) trait Measured: Clone + Serialize + 'static {
    /// What is to be reached.
    const OBJECTIVES: &'static [Objective<Self>];

    fn findings(&self) -> &[String];

    fn is_audit_ok(&self) -> bool;

    /// Transfers that were begun while too many were.
    fn offered(&self) -> u64;

    /// Without what is of use only beside the run itself.
    fn shortened(&self) -> Self;

    fn push_to(&self, text: &mut String);
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Transfers per second that the hub is to take.
    pub peak_per_s: u32,
    /// How many times the peak is offered under overload.
    pub factor: u32,
    /// Load before and after, in hundredths of the peak.
    pub normal_percent: u32,
    /// By how many DFSPs too much is asked: by all alike, where it is absent.
    pub flooders: Option<usize>,
    pub dfsps: usize,
    pub phase_s: u64,
    /// Seconds at the start of a phase that are reported apart.
    pub step_s: u32,
    /// Load before the first phase in seconds.
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

/// What `overload.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadReport<R> {
    pub schema_version: u32,
    #[serde(flatten)]
    pub provenance: Provenance,
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Transfers that were begun while too many were, in all runs.
    pub offered: u64,
    /// Whether the audits of all runs found nothing.
    pub audits_ok: bool,
    /// What was to be reached, and whether it was.
    pub aims: Vec<ObjectiveResult>,
    pub runs: Vec<R>,
}

impl<R: Measured> OverloadReport<R> {
    pub(super) fn of(runs: Vec<R>, conditions: Conditions, provenance: Provenance) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            provenance,
            conditions,
            offered: runs.iter().map(R::offered).sum(),
            audits_ok: runs.iter().all(R::is_audit_ok),
            aims: R::OBJECTIVES.iter().map(|aim| ObjectiveResult::of(aim, &runs)).collect(),
            runs,
        }
    }

    /// The goals that were missed, and why runs do not count, in words.
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

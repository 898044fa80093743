//! The evidence of black holes: `black-hole.json`, one entry for each run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use upesi_lab::result::evidence::{Provenance, Subject};

use super::books::Verdict;
use super::figures::{Phase, PhaseResult};
use super::{DFSPS, Plan};
use crate::hub_binary;

/// The others' p99 may grow by so much, in thousandths.
pub const GROWTH_PERMILLE_MAX: i64 = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlackHoleRun {
    #[serde(flatten)]
    pub provenance: Provenance,
    pub seed: u64,
    pub dfsps: u64,
    pub rate_per_s: u64,
    /// How long the DFSP was lost, in seconds.
    pub dark_s: u64,
    pub phases: Vec<PhaseResult>,
    /// By how much the others' p99 was higher while the DFSP was lost than before, in thousandths.
    pub p99_growth_permille: i64,
    /// The same while it got what it had missed.
    pub p99_growth_after_permille: i64,
    /// From the healing to the moment at which nothing was owed or open, the load that went on meanwhile included.
    pub caught_up_after_ms: u64,
    /// Transfers with the lost DFSP that were answered 202.
    pub transfers_with_lost: u64,
    /// Callbacks that it was owed for these, by how they ended; 0 in runs before this was reckoned up.
    #[serde(default)]
    pub callbacks_owed: u64,
    /// Callbacks that it got, repetitions left out: those owed, and answers to what it sent too late.
    pub callbacks_delivered: u64,
    pub callbacks_repeated: u64,
    /// Callbacks owed that did not come; in runs before these were reckoned up, transfers that lacked some.
    pub missing: u64,
    /// Transfers whose callbacks came in another order than they were made.
    pub out_of_order: u64,
    pub violations: Vec<String>,
}

impl BlackHoleRun {
    pub(super) fn new(
        plan: &Plan,
        duration: Duration,
        phases: Vec<PhaseResult>,
        caught_up: Duration,
        verdict: Verdict,
    ) -> Self {
        Self {
            provenance: Provenance { build: hub_binary::build_of(&plan.binary), ..Provenance::now(duration) },
            seed: plan.seed,
            dfsps: DFSPS as u64,
            rate_per_s: plan.rate_per_s,
            dark_s: plan.dark.as_secs(),
            p99_growth_permille: growth_permille(&phases, Phase::During),
            p99_growth_after_permille: growth_permille(&phases, Phase::After),
            phases,
            caught_up_after_ms: u64::try_from(caught_up.as_millis()).unwrap_or(u64::MAX),
            transfers_with_lost: verdict.transfers,
            callbacks_owed: verdict.owed,
            callbacks_delivered: verdict.delivered,
            callbacks_repeated: verdict.repeated,
            missing: verdict.missing,
            out_of_order: verdict.out_of_order,
            violations: verdict.violations,
        }
    }

    /// Whether the others were left in peace. Says something only of a machine that was quiet.
    pub const fn is_within_bounds(&self) -> bool {
        self.p99_growth_permille <= GROWTH_PERMILLE_MAX
    }

    /// What came of it, in lines.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for phase in &self.phases {
            text.push_str(&format!(
                "{:>7}: {} s, {} transfers of the others, {} failed, p50 {} us, p99 {} us, max {} us; hub {} MiB, \
                 {} commands queued, {} callbacks in the lost one's lane, {} owed, {} parked at most\n",
                format!("{:?}", phase.phase).to_lowercase(),
                phase.seconds,
                phase.completed,
                phase.failed,
                phase.p50_us,
                phase.p99_us,
                phase.max_us,
                phase.hub_rss_kib_max / 1024,
                phase.engine_queue_max,
                phase.lane_items_max,
                phase.owed_max,
                phase.parked_max,
            ));
        }
        text.push_str(&format!(
            "the others' p99 changed by {} per mille (at most {GROWTH_PERMILLE_MAX}: {}); caught up {} ms after it was back; \
             {} transfers with the lost one, {} callbacks owed, {} delivered, {} again, {} missing, {} out of order; {} violations",
            self.p99_growth_permille,
            if self.is_within_bounds() { "met" } else { "missed" },
            self.caught_up_after_ms,
            self.transfers_with_lost,
            self.callbacks_owed,
            self.callbacks_delivered,
            self.callbacks_repeated,
            self.missing,
            self.out_of_order,
            self.violations.len(),
        ));
        text
    }
}

/// By how much p99 is higher in a phase than before, in thousandths.
fn growth_permille(phases: &[PhaseResult], phase: Phase) -> i64 {
    let p99 = |phase| phases.iter().find(|result| result.phase == phase).map_or(0, |result| result.p99_us);
    let (before, then) = (p99(Phase::Before).max(1), p99(phase));
    i64::try_from(then.saturating_mul(1_000) / before).unwrap_or(i64::MAX) - 1_000
}

/// The subject of its file of evidence.
pub const SUBJECT: Subject = Subject {
    name: "black-hole",
    what: "one DFSP of eight takes connections and never answers; then it is back",
    command: "torture black-hole --report docs/evidence",
};

#[cfg(test)]
mod tests {
    use upesi_lab::result::evidence::Evidence;

    use super::*;

    fn phase(phase: Phase, p99_us: u64) -> PhaseResult {
        PhaseResult {
            phase,
            seconds: 60,
            completed: 9_000,
            failed: 0,
            p50_us: 1_000,
            p99_us,
            max_us: 9_999,
            hub_rss_kib_max: 30_000,
            engine_queue_max: 1,
            lane_items_max: 2,
            owed_max: 3,
            parked_max: 0,
        }
    }

    fn run(before_us: u64, during_us: u64) -> BlackHoleRun {
        let plan = Plan {
            dark: Duration::from_secs(180),
            light: Duration::from_secs(60),
            rate_per_s: 200,
            seed: 1,
            binary: "target/release/upesi".into(),
            settings: Vec::new(),
            log: None,
        };
        let phases =
            vec![phase(Phase::Before, before_us), phase(Phase::During, during_us), phase(Phase::After, 1)];
        BlackHoleRun::new(&plan, Duration::from_secs(300), phases, Duration::from_secs(2), Verdict::default())
    }

    #[test]
    fn ten_percent_are_within_bounds() {
        for (before, during, permille, is_within) in [
            (1_000, 1_100, 100, true),
            (1_000, 1_101, 101, false),
            (2_000, 1_000, -500, true),
            (0, 0, -1_000, true),
        ] {
            let run = run(before, during);
            assert_eq!((run.p99_growth_permille, run.is_within_bounds()), (permille, is_within));
        }
        assert!(run(1_000, 1_200).summary().contains("200 per mille (at most 100: missed)"));
    }

    #[test]
    fn runs_are_added_to_those_before() {
        let directory = tempfile::tempdir().unwrap();
        for during in [1_000, 2_000] {
            Evidence::add(directory.path(), &SUBJECT, run(1_000, during)).unwrap();
        }
        let evidence = Evidence::<BlackHoleRun>::read(directory.path(), "black-hole").unwrap();
        let growths: Vec<_> = evidence.runs.iter().map(|run| run.p99_growth_permille).collect();
        assert_eq!((growths, evidence.name.as_str()), (vec![0, 1_000], "black-hole"));
        let mut provenances = evidence.runs.iter().map(|run| &run.provenance);
        assert!(provenances.all(|of| of.build == "release" && !of.command.is_empty()));
    }
}

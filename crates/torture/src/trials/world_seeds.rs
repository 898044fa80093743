//! Whole worlds, one for each seed.

use upesi_testkit::{Plan, world};

use crate::tally::Tally;
use crate::trial::Trial;

/// Findings that are told of one world.
const FINDINGS_TOLD_MAX: usize = 5;

/// Mixed faults of every kind, an independent auditor after each, and liveness once they stop.
#[derive(Debug)]
pub struct WorldSeeds;

impl Trial for WorldSeeds {
    fn name(&self) -> &'static str {
        "world-seeds"
    }

    fn what(&self) -> &'static str {
        "simulated worlds with mixed faults, full audit and liveness"
    }

    fn goal(&self) -> u64 {
        100_000
    }

    fn goal_s(&self) -> u64 {
        3_600
    }

    fn run(&self, seed: u64) -> Tally {
        let outcome = world::run(seed, &Plan::default());
        let told = outcome.findings.iter().take(FINDINGS_TOLD_MAX).cloned().collect::<Vec<_>>().join("; ");
        assert!(outcome.is_sound(), "seed {seed}: {} findings: {told}", outcome.findings.len());
        let mut tally = Tally::default();
        let counts = outcome.counts;
        tally.add(Tally::UNITS, 1);
        for (name, count) in [
            ("events", outcome.events),
            ("restarts", counts.starts),
            ("restarts in a row", counts.quick_restarts),
            ("kills", counts.kills),
            ("power losses", counts.power_losses),
            ("stops by the disk", counts.disk_stops),
            ("full disks", counts.full_disks),
            ("clock faults", counts.clock_faults),
            ("outages of DFSPs", counts.outages),
            ("lies", counts.lies),
            ("operators' changes", counts.operations),
            ("acknowledged", counts.acknowledged),
            ("callbacks", counts.callbacks),
        ] {
            tally.add(name, count);
        }
        tally
    }
}

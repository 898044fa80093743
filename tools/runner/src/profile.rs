//! The profiles of a run of tests: the programs that run, their number of cases, and the time limit of a test.

use std::time::Duration;

use crate::program::Program;

/// A profile.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// Maximum duration of a test. A test that takes longer hangs: it fails, and the stacks of its threads are printed.
    pub test_max: Duration,
    /// Whether the programs of [`LONG`] and [`SLOW`] run.
    pub has_slow: bool,
    /// Variables that set the number of cases.
    pub environment: &'static [(&'static str, &'static str)],
}

/// On two slow cores, the slowest test takes a quarter of the limit of `ci`.
pub const PROFILES: [Profile; 3] = [
    Profile { name: "quick", test_max: Duration::from_secs(60), has_slow: false, environment: &[] },
    Profile { name: "ci", test_max: Duration::from_secs(20 * 60), has_slow: true, environment: &[] },
    Profile {
        name: "full",
        test_max: Duration::from_secs(3 * 60 * 60),
        has_slow: true,
        environment: &[
            ("UPESI_CLUSTER_TAKE_OVERS", "20"),
            ("UPESI_CRASH_KILLS", "200"),
            ("UPESI_ENGINE_SEEDS", "3000"),
            ("UPESI_FUZZ_TIMES", "10"),
            ("UPESI_NODES_SEEDS", "600"),
            ("UPESI_POWER_LIVES", "25"),
            ("UPESI_WORLD_SEEDS", "2000"),
        ],
    },
];

/// The slowest programs: crate and target. They start first, so that none of them runs alone at the end.
pub const LONG: [(&str, &str); 6] = [
    ("upesi", "faults"),
    ("upesi", "cluster"),
    ("upesi", "e2e"),
    ("testkit", "worlds"),
    ("torture", "small"),
    ("upesi", "journeys"),
];

/// The other programs that take 13 seconds or more. Each of their crates also has a quicker program.
pub const SLOW: [(&str, &str); 8] = [
    ("delivery", "refusing"),
    ("engine", "crash"),
    ("fuzz", "short"),
    ("kafka", "broker"),
    ("ledger", "fx_transfer_model"),
    ("ledger", "model"),
    ("node", "openapi"),
    ("torture", "audited"),
];

impl Profile {
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Splits programs into two lists. The first list runs, its longest programs first. The profile leaves out the
    /// second list.
    pub fn choose(&self, programs: Vec<Program>) -> (Vec<Program>, Vec<Program>) {
        let is_left_out =
            |program: &Program| !self.has_slow && (program.is_one_of(&LONG) || program.is_one_of(&SLOW));
        let (left_out, mut chosen): (Vec<_>, Vec<_>) = programs.into_iter().partition(is_left_out);
        let place = |program: &Program| LONG.iter().position(|long| program.is_one_of(&[*long]));
        chosen.sort_by_key(|program| place(program).unwrap_or(LONG.len()));
        (chosen, left_out)
    }
}

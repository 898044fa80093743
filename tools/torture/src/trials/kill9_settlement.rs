//! `kill -9` of the real binary while it closes windows and settles them, by a test of the `upesi` crate.

use super::lives::{self, Lives};
use crate::tally::Tally;
use crate::trial::Trial;

/// Kills on one data directory.
const KILLS: u64 = 25;

/// The books of the simulated DFSPs and the nets of all settlements are the oracle. What counts are kills that left a
/// window closed and not settled.
pub(super) const TRIAL: Trial = Trial {
    name: "kill9-settlement",
    what: "kill -9 of the real binary during settlement",
    goal: 500,
    build: lives::build,
    run,
};

fn run(seed: u64) -> Tally {
    let lives = Lives {
        file: "crash_settlement",
        test: "settlements_go_on_where_a_kill_cut_them_off",
        seed: ("UPESI_CRASH_SEED", seed),
        count: ("UPESI_CRASH_KILLS", KILLS),
    };
    let text = lives.run();
    let mut tally = Tally::default();
    tally.add(Tally::UNITS, lives.told(&text, " cut off"));
    tally.add("kills", KILLS);
    tally.add("lives of a data directory", 1);
    tally.add("transfers accepted", lives.told(&text, " accepted, "));
    tally.add("settlements", lives.told(&text, " settlements, "));
    tally
}

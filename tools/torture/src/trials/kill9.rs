//! `kill -9` of the real binary under load, by the crash run of the `upesi` crate's tests.

use super::lives::{self, Lives};
use crate::tally::Tally;
use crate::trial::Trial;

/// Kills on one data directory.
const KILLS: u64 = 50;

/// The load generator's record of every 202 is the oracle.
pub(super) const TRIAL: Trial = Trial {
    name: "kill9",
    what: "kill -9 of the real binary under load",
    goal: 1_000,
    build: lives::build,
    run,
};

fn run(seed: u64) -> Tally {
    let is_leaving = seed % 2 == 1;
    let test = if is_leaving {
        "nothing_is_lost_and_nothing_comes_back_where_transfers_leave"
    } else {
        "nothing_acknowledged_is_lost_by_kills_under_load"
    };
    let lives = Lives {
        file: "crash_run",
        test,
        seed: ("UPESI_CRASH_SEED", seed),
        count: ("UPESI_CRASH_KILLS", KILLS),
    };
    let text = lives.run();
    let mut tally = Tally::default();
    tally.add(Tally::UNITS, KILLS);
    tally.add("lives of a data directory", 1);
    tally.add("data directories that transfers leave", u64::from(is_leaving));
    tally.add("transfers accepted", lives.told(&text, " accepted, "));
    tally
}

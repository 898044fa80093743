//! Power that goes under the real binary, by the test `power_loss` of the `upesi` crate.

use super::lives::{self, Lives};
use crate::tally::Tally;
use crate::trial::Trial;

/// Lives of one data directory; the power goes at the end of most.
const LIVES: u64 = 25;

/// What no sync has made durable is taken back; the load generator's record of every 202 is the oracle.
pub(super) const TRIAL: Trial = Trial {
    name: "power-loss",
    what: "power gone under the real binary, its archive and its store included",
    goal: 1_000,
    build: lives::build,
    run,
};

fn run(seed: u64) -> Tally {
    let (is_archive_alone, is_leaving) = (seed % 3 == 1, seed % 3 == 2);
    let test = match seed % 3 {
        0 => "nothing_acknowledged_is_lost_with_the_power",
        1 => "nothing_acknowledged_is_lost_where_the_archive_is_the_only_copy",
        _ => "nothing_is_lost_and_nothing_comes_back_where_transfers_leave",
    };
    let (seed, count) = (("UPESI_POWER_SEED", seed), ("UPESI_POWER_LIVES", LIVES));
    let lives = Lives { file: "power_loss", test, seed, count };
    let text = lives.run();
    let mut tally = Tally::default();
    tally.add(Tally::UNITS, lives.told(&text, " times the power went, "));
    tally.add("directories", 1);
    tally.add("directories whose archive is the only copy", u64::from(is_archive_alone));
    tally.add("directories that transfers leave", u64::from(is_leaving));
    tally.add("transfers accepted", lives.told(&text, " accepted, "));
    tally.add("changes that were lost", lives.told(&text, " changes were lost"));
    tally
}

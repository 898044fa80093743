//! Whole worlds, one for each seed.

use upesi_testkit::Plan;
use upesi_testkit::world::{self, Outcome};

use super::{Part, Tally, Trial};
use crate::trials;

const FINDINGS_TOLD_MAX: usize = 5;
/// In so many seeds one has a second world, whose disk does not keep what was written.
const ROTTEN_ONE_IN: u64 = 8;

/// Worlds in which a settlement came to its end, and a conversion and an item of a bulk were committed. Those that were
/// lived through before there was such are not counted.
pub(super) const WITH_ALL_MONEY: Part = Part {
    of: "world-seeds",
    detail: "worlds with settlements, conversions and bulks",
    what: "of those, worlds in which settlements, conversions and bulks came to their end",
    goal: 20_000,
};

/// Mixed faults of every kind, an independent auditor after each, and liveness once they stop.
pub(super) const TRIAL: Trial = Trial {
    name: "world-seeds",
    what: "simulated worlds with mixed faults, full audit and liveness",
    goal: 100_000,
    build: trials::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let outcome = world::run(seed, &Plan::default());
    assert_sound(&outcome, "");
    let mut tally = Tally::default();
    if seed.is_multiple_of(ROTTEN_ONE_IN) {
        add_rotten(seed, &mut tally);
    }
    let counts = outcome.counts;
    tally.add(Tally::UNITS, 1);
    let has_all = counts.settled > 0 && counts.conversions_committed > 0 && counts.bulks_completed > 0;
    tally.add(WITH_ALL_MONEY.detail, u64::from(has_all));
    for (name, count) in [
        ("events", outcome.events),
        ("restarts", counts.starts),
        ("restarts in a row", counts.quick_restarts),
        ("kills", counts.kills),
        ("power losses", counts.power_losses),
        ("starts cut off", counts.starts_cut_off),
        ("crashes at an operation", counts.crashes_at_operation),
        ("broken operations", counts.broken_operations),
        ("broken reads", counts.broken_reads),
        ("broken archives", counts.broken_archives),
        ("stops by the disk", counts.disk_stops),
        ("full disks", counts.full_disks),
        ("clock faults", counts.clock_faults()),
        ("outages of DFSPs", counts.outages()),
        ("messages lost", counts.messages_lost + counts.callback_answers_lost),
        ("messages doubled", counts.messages_doubled),
        ("messages delayed", counts.messages_delayed),
        ("lies", counts.lies),
        ("operators' changes", counts.operations),
        (
            "operators' ambushes",
            counts.ambushes_in_flight + counts.ambushes_before_crash + counts.ambushes_after_start,
        ),
        ("faults", counts.faults),
        ("checks of safety", counts.checks),
        ("acknowledged", counts.acknowledged),
        ("callbacks", counts.callbacks),
        ("transfers through a proxy", counts.committed_through_proxy),
    ] {
        tally.add(name, count);
    }
    tally
}

fn assert_sound(outcome: &Outcome, world: &str) {
    let told = outcome.findings.iter().take(FINDINGS_TOLD_MAX).cloned().collect::<Vec<_>>().join("; ");
    assert!(outcome.is_sound(), "seed {}{world}: {} findings: {told}", outcome.seed, outcome.findings.len());
}

/// Lives through the same seed with a disk that does not keep what was written.
fn add_rotten(seed: u64, tally: &mut Tally) {
    let outcome = world::run(seed, &Plan::rotten());
    assert_sound(&outcome, " with rot");
    let counts = outcome.counts;
    for (name, count) in [
        ("rotten worlds", 1),
        ("rotten bits", counts.rotten_bits),
        ("lost writes", counts.lost_writes),
        ("misdirected writes", counts.misdirected_writes),
        ("stale writes", counts.stale_writes),
        ("starts that refused", counts.rot_found),
        ("frames gone without a trace", counts.rot_unseen),
    ] {
        tally.add(name, count);
    }
}

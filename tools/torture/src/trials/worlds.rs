//! Whole worlds, one for each seed.

use upesi_testkit::Plan;
use upesi_testkit::world::{self, Outcome};

use super::{Part, Tally, Trial};
use crate::trials;

const FINDINGS_TOLD_MAX: usize = 5;
/// One seed in this many has a second world with a disk that loses or changes written data.
const ROTTEN_ONE_IN: u64 = 8;

/// Worlds that completed a settlement, and committed an FX transfer and an item of a bulk transfer. Worlds from before
/// these features are not counted.
pub(super) const WITH_ALL_MONEY: Part = Part {
    of: "world-seeds",
    detail: "worlds with settlements, conversions and bulks",
    what: "among them, worlds that completed settlements, FX transfers and bulk transfers",
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
    let has_all = counts.settled > 0 && counts.fx_transfers_committed > 0 && counts.bulks_completed > 0;
    tally.add_all([
        (Tally::UNITS, 1),
        (WITH_ALL_MONEY.detail, u64::from(has_all)),
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
        ("removals", counts.removals),
        ("transfers removed", counts.removed),
        ("prepares that came again after their removal", counts.resent_after_removal),
    ]);
    tally
}

/// The same faults for a hub that is one of two or three nodes.
pub(super) const NODES: Trial = Trial {
    name: "node-seeds",
    what: "simulated worlds of two or three hubs that share a log, full audit and liveness",
    goal: 10_000,
    build: trials::own_build,
    run: run_nodes,
};

fn run_nodes(seed: u64) -> Tally {
    let outcome = world::run(seed, &Plan::of_nodes());
    assert_sound(&outcome, " of nodes");
    let counts = outcome.counts;
    Tally::of([
        (Tally::UNITS, 1),
        ("events", outcome.events),
        ("starts", counts.starts),
        ("changes of the leader", counts.fail_overs),
        ("hand-overs", counts.hand_overs),
        ("leaders that came back when another one led", counts.former_leaders),
        ("times that other nodes were to deliver, or one of them ended", counts.courier_troubles),
        ("times that a node followed", counts.followed),
        ("entries or acknowledgements that were lost", counts.entries_lost),
        ("entries that came twice or late", counts.entries_late),
        ("entries that were deleted", counts.entries_deleted),
        ("copies compared at the end", counts.nodes_compared),
        ("clock faults", counts.clock_faults()),
        ("faults", counts.faults),
        ("checks of safety", counts.checks),
        ("acknowledged", counts.acknowledged),
    ])
}

fn assert_sound(outcome: &Outcome, world: &str) {
    let told = outcome.findings.iter().take(FINDINGS_TOLD_MAX).cloned().collect::<Vec<_>>().join("; ");
    assert!(outcome.is_sound(), "seed {}{world}: {} findings: {told}", outcome.seed, outcome.findings.len());
}

/// Runs the same seed with a disk that loses or changes written data.
fn add_rotten(seed: u64, tally: &mut Tally) {
    let outcome = world::run(seed, &Plan::rotten());
    assert_sound(&outcome, " with rot");
    let counts = outcome.counts;
    tally.add_all([
        ("rotten worlds", 1),
        ("rotten bits", counts.rotten_bits),
        ("lost writes", counts.lost_writes),
        ("misdirected writes", counts.misdirected_writes),
        ("stale writes", counts.stale_writes),
        ("starts that refused", counts.rot_found),
        ("frames gone without a trace", counts.rot_unseen),
    ]);
}

//! Three nodes, a simulated broker and all faults between them, with checks from outside.
//!
//! `SEED=17 cargo test -p upesi-cluster --test world` runs one world, `SEEDS=20000` this many of each test.

mod broker;
mod checks;
mod node;
mod random;
mod world;

use std::collections::BTreeMap;

use world::{Flaw, World};

const STEPS: usize = 1_500;

/// The seeds of a test: `usual` many, unless the environment sets others.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(usual),
    }
}

/// Runs worlds with a flaw. Returns the counts of events, and the seeds whose check failed, with the first finding.
fn run(flaw: Flaw, usual: u64) -> (BTreeMap<&'static str, u64>, Vec<(u64, String)>) {
    let (mut counts, mut failures) = (BTreeMap::new(), Vec::new());
    for seed in seeds(usual) {
        let mut world = World::new(seed, flaw);
        world.run(STEPS);
        if let Err(finding) = world.finish() {
            failures.push((seed, finding));
        }
        for (name, count) in world.counts() {
            *counts.entry(name).or_default() += count;
        }
    }
    (counts, failures)
}

#[test]
fn no_answer_is_lost_none_applied_twice_and_no_read_is_stale() {
    let (counts, failures) = run(Flaw::None, 300);
    assert!(failures.is_empty(), "SEED={} : {}", failures[0].0, failures[0].1);
    // Worlds without events prove nothing. These are minimum counts in ten worlds.
    let worlds = seeds(300).count() as u64;
    for (name, in_ten) in [
        ("answered", 100),
        ("reads", 30),
        ("claims accepted", 30),
        ("claims void", 20),
        ("superseded", 5),
        ("handed over", 3),
        ("handed to any", 1),
        ("claims after a hand-over", 2),
        ("read back", 30),
        ("truncated", 5),
        ("restarts", 10),
        ("acknowledgements lost", 20),
        ("void", 20),
        ("of the journal", 20),
        ("of the store", 20),
    ] {
        let count = counts.get(name).copied().unwrap_or_default();
        assert!(
            worlds < 100 || count * 10 >= in_ten * worlds,
            "only {count} {name} in {worlds} worlds: {counts:?}"
        );
    }
}

/// A check that has never failed proves nothing, so each flaw must be found.
fn is_found(flaw: Flaw, finding: &str) {
    let (counts, failures) = run(flaw, 500);
    let found = failures.iter().filter(|(_, text)| text.contains(finding)).count();
    assert!(found > 0, "{flaw:?} was never found as {finding:?}: {counts:?}, {:?}", failures.first());
}

#[test]
fn planted_leader_that_trusts_any_acknowledgement_is_detected() {
    is_found(Flaw::TrustsAcknowledgements, "C1");
}

#[test]
fn planted_reads_without_a_barrier_are_detected() {
    is_found(Flaw::ReadsWithoutBarrier, "C5");
}

#[test]
fn planted_claimant_that_serves_too_early_is_detected() {
    is_found(Flaw::ServesBeforeItsClaim, "C5");
}

#[test]
fn planted_fold_by_epoch_alone_applies_commands_twice() {
    is_found(Flaw::FoldsByEpochAlone, "C3");
}

#[test]
fn brokers_that_lose_acknowledged_entries_are_detected() {
    is_found(Flaw::BrokersLoseTheirTail, "C");
}

#[test]
fn simulation_is_deterministic_for_a_seed() {
    let run = |seed| {
        let mut world = World::new(seed, Flaw::None);
        world.run(STEPS);
        world.finish().expect("a sound world");
        (world.counts(), world.log_bytes())
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

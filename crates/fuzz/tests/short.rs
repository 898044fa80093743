//! The targets over their seeds, their kept corpora, and as many mutations as a minute of one core allows in all.
//!
//! `UPESI_FUZZ_SEED` and `UPESI_FUZZ_SECONDS` choose others than the usual. The seed is printed, and so is what broke.
#![allow(missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use upesi_fuzz::{Mutator, TARGETS, Target};

const SECONDS_IN_ALL: u64 = 60;
/// However slow the machine, so many per target are tried.
const INPUTS_MIN: u64 = 200;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the fuzzer found worth keeping, and what broke once.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut inputs = Vec::new();
    for folder in ["corpus", "regressions"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder).join(target.name)) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        inputs.extend(paths.iter().map(|path| std::fs::read(path).expect("a readable corpus")));
    }
    inputs
}

fn judge(target: &Target, input: &[u8], how: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let text = String::from_utf8_lossy(input);
        panic!("{} breaks ({how}): {}\nbytes {input:?}\ntext {text:?}", target.name, target.promise);
    }
}

#[test]
fn targets_withstand_their_seeds_and_a_minute_of_mutations() {
    let seed = setting("UPESI_FUZZ_SEED", 1);
    let seconds = setting("UPESI_FUZZ_SECONDS", SECONDS_IN_ALL);
    let share = Duration::from_secs(seconds) / TARGETS.len() as u32;
    eprintln!("seed {seed}; UPESI_FUZZ_SEED chooses another");
    for target in TARGETS {
        let mut seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        seeds.extend(corpus(target));
        seeds.iter().for_each(|input| judge(target, input, "a seed"));
        let mut mutator = Mutator::new(&seeds, seed);
        let (started, mut inputs) = (Instant::now(), 0);
        while inputs < INPUTS_MIN || started.elapsed() < share {
            let input = mutator.next_input();
            inputs += 1;
            judge(target, &input, &format!("seed {seed}, input {inputs}"));
        }
        eprintln!("{:<16} {inputs:>9} inputs", target.name);
    }
}

#[test]
fn a_broken_promise_is_noticed() {
    let broken = Target {
        name: "broken",
        promise: "there is no second brace",
        run: |input| assert!(input.iter().filter(|byte| **byte == b'{').count() < 2),
        seeds: || vec![b"{}".to_vec()],
    };
    let seeds = (broken.seeds)();
    let mut mutator = Mutator::new(&seeds, 1);
    let found = (0..1_000).any(|_| {
        let input = mutator.next_input();
        catch_unwind(AssertUnwindSafe(|| judge(&broken, &input, "a mutation"))).is_err()
    });
    assert!(found);
}

#[test]
fn one_seed_is_one_sequence() {
    let seeds = (TARGETS[0].seeds)();
    let inputs = |seed| {
        let mut mutator = Mutator::new(&seeds, seed);
        (0..100).map(|_| mutator.next_input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}

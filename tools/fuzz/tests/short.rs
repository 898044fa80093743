//! Runs the targets over their seeds, over inputs that once broke them, and over as many mutations as each target
//! names.
//!
//! Every machine uses the same inputs. `UPESI_FUZZ_SEED=2` draws others, `UPESI_FUZZ_TIMES=100` draws a hundred times
//! as many. An input that breaks a target is kept, and printed with the command that repeats it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use upesi_fuzz::{Mutator, TARGETS, Target};

/// Inputs that broke a target once, in a folder per target.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/libfuzzer/regressions");

macro_rules! every_target {
    ($($name:ident),* $(,)?) => {
        mod withstands {
            $(#[test] fn $name() { super::withstand(stringify!($name)); })*
        }

        /// A separate test for each, so that they run in parallel.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

every_target!(
    connection,
    proxy_header,
    http2_requests,
    http2_answers,
    http_request,
    messages,
    headers,
    routes,
    bodies,
    amounts,
    ilp_packet,
    ledger_record,
    ledger_snapshot,
    ledger_commands,
    archived_transfer,
    store_record,
    journal,
    segment,
    snapshot_file,
    oracle,
    config,
    scheme_file,
    quote_rules,
    party_file,
    admin,
);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The inputs that broke a target once, in the order of their names.
fn regressions(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(Path::new(REGRESSIONS).join(target.name)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable input")).collect()
}

fn holds(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok()
}

fn judge(target: &Target, input: &[u8], how: &str) {
    if holds(target, input) {
        return;
    }
    let name = target.name;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-breaks"));
    let place = match std::fs::write(&path, input) {
        Ok(()) => format!("kept as {}: put it into tools/fuzz/libfuzzer/regressions/{name}", path.display()),
        Err(error) => format!("{}: {error}", path.display()),
    };
    let text = String::from_utf8_lossy(input);
    panic!("{name} breaks ({how}): {}\n{place}\nbytes {input:?}\ntext {text:?}", target.promise);
}

fn withstand(name: &str) {
    let target = upesi_fuzz::target(name).expect("a target");
    let seed = setting("UPESI_FUZZ_SEED", 1);
    let inputs = target.inputs * setting("UPESI_FUZZ_TIMES", 1);
    let mut seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds.extend(regressions(target));
    seeds.iter().for_each(|input| judge(target, input, "a seed, or broke it once"));
    let mut mutator = Mutator::new(&seeds, seed);
    for number in 1..=inputs {
        let input = mutator.next_input();
        judge(target, &input, &format!("UPESI_FUZZ_SEED={seed}, input {number}"));
    }
}

#[test]
fn every_target_is_tested() {
    assert_eq!(TESTED, TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
}

/// An input in a folder that no target reads would never be tried.
#[test]
fn kept_inputs_belong_to_a_target() {
    for entry in std::fs::read_dir(REGRESSIONS).expect("a folder of inputs") {
        let name = entry.expect("a readable folder").file_name();
        assert!(name.to_str().is_some_and(|name| TESTED.contains(&name)), "regressions/{name:?}");
    }
}

#[test]
fn broken_promise_is_reported() {
    let broken = Target {
        name: "broken",
        promise: "an input has no second brace",
        run: |input| assert!(input.iter().filter(|byte| **byte == b'{').count() < 2),
        seeds: || vec![b"{}".to_vec()],
        inputs: 1_000,
    };
    let seeds = (broken.seeds)();
    let mut mutator = Mutator::new(&seeds, 1);
    assert!((0..broken.inputs).any(|_| !holds(&broken, &mutator.next_input())));
}

#[test]
fn dictionary_has_each_word_once() {
    let text = upesi_fuzz::dictionary(&[b"{\"abc\": \"abc\"}".to_vec(), vec![0; 100]]);
    assert_eq!(text.matches("\"\\x61\\x62\\x63\"\n").count(), 1, "{text}");
    assert!(text.lines().all(|line| line.len() > 2 && line.starts_with('"') && line.ends_with('"')));
}

#[test]
fn mutations_of_one_seed_are_always_the_same() {
    let seeds = (TARGETS[0].seeds)();
    let inputs = |seed| {
        let mut mutator = Mutator::new(&seeds, seed);
        (0..100).map(|_| mutator.next_input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}

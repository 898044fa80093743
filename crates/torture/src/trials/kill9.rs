//! `kill -9` of the real binary under load, by the crash run of the `upesi` crate's tests.

use std::path::Path;
use std::process::{Command, Output};

use crate::hub_binary;
use crate::tally::Tally;
use crate::trial::Trial;

/// Kills on one data directory.
const KILLS: u64 = 50;
/// Of what a failed run has printed, so much is told, in lines.
const LINES_TOLD_MAX: usize = 40;
const TEST: &str = "nothing_acknowledged_is_lost_by_kills_under_load";

/// The load generator's record of every 202 is the oracle.
#[derive(Debug)]
pub struct Kills;

impl Trial for Kills {
    fn name(&self) -> &'static str {
        "kill9"
    }

    fn what(&self) -> &'static str {
        "kill -9 of the real binary under load"
    }

    fn goal(&self) -> u64 {
        1_000
    }

    fn goal_s(&self) -> u64 {
        1_400
    }

    fn build(&self) -> Result<String, String> {
        hub_binary::get().map(|program| hub_binary::build_of(&program))
    }

    fn run(&self, seed: u64) -> Tally {
        let program = hub_binary::get().expect("a hub to be killed");
        let output = crash_run(seed, &program).expect("cargo can be run");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {}\n{}", tail(&text), tail(&errors));
        let accepted = accepted(&text);
        assert!(accepted > 0, "seed {seed}: the run does not say what it did: {}", tail(&text));
        let mut tally = Tally::default();
        tally.add(Tally::UNITS, KILLS);
        tally.add("lives of a data directory", 1);
        tally.add("transfers accepted", accepted);
        tally
    }
}

/// The test is built like all tests; what it kills is the program given. The seed is mixed, so that neighbours have nothing in
/// common.
fn crash_run(seed: u64, program: &Path) -> std::io::Result<Output> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--quiet", "--locked", "--package", "upesi", "--test", "crash_run"]);
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("UPESI_CRASH_SEED", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string());
    command.env("UPESI_CRASH_KILLS", KILLS.to_string());
    command.env("UPESI_CRASH_BINARY", program);
    command.output()
}

/// From the last line of a run: `  1234 ms  5678 accepted, 3 segments, …`.
fn accepted(text: &str) -> u64 {
    let last = text.lines().rev().find_map(|line| line.split_once(" accepted, "));
    last.and_then(|(before, _)| before.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_TOLD_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_line_of_a_run_tells_what_was_accepted() {
        let text = "   12 ms  life 1: Accepted(3), served: true, 9 accepted so far\n  99 ms  4321 accepted, 7 segments, 2\n";
        assert_eq!(super::accepted(text), 4321);
        assert_eq!(super::accepted("nothing"), 0);
    }
}

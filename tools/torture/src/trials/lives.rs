//! Trials of the real binary by tests of the `upesi` crate. These tests end a hub again and again: by kills under load,
//! by kills during settlement, and by power failures.

use std::process::Command;

use super::{Tally, Trial};
use crate::hub_binary;

/// Maximum number of lines of a failed run's output that are reported.
const LINES_TOLD_MAX: usize = 40;

/// Builds the hub for these tests. Fails if it cannot be built.
pub(super) fn build() -> Result<String, String> {
    hub_binary::get().map(|program| hub_binary::build_of(&program))
}

/// The environment variables with a test's seed and its number of ends.
const CRASH: [&str; 2] = ["UPESI_CRASH_SEED", "UPESI_CRASH_KILLS"];
const CLUSTER: [&str; 2] = ["UPESI_CRASH_SEED", "UPESI_CLUSTER_TAKE_OVERS"];
const POWER: [&str; 2] = ["UPESI_POWER_SEED", "UPESI_POWER_LIVES"];

/// The output of a run of such a test.
struct TestOutput {
    seed: u64,
    text: String,
}

impl TestOutput {
    /// Runs the test. The test is built like all tests, but the hub is the given program. The seed is mixed, so that
    /// neighbouring seeds have nothing in common. Panics with the end of the output if the test fails.
    fn by(program: &str, test: &str, variables: [&str; 2], seed: u64, count: u64) -> Self {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--quiet", "--locked", "--package", "upesi", "--test", program]);
        command.args(["--", "--exact", test, "--nocapture"]);
        command.env(variables[0], seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string());
        command.env(variables[1], count.to_string());
        command.env("UPESI_CRASH_BINARY", hub_binary::get().expect("a hub that ends"));
        let output = command.output().expect("cargo can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {}\n{}", tail(&text), reason(&errors));
        Self { seed, text }
    }

    /// The number before this text in the output. Panics if it is absent or 0.
    fn number(&self, what: &str) -> u64 {
        let number = self.count(what);
        assert!(number > 0, "seed {}: the run counts 0{what}: {}", self.seed, tail(&self.text));
        number
    }

    /// The number before this text in the output, which may be 0. Panics if it is absent.
    fn count(&self, what: &str) -> u64 {
        let number = number_before(&self.text, what);
        number.unwrap_or_else(|| {
            panic!("seed {}: the run does not count{what}: {}", self.seed, tail(&self.text))
        })
    }
}

/// The number right before the last occurrence of `what`.
fn number_before(text: &str, what: &str) -> Option<u64> {
    let (before, _) = text.rsplit_once(what)?;
    before.split_whitespace().last()?.parse().ok()
}

/// The part of the errors with the reason. A backtrace after it is longer than the reported lines.
fn reason(errors: &str) -> String {
    let begin = errors.find("panicked at").unwrap_or_default();
    errors[begin..].lines().take(LINES_TOLD_MAX).collect::<Vec<_>>().join("\n")
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_TOLD_MAX)..].join("\n")
}

/// Kills of one data directory's hub.
const KILLS_UNDER_LOAD: u64 = 50;

/// The load generator's record of every 202 is the oracle.
pub(super) const KILL9: Trial = Trial {
    name: "kill9",
    what: "kill -9 of the real binary under load",
    goal: 1_000,
    build,
    run: kill_under_load,
};

fn kill_under_load(seed: u64) -> Tally {
    let is_leaving = seed % 2 == 1;
    let test = if is_leaving {
        "crash_run::kills_with_retention_lose_nothing_and_restore_nothing"
    } else {
        "crash_run::kills_under_load_lose_no_acknowledged_transfer"
    };
    let told = TestOutput::by("faults", test, CRASH, seed, KILLS_UNDER_LOAD);
    Tally::of([
        (Tally::UNITS, KILLS_UNDER_LOAD),
        ("lives of a data directory", 1),
        ("data directories that transfers leave", u64::from(is_leaving)),
        ("transfers accepted", told.number(" accepted, ")),
    ])
}

/// Kills of one data directory's hub.
const KILLS_WHILE_SETTLING: u64 = 25;

/// The books of the simulated DFSPs and the nets of all settlements are the oracle. A unit is a kill after the close of
/// a window and before its settlement.
pub(super) const KILL9_SETTLEMENT: Trial = Trial {
    name: "kill9-settlement",
    what: "kill -9 of the real binary during settlement",
    goal: 500,
    build,
    run: kill_while_settling,
};

fn kill_while_settling(seed: u64) -> Tally {
    let test = "crash_settlement::settlements_continue_after_kills";
    let told = TestOutput::by("faults", test, CRASH, seed, KILLS_WHILE_SETTLING);
    Tally::of([
        (Tally::UNITS, told.number(" cut off")),
        ("kills", KILLS_WHILE_SETTLING),
        ("lives of a data directory", 1),
        ("transfers accepted", told.number(" accepted, ")),
        ("settlements", told.number(" settlements, ")),
    ])
}

/// Losses of one cluster; each kind occurs twice.
const LOSSES: u64 = 26;
/// The kinds of losses, as the test names them.
const KINDS: [&str; 13] = [
    "leaders killed",
    "leaders frozen",
    "leaders stopped in order",
    "hand-overs",
    "brokers that follow killed",
    "brokers that follow frozen",
    "brokers that lead killed",
    "brokers that lead frozen",
    "brokers that lead restarted in order",
    "leaders killed with the broker that leads",
    "leaders frozen with the broker that leads",
    "times that all brokers were frozen",
    "times that everything was killed",
];

/// The oracle is the load generator's record of every 202, and the outcomes that payers received.
pub(super) const FAIL_OVERS: Trial = Trial {
    name: "fail-overs",
    what: "losses of parts of three hubs and three brokers under load",
    goal: 2_600,
    build,
    run: lose_parts,
};

fn lose_parts(seed: u64) -> Tally {
    let test = "losses::loss_of_any_part_loses_no_acknowledged_transfer";
    let told = TestOutput::by("cluster", test, CLUSTER, seed, LOSSES);
    let late = told.text.lines().filter_map(|line| number_before(line, " later than the goal")).sum();
    let mut tally = Tally::of([
        (Tally::UNITS, LOSSES),
        ("clusters", 1),
        ("transfers accepted", told.number(" accepted, ")),
        ("reads told as fresh", told.number(" reads marked as current")),
        ("longer without an answer than the goal", late),
        ("clients of brokers that were stuck", told.count(" times a stalled client of the brokers")),
    ]);
    for kind in KINDS {
        tally.add(kind, told.number(&format!(" {kind}: nothing")));
    }
    tally
}

/// Lives of one data directory; most end with a power failure.
const LIVES: u64 = 25;

/// Data that no sync made durable are undone. The load generator's record of every 202 is the oracle.
pub(super) const POWER_LOSS: Trial = Trial {
    name: "power-loss",
    what: "power failures under the real binary, its archive and its store",
    goal: 1_000,
    build,
    run: lose_power,
};

fn lose_power(seed: u64) -> Tally {
    let (is_archive_alone, is_leaving) = (seed % 3 == 1, seed % 3 == 2);
    let test = match seed % 3 {
        0 => "power_loss::power_loss_loses_no_acknowledged_transfer",
        1 => "power_loss::power_loss_loses_nothing_that_is_only_in_the_archive",
        _ => "power_loss::power_loss_with_retention_loses_and_restores_nothing",
    };
    let told = TestOutput::by("faults", test, POWER, seed, LIVES);
    Tally::of([
        (Tally::UNITS, told.number(" times the power went, ")),
        ("directories", 1),
        ("directories whose archive is the only copy", u64::from(is_archive_alone)),
        ("directories that transfers leave", u64::from(is_leaving)),
        ("transfers accepted", told.number(" accepted, ")),
        ("changes that were lost", told.number(" changes were lost")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_last_line() {
        let text = "   12 ms  life 1: Accepted(3), served: true, 9 accepted so far\n  99 ms  4321 accepted, 7 segments, 2\n";
        assert_eq!(number_before(text, " accepted, "), Some(4321));
        assert_eq!(number_before(text, " segments, "), Some(7));
        for nothing in ["nothing", "", " accepted, ", "many accepted, "] {
            assert_eq!(number_before(nothing, " accepted, "), None, "{nothing}");
        }
    }

    #[test]
    fn count_may_be_zero_and_must_be_there() {
        let output = TestOutput { seed: 1, text: "0 kills, 3 starts, ".to_owned() };
        assert_eq!((output.count(" kills, "), output.number(" starts, ")), (0, 3));
        for wrong in
            [|output: &TestOutput| output.number(" kills, "), |output: &TestOutput| output.count(" ends, ")]
        {
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wrong(&output))).is_err());
        }
    }
}

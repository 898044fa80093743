//! Tests of the `upesi` crate that end a real hub again and again, run with a seed and a number of lives.

use std::process::{Command, Output};

use crate::hub_binary;

/// Of what a failed run has printed, so much is told, in lines.
const LINES_TOLD_MAX: usize = 40;

/// What is built of the hub that ends; an error where there is none.
pub(super) fn build() -> Result<String, String> {
    hub_binary::get().map(|program| hub_binary::build_of(&program))
}

/// One run of such a test.
pub(super) struct Lives {
    pub(super) file: &'static str,
    pub(super) test: &'static str,
    /// The variable that the test takes it from, and the seed.
    pub(super) seed: (&'static str, u64),
    /// The same of how often the hub ends.
    pub(super) count: (&'static str, u64),
}

impl Lives {
    /// What it prints.
    ///
    /// # Panics
    /// When it fails, with the end of that.
    pub(super) fn run(&self) -> String {
        let output = self.output().expect("cargo can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let seed = self.seed.1;
        assert!(output.status.success(), "seed {seed}: {}\n{}", tail(&text), tail(&errors));
        text
    }

    /// A number that its last lines tell, by what follows it.
    ///
    /// # Panics
    /// When it is not there, or nothing was done.
    pub(super) fn told(&self, text: &str, what: &str) -> u64 {
        let number = number_before(text, what);
        assert!(number > 0, "seed {}: the run does not say what it did: {}", self.seed.1, tail(text));
        number
    }

    /// The test is built like all tests; what ends is the program given. The seed is mixed, so that neighbours have
    /// nothing in common.
    fn output(&self) -> std::io::Result<Output> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--quiet", "--locked", "--package", "upesi", "--test", self.file]);
        command.args(["--", "--exact", self.test, "--nocapture"]);
        command.env(self.seed.0, self.seed.1.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string());
        command.env(self.count.0, self.count.1.to_string());
        command.env("UPESI_CRASH_BINARY", hub_binary::get().expect("a hub that ends"));
        command.output()
    }
}

/// The number right before the last place where `what` stands; 0 where there is none.
fn number_before(text: &str, what: &str) -> u64 {
    let before = text.rsplit_once(what).map_or("", |(before, _)| before);
    before.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_TOLD_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_run_tells_what_was_done() {
        let text = "   12 ms  life 1: Accepted(3), served: true, 9 accepted so far\n  99 ms  4321 accepted, 7 segments, 2\n";
        assert_eq!(number_before(text, " accepted, "), 4321);
        assert_eq!(number_before(text, " segments, "), 7);
        for nothing in ["nothing", "", " accepted, ", "many accepted, "] {
            assert_eq!(number_before(nothing, " accepted, "), 0, "{nothing}");
        }
    }
}

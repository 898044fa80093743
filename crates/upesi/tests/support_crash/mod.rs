//! Helpers of the tests of crashes and faults.

#![allow(dead_code, reason = "each test uses a part")]

pub mod events;
pub mod hub;
pub mod keeping;
pub mod load;
pub mod scene;
pub mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A number from an environment variable.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Random numbers (SplitMix64): the same seed produces the same numbers everywhere.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        upesi_sim::mix(self.0) % bound
    }

    /// A number from 1 to about `max`. Small numbers are as likely as large ones.
    pub fn spread(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(max.ilog2()) + 1);
        (1 << bits) + self.below(1 << bits)
    }
}

// Libraries that are loaded before the C library.

/// Compiles a library into a directory. `None` if there is no C compiler and the test may be skipped.
pub fn compile(directory: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let (file, library) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    fs::write(directory.join("files.h"), include_str!("files.h")).unwrap();
    fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-pthread", "-o"]).arg(&library).arg(&file).arg("-ldl");
    match compiler.output() {
        Ok(output) if output.status.success() => Some(library),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            leave_out(&format!("a C compiler (cc) cannot be run: {error}"));
            None
        }
    }
}

// Tests that need a feature of the system.

const VARIABLE: &str = "UPESI_TESTS_MAY_SKIP";

/// The test cannot run because something is missing. It fails, unless the user has allowed to skip it.
#[allow(clippy::print_stdout, reason = "a test that is left out must say so")]
pub fn leave_out(why: &str) {
    let is_allowed = std::env::var_os(VARIABLE).is_some_and(|value| value == "1");
    assert!(is_allowed, "{why}. If it cannot be installed, {VARIABLE}=1 leaves such tests out");
    println!("left out, as {VARIABLE} allows: {why}");
}

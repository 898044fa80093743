//! The check of a change in about a minute: format, house rules, Clippy, and the quick tests.
//!
//! The changed crates are checked completely, except for the slow programs. Their dependants are checked by Clippy. The
//! tests of dependants run as long as time remains, the nearest crates first. The report names the others.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::all::{Sums, run_all, seconds};
use crate::change::{self, Affected};
use crate::profile::Profile;
use crate::program::{self, Program};
use crate::{cargo, root};

/// After this time no further tests of dependants begin, and their build is stopped.
pub const GOAL: Duration = Duration::from_secs(60);
/// A build does not begin if less time than this remains.
const BUILD_MIN: Duration = Duration::from_secs(10);

/// Checks the change since a revision, or since the main branch. Returns whether all checks passed.
///
/// # Errors
/// If a check cannot be made.
pub fn run(revision: Option<&str>, jobs: usize) -> Result<bool, String> {
    let revision = revision.map_or_else(change::main_branch, |revision| Ok(revision.to_owned()))?;
    let affected = Affected::by(&change::files(&revision)?, &change::packages()?);
    println!("changed since {}: {}", revision.get(..8).unwrap_or(&revision), list(&affected.changed));
    println!("dependants: {}", list(&affected.dependants));
    let mut run = Run {
        began: Instant::now(),
        profile: Profile::named("quick").expect("a profile"),
        jobs,
        sums: Sums::default(),
        left_out: Vec::new(),
    };
    let is_good = run.checks(&affected, &revision)?;
    println!("{} in {} s", run.sums.line(), seconds(run.began.elapsed()));
    if !run.left_out.is_empty() {
        println!("left out (`make test` runs them): {}", list(&run.left_out));
    }
    if !affected.others.is_empty() {
        let names: Vec<String> = affected.others.iter().map(|path| path.display().to_string()).collect();
        println!("changed files of no crate, checked by the house rules only: {}", list(&names));
    }
    Ok(is_good)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

struct Run {
    began: Instant,
    profile: Profile,
    jobs: usize,
    sums: Sums,
    /// The programs and crates whose tests did not run.
    left_out: Vec<String>,
}

impl Run {
    /// Runs the checks, the quickest first, until one fails.
    fn checks(&mut self, affected: &Affected, revision: &str) -> Result<bool, String> {
        if !self.step("format", cargo().args(["fmt", "--all", "--", "--check"]))? {
            println!("`make format` corrects the format");
            return Ok(false);
        }
        let tidy = ["test", "--quiet", "--locked", "-p", "upesi-tidy"];
        if !self.step("house rules", cargo().args(tidy))? {
            return Ok(false);
        }
        // This is advice: the lines may be right.
        let wording = ["run", "--quiet", "--locked", "-p", "upesi-tidy", "--", "prose", "--list", "all"];
        self.step("wording of the change", cargo().args(wording).args(["--change", revision]))?;
        if affected.changed.is_empty() {
            return Ok(true);
        }
        if !self.tests_of_changed(&affected.changed)? {
            return Ok(false);
        }
        let check = ["check", "--quiet", "--workspace", "--all-targets", "--locked"];
        if !affected.dependants.is_empty() && !self.step("clippy of dependants", cargo().args(check))? {
            return Ok(false);
        }
        self.tests_of_dependants(&affected.dependants)
    }

    /// Runs a command, and prints its duration.
    fn step(&self, name: &str, command: &mut Command) -> Result<bool, String> {
        let began = Instant::now();
        let status = command.status().map_err(|error| format!("{name}: {error}"))?;
        self.print(name, began, status.success());
        Ok(status.success())
    }

    fn print(&self, name: &str, began: Instant, is_good: bool) {
        let verdict = if is_good { "ok" } else { "FAILED" };
        println!("{name:<44} {verdict:<18} {:>4} s", seconds(began.elapsed()));
    }

    /// Clippy compiles the test programs, so that its warnings are errors of the build.
    fn tests_of_changed(&mut self, changed: &[String]) -> Result<bool, String> {
        let began = Instant::now();
        let packages: Vec<String> =
            changed.iter().map(|name| format!("--package={}", package(name))).collect();
        let built = program::build(&packages.iter().map(String::as_str).collect::<Vec<_>>(), None);
        self.print("clippy and build of the changed crates", began, built.is_ok());
        let Ok(Some(programs)) = built else { return Ok(false) };
        self.run_chosen(programs)
    }

    fn run_chosen(&mut self, programs: Vec<Program>) -> Result<bool, String> {
        let (programs, left_out) = self.profile.choose(programs);
        self.left_out.extend(left_out.iter().map(Program::name));
        let out = root().join("out/quick");
        fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let sums = run_all(programs, &self.profile, self.jobs, &out)?;
        self.sums.passed += sums.passed;
        self.sums.failed += sums.failed;
        Ok(sums.programs_failed.is_empty())
    }

    /// Builds and runs the tests of the dependants one crate after the other, until the time is over.
    fn tests_of_dependants(&mut self, dependants: &[String]) -> Result<bool, String> {
        for (index, name) in dependants.iter().enumerate() {
            let rest = GOAL.saturating_sub(self.began.elapsed());
            let named = package(name);
            let selection = ["--quiet", "--package", &named];
            let has_time = rest > BUILD_MIN;
            let built =
                if has_time { program::build(&selection, Some(Instant::now() + rest))? } else { None };
            let Some(programs) = built else {
                let rest = dependants[index..].iter().map(|name| format!("tests of {name}"));
                self.left_out.extend(rest);
                return Ok(true);
            };
            if !self.run_chosen(programs)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The package of a crate.
fn package(name: &str) -> String {
    if name == "upesi" { name.to_owned() } else { format!("upesi-{name}") }
}

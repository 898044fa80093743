//! The run of many programs, several at a time, and its report.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::profile::Profile;
use crate::program::{self, Program};
use crate::root;
use crate::run::{Outcome, Test, run};

/// The number of tests in the list of the slowest.
const SLOWEST: usize = 50;
/// The number of lines of stacks that are printed. The rest is in a file.
const STACK_LINES_MAX: usize = 200;
/// The number of lines of a log that are printed if no test of a program failed.
const LOG_LINES_MAX: usize = 40;

/// The sums of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// The number of tests that passed.
    pub passed: usize,
    /// The number of tests that failed or did not end.
    pub failed: usize,
    /// The programs that did not succeed.
    pub programs_failed: Vec<String>,
    pub tests: Vec<Test>,
}

impl Sums {
    /// Adds the results of a program.
    pub fn add(&mut self, name: &str, outcome: &Outcome) {
        self.passed += outcome.passed.len();
        // A program that crashes between two tests has no test that failed.
        let failed = outcome.failed.len() + outcome.unfinished.len();
        self.failed += if outcome.is_success { failed } else { failed.max(1) };
        if !outcome.is_success || failed > 0 {
            self.programs_failed.push(name.to_owned());
        }
        self.tests.extend(outcome.passed.iter().cloned());
        self.tests.extend(outcome.failed.iter().map(|(test, _)| test.clone()));
    }

    /// The slowest tests, a line for each.
    pub fn slowest(&self) -> String {
        let mut tests: Vec<&Test> = self.tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        let line = |test: &&Test| format!("{:8.1} s  {}\n", test.took.as_secs_f64(), test.name);
        tests.iter().take(SLOWEST).map(line).collect()
    }

    /// The last line of a run. The server of continuous integration reads it.
    pub fn line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs programs, `jobs` at a time in their order, and prints the result of each. The folder `out` receives a log of
/// each program.
///
/// # Errors
/// If a log cannot be written.
pub fn run_all(programs: Vec<Program>, profile: &Profile, jobs: usize, out: &Path) -> Result<Sums, String> {
    let queue = Mutex::new(VecDeque::from(programs));
    let sums = Mutex::new(Sums::default());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        let work = || {
            while let Some(program) = next() {
                let name = program.name();
                let log = out.join(format!("{}.log", name.replace(' ', "-")));
                let outcome = run(&program, profile, &log)
                    .map_err(|error| format!("{}: {error}", program.path.display()))?;
                let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                print!("{}", report(&name, &outcome, profile, &log));
                sums.add(&name, &outcome);
            }
            Ok::<(), String>(())
        };
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The result of a program: a line, and after it the failures.
fn report(name: &str, outcome: &Outcome, profile: &Profile, log: &Path) -> String {
    let is_success = outcome.is_success && outcome.failed.is_empty() && outcome.unfinished.is_empty();
    let verdict = if is_success { "ok" } else { "FAILED" };
    let (passed, took) = (outcome.passed.len(), outcome.took.as_secs());
    let cpu = outcome.cpu.map_or_else(String::new, |cpu| format!(", {:>4} CPU s", cpu.as_secs()));
    let mut report = format!("{name:<44} {passed:>4} passed, {verdict}  {took:>4} s{cpu}\n");
    for (test, output) in &outcome.failed {
        report += &format!("---- {} ----\n{output}\n", test.name);
    }
    if let Some(stacks) = &outcome.stacks {
        let limit = profile.test_max.as_secs();
        report += &format!("{name} hangs: a test took longer than {limit} s. Unfinished tests:\n");
        report += &outcome.unfinished.iter().map(|test| format!("  {test}\n")).collect::<String>();
        let file = log.with_extension("stacks");
        let _ = fs::write(&file, stacks);
        let lines = stacks.lines().take(STACK_LINES_MAX).map(|line| format!("{line}\n"));
        report += &lines.collect::<String>();
        report += &format!("All stacks: {}\n", file.display());
    } else if !is_success && outcome.failed.is_empty() {
        report += &format!("{name} ended without a result of: {}\n", outcome.unfinished.join(", "));
        let output = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].iter();
        report += &last.map(|line| format!("{line}\n")).collect::<String>();
    }
    report
}

/// Builds and runs all tests of all crates. Comments contain no examples in Rust; tidy ensures this.
///
/// # Errors
/// If the build fails, or a log cannot be written.
pub fn run_workspace(profile: &Profile, jobs: usize) -> Result<bool, String> {
    let out = root().join("out/tests");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let programs = program::build(&["--workspace"], None)?.unwrap_or_default();
    let (programs, left_out) = profile.choose(programs);
    for program in left_out {
        println!("{:<44} left out by the profile {}", program.name(), profile.name);
    }
    let sums = run_all(programs, profile, jobs, &out)?;
    let slowest = out.join("slowest");
    fs::write(&slowest, sums.slowest()).map_err(|error| format!("{}: {error}", slowest.display()))?;
    println!("{}", sums.line());
    if sums.passed == 0 {
        return Err("no test ran; the format of libtest's reports may have changed".to_owned());
    }
    if !sums.programs_failed.is_empty() {
        println!("These failed; their output is in {}:\n{}", out.display(), sums.programs_failed.join("\n"));
    }
    Ok(sums.programs_failed.is_empty())
}

/// A duration in whole seconds, rounded up.
pub fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

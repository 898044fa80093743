//! Runs the tests: `make unit` and `make quick`.

use std::process::ExitCode;

use upesi_runner::profile::{PROFILES, Profile};
use upesi_runner::{all, quick};

const HELP: &str = "\
upesi-runner tests [quick|ci|full]
    Runs all tests of all crates in a profile; `ci` by default.
upesi-runner quick [REVISION]
    Checks the crates that changed since a revision, by default since the main branch, and their dependants.
JOBS=2 is the number of programs that run at a time; by default three for two cores, because tests often wait.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Tests often wait for a process or a disk, so more programs run than there are cores.
    let jobs = std::env::var("JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(cores * 3 / 2);
    let done = match arguments.as_slice() {
        ["tests"] => all::run_workspace(&PROFILES[1], jobs),
        ["tests", name] => match Profile::named(name) {
            Some(profile) => all::run_workspace(&profile, jobs),
            None => Err(format!("no profile is called {name}\n{HELP}")),
        },
        ["quick"] => quick::run(None, jobs),
        ["quick", revision] => quick::run(Some(*revision), jobs),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::from(64)
        }
    }
}

//! `torture black-hole`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use upesi_torture::black_hole::{self, BlackHoleEvidence, Plan};

#[derive(Debug, Args)]
pub struct Lost {
    /// How long the DFSP is lost.
    #[arg(long, default_value_t = 3)]
    minutes: u64,
    /// How long everything is well before and after that.
    #[arg(long, default_value_t = 60)]
    light_seconds: u64,
    /// Transfers begun per second.
    #[arg(long, default_value_t = 400)]
    rate: u64,
    /// Decides who pays whom.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The hub's program; by default the `upesi` beside this one.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// A setting of the hub, as `name=value`.
    #[arg(long = "set", value_name = "SETTING")]
    settings: Vec<String>,
    /// A file for the hub's log.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The directory of evidence to be added to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Lost {
    /// False where a promise was broken. A p99 that grew too much is told and is none: it says something only of a machine
    /// that was quiet.
    #[expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "this is a command, and this is its result"
    )]
    pub fn run(self) -> Result<bool, String> {
        let beside = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("upesi");
        let binary = self.binary.unwrap_or(beside);
        if !binary.is_file() {
            return Err(format!("there is no {}: name the hub's program with --binary", binary.display()));
        }
        let plan = Plan {
            dark: Duration::from_secs(60 * self.minutes),
            light: Duration::from_secs(self.light_seconds),
            rate_per_s: self.rate,
            seed: self.seed,
            binary,
            settings: self.settings,
            log: self.log,
        };
        let run = black_hole::run(&plan)?;
        println!("{}", run.summary());
        run.violations.iter().for_each(|violation| eprintln!("VIOLATION {violation}"));
        let is_kept = run.violations.is_empty();
        if let Some(directory) = &self.report {
            BlackHoleEvidence::add(directory, run).map_err(|error| error.to_string())?;
        }
        Ok(is_kept)
    }
}

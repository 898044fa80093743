//! `torture attacks`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use upesi_lab::result::evidence::Evidence;
use upesi_torture::attacks::{self, AttacksRun, Plan};
use upesi_torture::hub_binary;

#[derive(Debug, Args)]
pub struct Attacked {
    /// Attacks to try, by name; all by default.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How long each phase of a round lasts, in seconds.
    #[arg(long, default_value_t = 5)]
    phase_seconds: u64,
    /// Rounds of each attack, whose median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Honest payments begun per second.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// The hub's program; by default Cargo builds that of this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The commit of that program, if it is another one than this program's.
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// The directory of evidence to be added to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// For `make torture`, which gives these to all trials; this one takes its time, a quarter of an hour.
    #[arg(long, hide = true)]
    jobs: Option<usize>,
    #[arg(long, hide = true)]
    minutes: Option<u64>,
}

impl Attacked {
    /// False where a promise was broken.
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        self.binary.as_deref().map_or(Ok(()), hub_binary::name)?;
        let plan = Plan {
            phase: Duration::from_secs(self.phase_seconds.max(1)),
            rounds: self.rounds.max(1),
            rate_per_s: self.rate,
            binary: hub_binary::get()?,
            only: self.only,
        };
        let begun = Instant::now();
        let results = attacks::run(&plan, |result| println!("{}", result.summary()))?;
        let run = AttacksRun::new(&plan, self.commit, begun.elapsed(), results);
        let broken = run.broken();
        println!("{} attacks, {broken} broke a promise; {}", run.attacks.len(), run.aims());
        if let Some(directory) = &self.report {
            Evidence::add(directory, &attacks::SUBJECT, run).map_err(|error| error.to_string())?;
        }
        Ok(broken == 0)
    }
}

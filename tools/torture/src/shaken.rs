//! `torture handshakes`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use upesi_lab::result::evidence::Evidence;
use upesi_torture::handshakes::{self, Plan};
use upesi_torture::hub_binary;

#[derive(Debug, Args)]
pub struct Shaken {
    /// How long each phase of a round lasts, in seconds.
    #[arg(long, default_value_t = 10)]
    phase_seconds: u64,
    /// Rounds of quiet and storm, whose median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Honest payments begun per second.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// New connections per second in a storm.
    #[arg(long, default_value_t = 500)]
    handshakes: u64,
    /// DFSPs that are connected while all certificates are renewed.
    #[arg(long, default_value_t = 1_000)]
    dfsps: usize,
    /// Times that all certificates are renewed.
    #[arg(long, default_value_t = 3)]
    renewals: usize,
    /// The hub's program; by default Cargo builds that of this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The directory of evidence to be added to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// For `make torture ONLY=handshakes`, which gives these to all trials; this one takes its time, some minutes.
    #[arg(long, hide = true)]
    jobs: Option<usize>,
    #[arg(long, hide = true)]
    minutes: Option<u64>,
}

impl Shaken {
    /// False where a promise was broken.
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        self.binary.as_deref().map_or(Ok(()), hub_binary::name)?;
        let plan = Plan {
            phase: Duration::from_secs(self.phase_seconds.max(1)),
            rounds: self.rounds.max(1),
            rate_per_s: self.rate,
            handshakes_per_s: self.handshakes,
            dfsps: self.dfsps,
            renewals: self.renewals,
            binary: hub_binary::get()?,
        };
        let run = handshakes::run(&plan)?;
        println!("{}", run.summary());
        let is_kept = run.violations.is_empty();
        if let Some(directory) = &self.report {
            Evidence::add(directory, &handshakes::SUBJECT, run).map_err(|error| error.to_string())?;
        }
        Ok(is_kept)
    }
}

//! The commands `torture black-hole`, `attacks` and `handshakes`: trials of the real binary during honest payments.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use upesi_lab::result::evidence::{Evidence, Subject};
use upesi_torture::attacks::{self, AttacksRun};
use upesi_torture::{black_hole, handshakes, hub_binary};

/// Minimum loss. A shorter one shows nothing, because transfers that expire in it take ten seconds.
const DARK_MIN: Duration = Duration::from_secs(20);
/// Time of everything except the three phases, on a machine that keeps up.
const ENDS: Duration = Duration::from_secs(15);

/// Common arguments of attacks and handshakes.
#[derive(Debug, Args)]
struct Rounds {
    /// Number of rounds; the result is their median.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Honest payments per second.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// The hub's program; by default Cargo builds it from this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory of the evidence to add to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Accepted because `make torture` passes it to all trials. These trials choose their own time, up to a quarter of
    /// an hour.
    #[arg(long, hide = true)]
    jobs: Option<usize>,
    #[arg(long, hide = true)]
    minutes: Option<u64>,
}

/// The hub's program: the named one, or the one that Cargo builds.
fn program(named: Option<&Path>) -> Result<PathBuf, String> {
    named.map_or(Ok(()), hub_binary::name)?;
    hub_binary::get()
}

fn add<R: Serialize + DeserializeOwned>(
    directory: Option<&Path>,
    subject: &Subject,
    run: R,
) -> Result<(), String> {
    let Some(directory) = directory else { return Ok(()) };
    Evidence::add(directory, subject, run).map_err(|error| error.to_string())
}

/// Arguments of `torture black-hole`.
#[derive(Debug, Args)]
pub struct BlackHoleArguments {
    /// Maximum duration of the loss, in seconds.
    #[arg(long, default_value_t = 180)]
    dark_seconds: u64,
    /// Duration of the phases before and after the loss, in seconds.
    #[arg(long, default_value_t = 60)]
    light_seconds: u64,
    /// Maximum duration of the trial, in minutes. The loss is shortened to fit.
    #[arg(long)]
    minutes: Option<u64>,
    /// Transfers per second.
    #[arg(long, default_value_t = 400)]
    rate: u64,
    /// Seed of the choice of payers and payees.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The hub's program; by default Cargo builds it from this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// A setting of the hub, as `name=value`.
    #[arg(long = "set", value_name = "SETTING")]
    settings: Vec<String>,
    /// A file for the hub's log.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Directory of the evidence to add to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Accepted because `make torture` passes it to all trials. This trial has a single thread.
    #[arg(long, hide = true)]
    jobs: Option<usize>,
}

impl BlackHoleArguments {
    /// The run for the evidence, with the named program or the one that Cargo builds.
    pub fn usual(report: Option<PathBuf>) -> Self {
        let usual = Self::augment_args(clap::Command::new("black-hole")).get_matches_from([""]);
        let usual = Self::from_arg_matches(&usual).unwrap_or_else(|error| error.exit());
        Self { report, ..usual }
    }

    /// Approximate duration.
    pub fn usual_time(&self) -> Duration {
        Duration::from_secs(self.dark_seconds + 2 * self.light_seconds) + ENDS
    }

    fn dark(&self) -> Result<Duration, String> {
        let wanted = Duration::from_secs(self.dark_seconds);
        let Some(minutes) = self.minutes else { return Ok(wanted) };
        let around = Duration::from_secs(2 * self.light_seconds) + ENDS;
        let room = Duration::from_secs(60 * minutes).saturating_sub(around);
        if room < DARK_MIN.min(wanted) {
            let least = (around + DARK_MIN).as_secs().div_ceil(60);
            return Err(format!(
                "{minutes} minutes leave no time for the loss: give --minutes {least}, or fewer \
                 --light-seconds"
            ));
        }
        Ok(wanted.min(room))
    }

    /// Runs the trial. Returns false if a promise was broken. A p99 that grew too much is reported but is not a broken
    /// promise, because it is meaningful only on a quiet machine.
    #[expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "this is a command, and this is its result"
    )]
    pub fn run(self) -> Result<bool, String> {
        let dark = self.dark()?;
        let plan = black_hole::Plan {
            dark,
            light: Duration::from_secs(self.light_seconds),
            rate_per_s: self.rate,
            seed: self.seed,
            binary: program(self.binary.as_deref())?,
            settings: self.settings,
            log: self.log,
        };
        let run = black_hole::run(&plan)?;
        println!("{}", run.summary());
        run.violations.iter().for_each(|violation| eprintln!("VIOLATION {violation}"));
        let is_kept = run.violations.is_empty();
        add(self.report.as_deref(), &black_hole::SUBJECT, run)?;
        Ok(is_kept)
    }
}

/// Arguments of `torture attacks`.
#[derive(Debug, Args)]
pub struct Attacked {
    /// Name of an attack to run. May be repeated; by default all run.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Duration of each phase of a round, in seconds.
    #[arg(long, default_value_t = 5)]
    phase_seconds: u64,
    #[command(flatten)]
    rounds: Rounds,
    /// Commit of that program, if it differs from this program's.
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
}

impl Attacked {
    /// Runs the trial. Returns false if a promise was broken.
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        let plan = attacks::Plan {
            phase: Duration::from_secs(self.phase_seconds.max(1)),
            rounds: self.rounds.rounds.max(1),
            rate_per_s: self.rounds.rate,
            binary: program(self.rounds.binary.as_deref())?,
            only: self.only,
        };
        let begun = Instant::now();
        let results = attacks::run(&plan, |result| println!("{}", result.summary()))?;
        let run = AttacksRun::new(&plan, self.commit, begun.elapsed(), results);
        let broken = run.broken();
        println!("{} attacks, {broken} broke a promise; {}", run.attacks.len(), run.aims());
        add(self.rounds.report.as_deref(), &attacks::SUBJECT, run)?;
        Ok(broken == 0)
    }
}

/// Arguments of `torture handshakes`.
#[derive(Debug, Args)]
pub struct HandshakeArguments {
    /// Duration of each phase of a round, in seconds.
    #[arg(long, default_value_t = 10)]
    phase_seconds: u64,
    #[command(flatten)]
    rounds: Rounds,
    /// New connections per second in a storm.
    #[arg(long, default_value_t = 500)]
    handshakes: u64,
    /// Number of DFSPs that are connected while all certificates are renewed.
    #[arg(long, default_value_t = 1_000)]
    dfsps: usize,
    /// Number of renewals of all certificates.
    #[arg(long, default_value_t = 3)]
    renewals: usize,
}

impl HandshakeArguments {
    /// Runs the trial. Returns false if a promise was broken.
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        let plan = handshakes::Plan {
            phase: Duration::from_secs(self.phase_seconds.max(1)),
            rounds: self.rounds.rounds.max(1),
            rate_per_s: self.rounds.rate,
            handshakes_per_s: self.handshakes,
            dfsps: self.dfsps,
            renewals: self.renewals,
            binary: program(self.rounds.binary.as_deref())?,
        };
        let run = handshakes::run(&plan)?;
        println!("{}", run.summary());
        let is_kept = run.violations.is_empty();
        add(self.rounds.report.as_deref(), &handshakes::SUBJECT, run)?;
        Ok(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_fits_into_the_minutes_and_the_requested_time() {
        for (minutes, dark_s) in
            [(None, Some(180)), (Some(115), Some(180)), (Some(4), Some(105)), (Some(2), None)]
        {
            let lost = BlackHoleArguments { minutes, ..BlackHoleArguments::usual(None) };
            assert_eq!(lost.dark().ok(), dark_s.map(Duration::from_secs), "{minutes:?}");
        }
        let error =
            BlackHoleArguments { minutes: Some(1), ..BlackHoleArguments::usual(None) }.dark().unwrap_err();
        assert!(error.contains("--minutes 3"), "{error}");
    }
}

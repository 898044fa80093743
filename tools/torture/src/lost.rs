//! `torture black-hole`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use upesi_lab::result::evidence::Evidence;
use upesi_torture::black_hole::{self, Plan};
use upesi_torture::hub_binary;

/// Below this, darkness shows nothing: transfers that run out in it take ten seconds.
const DARK_MIN: Duration = Duration::from_secs(20);
/// What everything but light and darkness takes, on a machine that keeps up.
const ENDS: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub struct Lost {
    /// How long the DFSP is lost, at most.
    #[arg(long, default_value_t = 180)]
    dark_seconds: u64,
    /// How long everything is well before and after that.
    #[arg(long, default_value_t = 60)]
    light_seconds: u64,
    /// How long all of it may take: the darkness is cut to fit.
    #[arg(long)]
    minutes: Option<u64>,
    /// Transfers begun per second.
    #[arg(long, default_value_t = 400)]
    rate: u64,
    /// Decides who pays whom.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The hub's program; by default Cargo builds that of this checkout.
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
    /// For `make torture`, which gives it to all trials; this one has a single thread.
    #[arg(long, hide = true)]
    jobs: Option<usize>,
}

impl Lost {
    /// The run that the evidence is made of, with the program that was named already or is built.
    pub const fn usual(report: Option<PathBuf>) -> Self {
        Self {
            dark_seconds: 180,
            light_seconds: 60,
            minutes: None,
            rate: 400,
            seed: 1,
            binary: None,
            settings: Vec::new(),
            log: None,
            report,
            jobs: None,
        }
    }

    /// About how long it takes.
    pub fn usual_time(&self) -> Duration {
        Duration::from_secs(self.dark_seconds + 2 * self.light_seconds) + ENDS
    }

    /// How long it is dark.
    fn dark(&self) -> Result<Duration, String> {
        let wanted = Duration::from_secs(self.dark_seconds);
        let Some(minutes) = self.minutes else { return Ok(wanted) };
        let around = Duration::from_secs(2 * self.light_seconds) + ENDS;
        let room = Duration::from_secs(60 * minutes).saturating_sub(around);
        if room < DARK_MIN.min(wanted) {
            let least = (around + DARK_MIN).as_secs().div_ceil(60);
            return Err(format!(
                "{minutes} minutes leave no time for darkness: give it --minutes {least}, or fewer --light-seconds"
            ));
        }
        Ok(wanted.min(room))
    }

    /// False where a promise was broken. A p99 that grew too much is told and is none: it says something only of a
    /// machine that was quiet.
    #[expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "this is a command, and this is its result"
    )]
    pub fn run(self) -> Result<bool, String> {
        let dark = self.dark()?;
        self.binary.as_deref().map_or(Ok(()), hub_binary::name)?;
        let plan = Plan {
            dark,
            light: Duration::from_secs(self.light_seconds),
            rate_per_s: self.rate,
            seed: self.seed,
            binary: hub_binary::get()?,
            settings: self.settings,
            log: self.log,
        };
        let run = black_hole::run(&plan)?;
        println!("{}", run.summary());
        run.violations.iter().for_each(|violation| eprintln!("VIOLATION {violation}"));
        let is_kept = run.violations.is_empty();
        if let Some(directory) = &self.report {
            Evidence::add(directory, &black_hole::SUBJECT, run).map_err(|error| error.to_string())?;
        }
        Ok(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn darkness_fits_into_the_minutes_and_is_never_longer_than_was_asked_for() {
        for (minutes, dark_s) in
            [(None, Some(180)), (Some(115), Some(180)), (Some(4), Some(105)), (Some(2), None)]
        {
            let lost = Lost { minutes, ..Lost::usual(None) };
            assert_eq!(lost.dark().ok(), dark_s.map(Duration::from_secs), "{minutes:?}");
        }
        let error = Lost { minutes: Some(1), ..Lost::usual(None) }.dark().unwrap_err();
        assert!(error.contains("--minutes 3"), "{error}");
    }
}

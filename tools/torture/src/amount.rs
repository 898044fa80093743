//! How much of a trial, and all of them in turn.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use upesi_torture::campaign::{self, Outcome, Plan};
use upesi_torture::evidence::Evidence;
use upesi_torture::sharing::{Part, Rate, shares, spend};
use upesi_torture::trial::Trial;
use upesi_torture::{hub_binary, machine, trials};

use crate::lost::Lost;

/// A rate is believed after so long.
const RATE_S_MIN: u64 = 10;
/// The black hole is left out where it would take more than one part in so many of the time.
const BLACK_HOLE_ONE_IN: u32 = 4;

#[derive(Debug, Args)]
pub struct Amount {
    /// The first seed. Without it, the report is continued.
    #[arg(long)]
    from: Option<u64>,
    /// How many to reach; by default what the report lacks of the goal, and then more until --minutes are over, or, without
    /// them, as many again.
    #[arg(long)]
    count: Option<u64>,
    /// How long it may take.
    #[arg(long)]
    minutes: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The directory of evidence to be continued and added to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The hub's program, where the real one is tried; by default Cargo builds that of this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// A trial on its way to its goal.
struct Way<'a> {
    trial: &'static dyn Trial,
    amount: &'a Amount,
    /// Units, those of the evidence included.
    counted: u64,
    rate: Rate,
    /// Where the next run begins; `None` leaves it to the evidence.
    next: Option<u64>,
    is_kept: bool,
}

impl Amount {
    pub fn run(&self, name: &str) -> Result<bool, String> {
        self.prepare()?;
        let trial = trials::named(name).ok_or_else(|| format!("there is no trial {name}"))?;
        self.go(vec![Way::begin(trial, self)?], self.time_max())
    }

    pub fn run_all(&self) -> Result<bool, String> {
        self.prepare()?;
        let begun = Instant::now();
        let mut is_kept = true;
        // It measures latency, and has the machine to itself. It counts nothing that --count could be about.
        if self.count.is_none() {
            is_kept &= self.lose_one()?;
        }
        let ways: Result<Vec<_>, _> = trials::TRIALS.iter().map(|trial| Way::begin(*trial, self)).collect();
        is_kept &= self.go(ways?, self.time_max().map(|limit| limit.saturating_sub(begun.elapsed())))?;
        Ok(is_kept)
    }

    fn time_max(&self) -> Option<Duration> {
        self.minutes.map(|minutes| Duration::from_secs(60 * minutes))
    }

    fn prepare(&self) -> Result<(), String> {
        if cfg!(panic = "abort") {
            return Err(
                "built to abort at a panic, and a broken promise is one: build with --profile torture".into(),
            );
        }
        self.binary.as_deref().map_or(Ok(()), hub_binary::name)
    }

    #[expect(clippy::print_stderr, reason = "what is left out is said")]
    fn lose_one(&self) -> Result<bool, String> {
        let lost = Lost::usual(self.report.clone());
        let time_min = lost.usual_time() * BLACK_HOLE_ONE_IN;
        match self.time_max() {
            Some(limit) if limit < time_min => {
                let minutes = time_min.as_secs().div_ceil(60);
                eprintln!(
                    "torture: black-hole is left out: it takes five minutes, and is run from --minutes {minutes} on"
                );
                Ok(true)
            }
            _ => lost.run(),
        }
    }

    fn go(&self, mut ways: Vec<Way<'_>>, time_max: Option<Duration>) -> Result<bool, String> {
        match (self.count, time_max) {
            (None, Some(limit)) => spend(limit, &mut ways)?,
            (Some(_), Some(limit)) => {
                let mut rest = limit;
                for index in 0..ways.len() {
                    let needs: Vec<_> = ways[index..].iter().map(Part::need).collect();
                    let share = shares(rest, &needs)[0];
                    let lacking = ways[index].lacks();
                    rest = rest.saturating_sub(ways[index].advance(lacking, Some(share))?);
                }
            }
            (_, None) => {
                for way in &mut ways {
                    let lacking = way.lacks();
                    way.advance(if lacking == 0 { way.goal() } else { lacking }, None)?;
                }
            }
        }
        Ok(ways.iter().all(|way| way.is_kept))
    }
}

impl<'a> Way<'a> {
    fn begin(trial: &'static dyn Trial, amount: &'a Amount) -> Result<Self, String> {
        let known = amount.report.as_deref().map(|directory| Evidence::read(directory, trial.name()));
        let known = known.transpose().map_err(|error| error.to_string())?.unwrap_or_default();
        let told = known.rate(&machine::machine(), &trial.build()?, RATE_S_MIN);
        Ok(Self {
            trial,
            amount,
            counted: if amount.count.is_some() { 0 } else { known.count },
            rate: told.unwrap_or(Rate { count: trial.goal(), duration_s: trial.goal_s() }),
            next: amount.from,
            is_kept: true,
        })
    }

    fn goal(&self) -> u64 {
        self.amount.count.unwrap_or_else(|| self.trial.goal())
    }

    fn lacks(&self) -> u64 {
        self.goal().saturating_sub(self.counted)
    }

    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    fn advance(&mut self, count: u64, time_max: Option<Duration>) -> Result<Duration, String> {
        let Amount { jobs, report, .. } = self.amount;
        let plan = Plan { from: self.next, count, time_max, jobs: *jobs, report: report.clone() };
        let begun = Instant::now();
        let outcome = campaign::run(self.trial, &plan).map_err(|error| error.to_string())?;
        let (elapsed, Outcome { tally, seeds: [from, to], violations }) = (begun.elapsed(), outcome);
        let details: Vec<String> = tally.details().map(|(name, count)| format!("{count} {name}")).collect();
        println!(
            "{}: {} {}, seeds {from}..{to}, {} s, {} violations ({})",
            self.trial.name(),
            tally.units(),
            self.trial.what(),
            elapsed.as_secs(),
            violations.len(),
            details.join(", ")
        );
        self.counted += tally.units();
        self.next = Some(to);
        self.is_kept &= violations.is_empty();
        if elapsed.as_secs() >= RATE_S_MIN && tally.units() > 0 {
            self.rate = Rate { count: tally.units(), duration_s: elapsed.as_secs() };
        }
        Ok(elapsed)
    }
}

impl Part for Way<'_> {
    type Error = String;

    fn need(&self) -> Duration {
        let lacking = self.lacks();
        // A need is never so small that it looks like none.
        if lacking == 0 { Duration::ZERO } else { self.rate.time_of(lacking).max(Duration::from_millis(1)) }
    }

    fn run(&mut self, share: Duration) -> Result<Duration, String> {
        let lacking = self.lacks();
        self.advance(if lacking == 0 { u64::MAX } else { lacking }, Some(share))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use upesi_torture::tally::Tally;

    use super::*;

    /// Three units a seed.
    struct Invented;

    impl Trial for Invented {
        fn name(&self) -> &'static str {
            "invented"
        }

        fn what(&self) -> &'static str {
            "invented things"
        }

        fn goal(&self) -> u64 {
            30
        }

        fn goal_s(&self) -> u64 {
            1
        }

        fn run(&self, _: u64) -> Tally {
            let mut tally = Tally::default();
            (0..3).for_each(|_| tally.unit("thing"));
            tally
        }
    }

    fn go(report: &Path, count: Option<u64>, time_max: Option<Duration>) -> Evidence {
        let report_to = Some(report.to_owned());
        let amount = Amount { from: None, count, minutes: None, jobs: 1, report: report_to, binary: None };
        let way = Way::begin(&Invented, &amount).unwrap();
        assert_eq!(amount.go(vec![way], time_max), Ok(true));
        Evidence::read(report, "invented").unwrap()
    }

    #[test]
    fn a_goal_that_is_met_is_gone_beyond_with_new_seeds() {
        let report = tempfile::tempdir().unwrap();
        // What is lacking; as many again; a number that was asked for.
        for (count, seeds) in [(None, 10), (None, 20), (Some(6), 22)] {
            let evidence = go(report.path(), count, None);
            assert_eq!((evidence.count, evidence.seeds), (3 * seeds, vec![[0, seeds]]), "{count:?}");
        }
        // And as much as there is time for.
        let evidence = go(report.path(), None, Some(Duration::from_millis(1_100)));
        assert!(evidence.count > 66 && evidence.seeds.len() == 1, "{:?}", evidence.seeds);
    }

    #[test]
    fn a_part_of_the_way_is_continued() {
        let report = tempfile::tempdir().unwrap();
        assert_eq!(go(report.path(), Some(9), None).count, 9);
        assert_eq!(go(report.path(), None, None).count, 30);
    }
}

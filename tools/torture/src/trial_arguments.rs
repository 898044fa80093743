//! The arguments of a trial, and all trials in turn.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use upesi_torture::campaign::{self, Outcome, Plan};
use upesi_torture::evidence::TrialEvidence;
use upesi_torture::trial::Trial;
use upesi_torture::{hub_binary, trials};

use crate::lost::Lost;

#[derive(Debug, Args)]
pub struct TrialArguments {
    /// The first seed. Without it, the report is continued.
    #[arg(long)]
    from: Option<u64>,
    /// How many to reach; by default as many as there is time for with --minutes, or, without them, what the report
    /// lacks of the goal, and as many again once that is reached.
    #[arg(long)]
    count: Option<u64>,
    /// How long it may take; all trials get equal parts of it.
    #[arg(long)]
    minutes: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The directory of evidence to be continued and added to.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The hub's program, if the real one is tried; by default Cargo builds that of this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl TrialArguments {
    pub fn run(&self, name: &str) -> Result<bool, String> {
        self.prepare()?;
        let trial = trials::named(name).ok_or_else(|| format!("there is no trial {name}"))?;
        self.advance(trial, self.time_max())
    }

    pub fn run_all(&self) -> Result<bool, String> {
        self.prepare()?;
        let begun = Instant::now();
        let mut is_kept = true;
        // It measures latency, and has the machine to itself. It counts nothing that --count could be about.
        if self.count.is_none() {
            is_kept &= self.lose_one()?;
        }
        for (place, trial) in trials::TRIALS.iter().enumerate() {
            // An equal part for each trial that is still to come.
            let left = self.time_max().map(|limit| limit.saturating_sub(begun.elapsed()));
            let others = u32::try_from(trials::TRIALS.len() - place).unwrap_or(1);
            is_kept &= self.advance(trial, left.map(|left| left / others))?;
        }
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
        let parts = u32::try_from(trials::TRIALS.len()).unwrap_or(u32::MAX).saturating_add(1);
        let time_min = lost.usual_time() * parts;
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

    /// How many units are to be reached.
    fn wanted(&self, trial: &Trial, has_time: bool) -> Result<u64, String> {
        if let Some(count) = self.count {
            return Ok(count);
        }
        if has_time {
            return Ok(u64::MAX);
        }
        let known = self.report.as_deref().map(|directory| TrialEvidence::read(directory, trial.name));
        let known = known.transpose().map_err(|error| error.to_string())?.unwrap_or_default();
        let lacking = trial.goal.saturating_sub(known.count);
        Ok(if lacking == 0 { trial.goal } else { lacking })
    }

    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    fn advance(&self, trial: &Trial, time_max: Option<Duration>) -> Result<bool, String> {
        let count = self.wanted(trial, time_max.is_some())?;
        let plan = Plan { from: self.from, count, time_max, jobs: self.jobs, report: self.report.clone() };
        let begun = Instant::now();
        let outcome = campaign::run(trial, &plan).map_err(|error| error.to_string())?;
        let Outcome { tally, seeds: [from, to], violations } = outcome;
        let details: Vec<String> = tally.details().map(|(name, count)| format!("{count} {name}")).collect();
        println!(
            "{}: {} {}, seeds {from}..{to}, {} s, {} violations ({})",
            trial.name,
            tally.units(),
            trial.what,
            begun.elapsed().as_secs(),
            violations.len(),
            details.join(", ")
        );
        Ok(violations.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use upesi_torture::tally::Tally;

    use super::*;

    /// Three units a seed.
    const INVENTED: Trial = Trial {
        name: "invented",
        what: "invented things",
        goal: 30,
        build: upesi_torture::trial::own_build,
        run: |_| {
            let mut tally = Tally::default();
            (0..3).for_each(|_| tally.unit("thing"));
            tally
        },
    };

    fn go(report: &Path, count: Option<u64>, time_max: Option<Duration>) -> TrialEvidence {
        let report_to = Some(report.to_owned());
        let arguments =
            TrialArguments { from: None, count, minutes: None, jobs: 1, report: report_to, binary: None };
        assert_eq!(arguments.advance(&INVENTED, time_max), Ok(true));
        TrialEvidence::read(report, "invented").unwrap()
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

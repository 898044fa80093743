//! The command line, including `torture note` and `torture next` for the counts of other programs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use upesi_torture::campaign::{self, Outcome, Plan};
use upesi_torture::evidence::{self, Report, Subject, TrialEvidence};
use upesi_torture::trials::Trial;
use upesi_torture::{hub_binary, table, trials};

use super::real_hub::{Attacked, BlackHoleArguments, HandshakeArguments};

/// Inject faults by the million, and record the results as evidence.
///
/// Every trial runs until --count or --minutes is reached. With --report, it continues with seeds that the evidence
/// does not contain, and adds its results to the evidence every 20 seconds. So it may be stopped at any time.
#[derive(Debug, Parser)]
#[command(name = "torture")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulated crashes at any disk operation, including torn writes: no acknowledged record is lost.
    CrashImages(TrialArguments),
    /// Simulated crashes of whole hubs with a real archive, while retention removes old data.
    HubImages(TrialArguments),
    /// Whole worlds with faults of every kind, an independent auditor, and liveness at the end.
    WorldSeeds(TrialArguments),
    /// Whole worlds of two or three hubs that share a log: failovers, handovers, leaders that come back.
    NodeSeeds(TrialArguments),
    /// Syncs that fail: nothing is acknowledged after the first failure.
    Fsync(TrialArguments),
    /// Flipped bits, lost, stale and misdirected writes: each is detected or harmless.
    BitFlips(TrialArguments),
    /// A full disk at any operation, and free space again.
    DiskFull(TrialArguments),
    /// kill -9 of the real binary under load.
    Kill9(TrialArguments),
    /// kill -9 of the real binary during the close of windows and their settlement.
    Kill9Settlement(TrialArguments),
    /// Power failures under the real binary: data that no sync made durable are undone, also in its archive and its
    /// store.
    PowerLoss(TrialArguments),
    /// Three hubs of the real binary and three brokers under load. Each part is lost in turn, and all parts at once.
    FailOvers(TrialArguments),
    /// One DFSP of eight accepts connections and never answers, for minutes, on the real binary; then it is back.
    BlackHole(BlackHoleArguments),
    /// Floods by clients without a credential, or with one DFSP's credential, during honest payments on the real
    /// binary. Not part of `all`.
    Attacks(Attacked),
    /// Storms of handshakes, and renewals of a thousand certificates, during honest payments with mutual TLS on the
    /// real binary. Not part of `all`.
    Handshakes(HandshakeArguments),
    /// All trials in turn. With --minutes, each gets an equal part of the time.
    All(TrialArguments),
    /// Read a whole archive or store that was damaged. The trial bit-flips runs this in a separate process.
    #[command(hide = true)]
    JudgeTables {
        /// `archive` or `store`.
        tables: String,
        /// Directory of the archive or the store.
        directory: PathBuf,
    },
    /// Write the table of docs/reliability.md from the evidence, or check it.
    Table(TableArguments),
    /// Add a run of another program to its evidence.
    Note(Note),
    /// Print the next seed for another program.
    Next(Next),
}

#[derive(Debug, Args)]
struct TableArguments {
    /// Directory of the evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    evidence: PathBuf,
    /// The page with the markers.
    #[arg(long, alias = "readme", value_name = "FILE", default_value = "docs/reliability.md")]
    page: PathBuf,
    /// Change nothing; fail if the table does not agree with the evidence.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// Runs the subcommand. The exit code is 1 if a promise was broken.
    #[expect(clippy::print_stderr, reason = "this is a command, and its error is for people")]
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::CrashImages(trial) => trial.run("crash-images"),
            Command::HubImages(trial) => trial.run("hub-images"),
            Command::WorldSeeds(trial) => trial.run("world-seeds"),
            Command::NodeSeeds(trial) => trial.run("node-seeds"),
            Command::Fsync(trial) => trial.run("fsync"),
            Command::BitFlips(trial) => trial.run("bit-flips"),
            Command::DiskFull(trial) => trial.run("disk-full"),
            Command::Kill9(trial) => trial.run("kill9"),
            Command::Kill9Settlement(trial) => trial.run("kill9-settlement"),
            Command::PowerLoss(trial) => trial.run("power-loss"),
            Command::FailOvers(trial) => trial.run("fail-overs"),
            Command::BlackHole(lost) => lost.run(),
            Command::Attacks(attacked) => attacked.run(),
            Command::Handshakes(shaken) => shaken.run(),
            Command::All(trial) => trial.run_all(),
            Command::Table(table) => table.run(),
            Command::Note(note) => note.run(),
            Command::Next(next) => next.run(),
            Command::JudgeTables { tables, directory } => return judge_tables(&tables, &directory),
        };
        match outcome {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                eprintln!("torture: {message}");
                ExitCode::FAILURE
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
fn judge_tables(tables: &str, directory: &Path) -> ExitCode {
    let Some(tables) = trials::Tables::named(tables) else { return ExitCode::FAILURE };
    let judgement = tables.judge(directory);
    if let trials::Judgement::Wrong(what) = &judgement {
        println!("{what}");
    }
    ExitCode::from(judgement.code())
}

impl TableArguments {
    fn run(&self) -> Result<bool, String> {
        let page = std::fs::read_to_string(&self.page).map_err(|error| error.to_string())?;
        let updated = table::updated(&page, &self.evidence).map_err(|error| error.to_string())?;
        if updated == page {
            return Ok(true);
        }
        if self.check {
            return Err(format!(
                "{} does not agree with the evidence: run `make evidence`",
                self.page.display()
            ));
        }
        std::fs::write(&self.page, updated).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

/// Arguments of `torture note`.
#[derive(Debug, Args)]
pub struct Note {
    /// Name of the program: `fuzz`.
    name: String,
    /// Seed of the run; by default the seed that `torture next` prints.
    #[arg(long)]
    seed: Option<u64>,
    /// Duration of the run, in seconds.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
    /// Build of the program.
    #[arg(long)]
    build: String,
    /// Count of the run, such as `routes=125000`. May be repeated.
    #[arg(long = "count", value_name = "NAME=NUMBER", value_parser = count)]
    counts: Vec<(String, u64)>,
    /// Broken promise, in words. May be repeated.
    #[arg(long = "violation", value_name = "TEXT")]
    violations: Vec<String>,
    /// Directory of the evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    report: PathBuf,
}

/// Arguments of `torture next`.
#[derive(Debug, Args)]
pub struct Next {
    /// Name of the program: `fuzz`.
    name: String,
    /// Directory of the evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    report: PathBuf,
}

fn count(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("is not NAME=NUMBER")?;
    Ok((name.to_owned(), number.parse().map_err(|error| format!("{number:?}: {error}"))?))
}

fn subject(name: &str) -> Result<Subject, String> {
    let names = evidence::subjects().map(|subject| subject.name).join(", ");
    let found = evidence::subjects().into_iter().find(|subject| subject.name == name);
    found.ok_or_else(|| format!("{name:?} has no evidence; there is evidence of {names}"))
}

impl Note {
    /// Adds the run to the evidence.
    pub fn run(self) -> Result<bool, String> {
        let subject = subject(&self.name)?;
        let seed = self.seed.map_or_else(|| evidence::next_seed(&self.report, &subject), Ok);
        let report = Report {
            seed: seed.map_err(|error| error.to_string())?,
            build: self.build,
            duration_s: self.seconds,
            counts: self.counts.into_iter().collect(),
            violations: self.violations,
        };
        evidence::note(&self.report, &subject, report).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

impl Next {
    /// Prints the next seed.
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        let seed = evidence::next_seed(&self.report, &subject(&self.name)?);
        println!("{}", seed.map_err(|error| error.to_string())?);
        Ok(true)
    }
}

/// Arguments of a trial.
#[derive(Debug, Args)]
pub struct TrialArguments {
    /// First seed. Without it, the run continues the report.
    #[arg(long)]
    from: Option<u64>,
    /// Number of units. By default, a run with --minutes uses its time. A run without --minutes reaches the goal, or
    /// runs the goal again if the report has reached it.
    #[arg(long)]
    count: Option<u64>,
    /// Maximum duration; all trials get equal parts of it.
    #[arg(long)]
    minutes: Option<u64>,
    /// Number of threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Directory of the evidence to continue.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The hub's program, for trials of the real binary; by default Cargo builds it from this checkout.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl TrialArguments {
    /// Runs one trial. Returns false if a promise was broken.
    pub fn run(&self, name: &str) -> Result<bool, String> {
        self.prepare()?;
        let trial = trials::named(name).ok_or_else(|| format!("{name} is not a trial"))?;
        self.advance(trial, self.time_max())
    }

    /// Runs all trials. Returns false if a promise was broken.
    pub fn run_all(&self) -> Result<bool, String> {
        self.prepare()?;
        let begun = Instant::now();
        let mut is_kept = true;
        // The black-hole trial measures latency and needs the machine for itself. It has no unit for `--count`.
        if self.count.is_none() {
            is_kept &= self.lose_one()?;
        }
        for (place, trial) in trials::TRIALS.iter().enumerate() {
            // An equal part of the time for each remaining trial.
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
                "this build aborts at a panic, but a broken promise is a panic: use --profile torture".into(),
            );
        }
        self.binary.as_deref().map_or(Ok(()), hub_binary::name)
    }

    #[expect(clippy::print_stderr, reason = "a trial that is left out is reported")]
    fn lose_one(&self) -> Result<bool, String> {
        let lost = BlackHoleArguments::usual(self.report.clone());
        let parts = u32::try_from(trials::TRIALS.len()).unwrap_or(u32::MAX).saturating_add(1);
        let time_min = lost.usual_time() * parts;
        match self.time_max() {
            Some(limit) if limit < time_min => {
                let minutes = time_min.as_secs().div_ceil(60);
                eprintln!(
                    "torture: black-hole is left out: it takes five minutes and needs --minutes {minutes}"
                );
                Ok(true)
            }
            _ => lost.run(),
        }
    }

    /// Number of units to reach.
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

    use upesi_torture::trials::Tally;

    use super::*;

    /// A trial with three units per seed.
    const INVENTED: Trial = Trial {
        name: "invented",
        what: "invented things",
        goal: 30,
        build: upesi_torture::trials::own_build,
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
    fn run_beyond_a_reached_goal_uses_new_seeds() {
        let report = tempfile::tempdir().unwrap();
        // The rest of the goal; as many again; a given number.
        for (count, seeds) in [(None, 10), (None, 20), (Some(6), 22)] {
            let evidence = go(report.path(), count, None);
            assert_eq!((evidence.count, evidence.seeds), (3 * seeds, vec![[0, seeds]]), "{count:?}");
        }
        // With a time limit, as many seeds run as the time allows.
        let evidence = go(report.path(), None, Some(Duration::from_millis(1_100)));
        assert!(evidence.count > 66 && evidence.seeds.len() == 1, "{:?}", evidence.seeds);
    }

    #[test]
    fn incomplete_goal_is_continued() {
        let report = tempfile::tempdir().unwrap();
        assert_eq!(go(report.path(), Some(9), None).count, 9);
        assert_eq!(go(report.path(), None, None).count, 30);
    }
}

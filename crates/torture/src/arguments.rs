//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use upesi_torture::campaign::{self, Outcome, Plan};
use upesi_torture::table;
use upesi_torture::trial::Trial;
use upesi_torture::trials;

use crate::lost::Lost;
use crate::note::{Next, Note};

/// Faults by the million, and the evidence of what came of it.
///
/// Every trial counts until --count or --minutes is reached. With --report it continues the evidence there, and adds to
/// it every 20 seconds, so that it may be stopped at any time.
#[derive(Debug, Parser)]
#[command(name = "torture")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulated crashes at any disk operation, torn writes included: nothing acknowledged is lost.
    CrashImages(Amount),
    /// Whole worlds with faults of every kind, an independent auditor, and liveness at the end.
    WorldSeeds(Amount),
    /// Syncs that fail: nothing is acknowledged after the first.
    Fsync(Amount),
    /// Flipped bits, lost, stale and misdirected writes: each is detected or harmless.
    BitFlips(Amount),
    /// No room at any operation, and room again.
    DiskFull(Amount),
    /// kill -9 of the real binary under load.
    Kill9(Amount),
    /// One DFSP of eight takes connections and never answers, for minutes, on the real binary; then it is back.
    BlackHole(Lost),
    /// All of them, in turn, each with its share of the time.
    All(Amount),
    /// Reads all of an archive or a store that was damaged; for bit-flips, which runs it in a process of its own.
    #[command(hide = true)]
    JudgeTables {
        /// `archive` or `store`.
        tables: String,
        /// Where it is.
        directory: PathBuf,
    },
    /// Writes the README's table of reliability from the evidence, or checks it.
    Table(TableArguments),
    /// Adds a run of another program to its evidence.
    Note(Note),
    /// Says with which seed that program is to go on.
    Next(Next),
}

#[derive(Debug, Args)]
struct Amount {
    /// The first seed. Without it, the report is continued.
    #[arg(long)]
    from: Option<u64>,
    /// How many to reach; by default what the report lacks of the goal, or the goal.
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
}

#[derive(Debug, Args)]
struct TableArguments {
    /// The evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    evidence: PathBuf,
    /// The file with the markers.
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    readme: PathBuf,
    /// Changes nothing; fails where the table is not what the evidence says.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// Does it. Exits with 1 where a promise was broken.
    #[expect(clippy::print_stderr, reason = "this is a command, and its error is for people")]
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::CrashImages(amount) => amount.run("crash-images"),
            Command::WorldSeeds(amount) => amount.run("world-seeds"),
            Command::Fsync(amount) => amount.run("fsync"),
            Command::BitFlips(amount) => amount.run("bit-flips"),
            Command::DiskFull(amount) => amount.run("disk-full"),
            Command::Kill9(amount) => amount.run("kill9"),
            Command::BlackHole(lost) => lost.run(),
            Command::All(amount) => amount.run_all(),
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

impl Amount {
    fn run(&self, name: &str) -> Result<bool, String> {
        let trial = trials::named(name).ok_or_else(|| format!("there is no trial {name}"))?;
        let minutes = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        self.try_one(trial, minutes)
    }

    fn run_all(&self) -> Result<bool, String> {
        let mut is_kept = true;
        let begun = std::time::Instant::now();
        for (index, trial) in trials::TRIALS.iter().enumerate() {
            let rest = (trials::TRIALS.len() - index) as u32;
            // What one trial leaves of its share is for those after it.
            let limit = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
            let share = limit.map(|limit| limit.saturating_sub(begun.elapsed()) / rest);
            is_kept &= self.try_one(*trial, share)?;
        }
        Ok(is_kept)
    }

    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    fn try_one(&self, trial: &dyn Trial, time_max: Option<Duration>) -> Result<bool, String> {
        if cfg!(panic = "abort") {
            return Err(
                "built to abort at a panic, and a broken promise is one: build with --profile torture".into(),
            );
        }
        let plan = Plan {
            from: self.from,
            count: self.count.map_or_else(|| missing(trial, self.report.as_deref()), Ok)?,
            time_max,
            jobs: self.jobs,
            report: self.report.clone(),
        };
        let begun = std::time::Instant::now();
        let Outcome { tally, seeds: [from, to], violations } =
            campaign::run(trial, &plan).map_err(|error| error.to_string())?;
        let details: Vec<String> = tally.details().map(|(name, count)| format!("{count} {name}")).collect();
        println!(
            "{}: {} {}, seeds {from}..{to}, {} s, {} violations ({})",
            trial.name(),
            tally.units(),
            trial.what(),
            begun.elapsed().as_secs(),
            violations.len(),
            details.join(", ")
        );
        Ok(violations.is_empty())
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

/// What a report lacks of the goal.
fn missing(trial: &dyn Trial, report: Option<&Path>) -> Result<u64, String> {
    let known = report.map(|directory| upesi_torture::evidence::Evidence::read(directory, trial.name()));
    let known = known.transpose().map_err(|error| error.to_string())?.unwrap_or_default();
    Ok(trial.goal().saturating_sub(known.count))
}

impl TableArguments {
    fn run(&self) -> Result<bool, String> {
        let readme = std::fs::read_to_string(&self.readme).map_err(|error| error.to_string())?;
        let updated = table::updated(&readme, &self.evidence).map_err(|error| error.to_string())?;
        if updated == readme {
            return Ok(true);
        }
        if self.check {
            return Err(format!(
                "{} is not what the evidence says: run `make evidence`",
                self.readme.display()
            ));
        }
        std::fs::write(&self.readme, updated).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use upesi_torture::{table, trials};

use crate::attacked::Attacked;
use crate::lost::Lost;
use crate::note::{Next, Note};
use crate::shaken::Shaken;
use crate::trial_arguments::TrialArguments;

/// Faults by the million, and the evidence of what came of it.
///
/// Every trial counts until --count or --minutes is reached. With --report it goes on with seeds that the evidence
/// there does not know, and adds to it every 20 seconds, so that it may be stopped at any time.
#[derive(Debug, Parser)]
#[command(name = "torture")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulated crashes at any disk operation, torn writes included: nothing acknowledged is lost.
    CrashImages(TrialArguments),
    /// The same of whole hubs with a real archive, whose retention goes on meanwhile.
    HubImages(TrialArguments),
    /// Whole worlds with faults of every kind, an independent auditor, and liveness at the end.
    WorldSeeds(TrialArguments),
    /// Syncs that fail: nothing is acknowledged after the first.
    Fsync(TrialArguments),
    /// Flipped bits, lost, stale and misdirected writes: each is detected or harmless.
    BitFlips(TrialArguments),
    /// No room at any operation, and room again.
    DiskFull(TrialArguments),
    /// kill -9 of the real binary under load.
    Kill9(TrialArguments),
    /// kill -9 of the real binary while it closes windows and settles them.
    Kill9Settlement(TrialArguments),
    /// Power that goes under the real binary: what no sync has made durable is undone, in its archive and its store,
    /// too.
    PowerLoss(TrialArguments),
    /// One DFSP of eight takes connections and never answers, for minutes, on the real binary; then it is back.
    BlackHole(Lost),
    /// Floods that need no credential, or only one DFSP's, beside honest payments on the real binary. Not part of
    /// `all`.
    Attacks(Attacked),
    /// Storms of handshakes, and renewals of a thousand certificates, beside honest payments with mutual TLS on the
    /// real binary. Not part of `all`.
    Handshakes(Shaken),
    /// All of them, in turn. With --minutes each gets an equal part of them.
    All(TrialArguments),
    /// Reads all of an archive or a store that was damaged; for bit-flips, which runs it in a process of its own.
    #[command(hide = true)]
    JudgeTables {
        /// `archive` or `store`.
        tables: String,
        /// Where it is.
        directory: PathBuf,
    },
    /// Write the table of docs/reliability.md from the evidence, or check it.
    Table(TableArguments),
    /// Adds a run of another program to its evidence.
    Note(Note),
    /// Says with which seed that program is to go on.
    Next(Next),
}

#[derive(Debug, Args)]
struct TableArguments {
    /// The evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    evidence: PathBuf,
    /// The page with the markers.
    #[arg(long, alias = "readme", value_name = "FILE", default_value = "docs/reliability.md")]
    page: PathBuf,
    /// Changes nothing; fails where the table is not what the evidence says.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// Does it. Exits with 1 where a promise was broken.
    #[expect(clippy::print_stderr, reason = "this is a command, and its error is for people")]
    pub fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::CrashImages(trial) => trial.run("crash-images"),
            Command::HubImages(trial) => trial.run("hub-images"),
            Command::WorldSeeds(trial) => trial.run("world-seeds"),
            Command::Fsync(trial) => trial.run("fsync"),
            Command::BitFlips(trial) => trial.run("bit-flips"),
            Command::DiskFull(trial) => trial.run("disk-full"),
            Command::Kill9(trial) => trial.run("kill9"),
            Command::Kill9Settlement(trial) => trial.run("kill9-settlement"),
            Command::PowerLoss(trial) => trial.run("power-loss"),
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
                "{} is not what the evidence says: run `make evidence`",
                self.page.display()
            ));
        }
        std::fs::write(&self.page, updated).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

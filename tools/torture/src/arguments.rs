//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use upesi_torture::{table, trials};

use crate::amount::Amount;
use crate::attacked::Attacked;
use crate::lost::Lost;
use crate::note::{Next, Note};

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
    CrashImages(Amount),
    /// The same of whole hubs with a real archive, whose retention goes on meanwhile.
    HubImages(Amount),
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
    /// Power that goes under the real binary: what no sync has made durable is undone, in its archive and its store, too.
    PowerLoss(Amount),
    /// One DFSP of eight takes connections and never answers, for minutes, on the real binary; then it is back.
    BlackHole(Lost),
    /// Floods that need no credential, or only one DFSP's, beside honest payments on the real binary. Not part of `all`.
    Attacks(Attacked),
    /// All of them, in turn. Time goes to what lacks most of its goal; once all are reached, to new seeds of each.
    All(Amount),
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
            Command::CrashImages(amount) => amount.run("crash-images"),
            Command::HubImages(amount) => amount.run("hub-images"),
            Command::WorldSeeds(amount) => amount.run("world-seeds"),
            Command::Fsync(amount) => amount.run("fsync"),
            Command::BitFlips(amount) => amount.run("bit-flips"),
            Command::DiskFull(amount) => amount.run("disk-full"),
            Command::Kill9(amount) => amount.run("kill9"),
            Command::PowerLoss(amount) => amount.run("power-loss"),
            Command::BlackHole(lost) => lost.run(),
            Command::Attacks(attacked) => attacked.run(),
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

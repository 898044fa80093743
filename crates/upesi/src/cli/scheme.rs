//! `upesi scheme`: the state of a hub as a file.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_hub::scheme::{self, ApplyOptions};
use upesi_hub::values::{WAIT_DEFAULT, wait};

/// Subcommands of `upesi scheme`.
#[derive(Debug, Subcommand)]
pub enum SchemeCommand {
    /// Make the changes that a scheme file asks for, and show them.
    ///
    /// Reads the hub's present state through its admin API, then makes what differs: hub accounts, settlement models, DFSPs,
    /// net debit caps, funds, endpoints. Applying a file again changes nothing. One line per change: `+` made, `~` changed,
    /// `?` what this hub does not tell, and at the end how much was as described already. What cannot be changed (a model's
    /// kind, a proxy) is told before anything is: the file is checked as a whole, and against the hub. Works with any hub that has this admin API.
    Apply(SchemeApplyArguments),
}

/// Arguments of `upesi scheme apply`.
#[derive(Args, Clone, Debug)]
pub struct SchemeApplyArguments {
    /// The scheme file (TOML); see examples/scheme.toml.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only show what would be changed.
    #[arg(long)]
    pub plan: bool,
    /// Base URL of the hub's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4001", env = "UPESI_ADMIN_URL")]
    pub admin: String,
    /// Wait up to this many seconds for a hub that does not answer yet; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = WAIT_DEFAULT, value_parser = wait)]
    pub wait: Duration,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
}

/// Runs a subcommand.
pub fn run(command: SchemeCommand) -> Outcome {
    let SchemeCommand::Apply(SchemeApplyArguments { file, plan, admin, wait, json }) = command;
    let options = ApplyOptions { file, admin_url: admin, wait, plan_only: plan, json };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Temporary, error))?;
    runtime.block_on(scheme::run(&options, &mut io::stdout()))
}

//! `upesi scheme`: the configuration of a scheme as a file.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use upesi_client::scheme::{self, ApplyOptions};
use upesi_process::exit::Outcome;
use upesi_process::terminal::Escaping;
use upesi_process::values::{WAIT_DEFAULT, wait};

use super::hub::{HubArguments, runtime};

/// Subcommands of `upesi scheme`.
#[derive(Debug, Subcommand)]
pub enum SchemeCommand {
    /// Apply a scheme file and show the changes.
    ///
    /// Compares the file with the hub's state and makes the missing changes through the admin API: hub accounts,
    /// settlement models, DFSPs, net debit caps, funds, bindings, endpoints. Applying a file again changes nothing that
    /// already matches it. `funds` are deposited once per scheme name, DFSP and currency, into an account without
    /// cover, and never topped up: record later deposits as the bank books them. `--plan` shows the deposits. Prints
    /// one line per change: `+` created, `~` changed, `-` removed, `?` unknown to this hub, and the number of unchanged
    /// items. The whole file is checked, also against the hub, before the first change. Changes that are impossible (of
    /// a model's kind, of a proxy) are rejected. Works with any hub that has Mojaloop's admin API.
    Apply(SchemeApplyArguments),
}

/// Arguments of `upesi scheme apply`.
#[derive(Args, Clone, Debug)]
pub struct SchemeApplyArguments {
    /// The scheme file (TOML); see examples/scheme.toml.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only print the changes, without making them.
    #[arg(long)]
    pub plan: bool,
    #[command(flatten)]
    pub hub: HubArguments,
    /// Seconds to wait for the hub to answer; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = WAIT_DEFAULT, value_parser = wait)]
    pub wait: Duration,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
}

/// Runs a subcommand.
pub fn run(command: SchemeCommand) -> Outcome {
    let SchemeCommand::Apply(SchemeApplyArguments { file, plan, hub, wait, json }) = command;
    let hub = hub.resolve()?;
    let admin_token = hub.token()?;
    let (admin_url, admin_tls) = (hub.url, hub.tls);
    let options = ApplyOptions { file, admin_url, admin_tls, admin_token, wait, plan_only: plan, json };
    runtime()?.block_on(scheme::run(&options, &mut Escaping::new(io::stdout())))
}

//! `upesi directory`: parties and their DFSPs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use upesi_client::directory_import::{self, ImportOptions};
use upesi_process::exit::Outcome;
use upesi_process::terminal::Escaping;
use upesi_process::values::{WAIT_DEFAULT, wait};

use super::hub::{HubArguments, connect, runtime};

/// Subcommands of `upesi directory`.
#[derive(Debug, Subcommand)]
pub enum DirectoryCommand {
    /// Register the parties of a CSV file.
    ///
    /// The first line names the columns in any order: partyIdType, partyIdentifier, fspId, optionally partySubIdOrType
    /// and currency. Each further line is one entry. Rejected lines are reported on stderr with their number and do not
    /// stop the import; the command then exits with code 1.
    ///
    /// To continue an interrupted import, run the same command again: the hub remembers its progress by the content of
    /// the file. A changed file is imported from its beginning. Lines that are already registered are not errors.
    Import(ImportArguments),
    /// Show the DFSPs of a party: one line per entry with DFSP, currency and sub id, separated by tabs.
    Get(GetArguments),
}

/// Arguments of `upesi directory import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// The CSV file, in UTF-8.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace entries of other DFSPs instead of rejecting the line.
    #[arg(long)]
    pub replace: bool,
    /// Name of the import, by default derived from the file's content. With a new name, the same file is imported
    /// again.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub hub: HubArguments,
    /// Seconds to wait for the hub to answer; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = WAIT_DEFAULT, value_parser = wait)]
    pub wait: Duration,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `upesi directory get`.
#[derive(Args, Clone, Debug)]
pub struct GetArguments {
    /// The party-id type, such as MSISDN.
    #[arg(value_name = "TYPE")]
    pub kind: String,
    /// The identifier.
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(flatten)]
    pub hub: HubArguments,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
}

/// Runs a subcommand.
pub fn run(command: DirectoryCommand) -> Outcome {
    let mut output = Escaping::new(io::stdout());
    match command {
        DirectoryCommand::Import(arguments) => {
            let ImportArguments { file, replace, name, hub, wait, json } = arguments;
            let hub = hub.resolve()?;
            let admin_token = hub.token()?;
            let (admin_url, admin_tls) = (hub.url, hub.tls);
            let options =
                ImportOptions { file, admin_url, admin_tls, admin_token, wait, name, replace, json };
            runtime()?.block_on(directory_import::import(
                &options,
                &mut output,
                &mut Escaping::new(io::stderr()),
            ))
        }
        DirectoryCommand::Get(GetArguments { kind, id, hub, json }) => {
            let (api, runtime) = connect(hub)?;
            runtime.block_on(directory_import::get(&api, &kind, &id, json, &mut output))
        }
    }
}

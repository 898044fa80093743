//! The arguments of every command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use upesi_offline::backup::{BackupArguments, RestoreArguments};
use upesi_offline::export::ExportArguments;
use upesi_offline::trim::TrimArguments;
use upesi_process::times::{ParsedTime, ZoneArguments, when};
use upesi_process::values;
use upesi_process::version::VERSION;
use upesi_types::{FspId, TransferId};

use super::admin::AdminCommand;
use super::bindings::BlockCommand;
use super::callback::{CallbackCommand, LaneArguments};
use super::cluster::ClusterCommand;
use super::context::ContextCommand;
use super::dfsp::DfspCommand;
use super::directory::DirectoryCommand;
use super::funds::FundsCommand;
use super::help::HelpArguments;
use super::pki::PkiCommand;
use super::position::{CapCommand, PositionArguments};
use super::process::ProcessCommand;
use super::scheme::SchemeCommand;
use super::settings::SettingsArguments;
use super::settlement::SettlementCommand;
use super::sim::SimArguments;
use super::transfer::TransferCommand;
use crate::demo::DemoArguments;
use upesi_lab::cli::LabCommand;

const AFTER_HELP: &str = "\
Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 64 wrong usage or configuration, \
65 damaged data, 66 no such input, 69 not available, 70 fault of the program, 73 cannot create, 74 input or output failed, \
75 in use, try later. `upesi help exit-codes` describes them.";

/// An instant-payments switch: a durable FSPIOP transfer hub, simulated DFSPs, a load lab and the tools around them.
#[derive(Debug, Parser)]
#[command(name = "upesi", version = VERSION, after_help = AFTER_HELP, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the hub.
    ///
    /// Serves DFSPs (FSPIOP API) on one port and operators (admin API, health, metrics) on another. All data is in one
    /// directory. The hub needs no configuration. It is ready when GET /health answers 200 on both ports. SIGTERM and
    /// SIGINT stop it cleanly: accepted requests finish, and the hub writes a snapshot. A hub that is killed loses
    /// nothing that it has acknowledged.
    Serve(SettingsArguments),
    /// Create an empty data directory, for the first start of a hub with data.must_exist.
    ///
    /// Fails if the directory is already a data directory or contains anything else.
    Init(InitArguments),
    /// Run a demonstration: a hub, simulated DFSPs, a payment, and a measured, audited load.
    Demo(DemoArguments),
    /// Show the settings in effect and the origin of each.
    ///
    /// Prints a TOML file for --config, with the origin of each value as a comment: default, file and line, environment
    /// variable or flag. Accepts the flags of serve.
    Config(ConfigArguments),
    /// Apply a scheme file to a hub.
    #[command(subcommand)]
    Scheme(SchemeCommand),
    /// Close settlement windows and settle them.
    #[command(subcommand)]
    Settlement(SettlementCommand),
    /// List, show, suspend, move and bind DFSPs.
    #[command(subcommand)]
    Dfsp(DfspCommand),
    /// Block keys, certificates and DFSPs immediately, or lift a block.
    #[command(subcommand)]
    Block(BlockCommand),
    /// List positions with net debit cap and liquidity cover, the highest use first.
    Position(PositionArguments),
    /// List net debit caps, or set one.
    #[command(subcommand)]
    Cap(CapCommand),
    /// Record deposits and withdrawals, or list the funds of DFSPs.
    #[command(subcommand)]
    Funds(FundsCommand),
    /// Find transfers, or show one transfer in a sentence.
    #[command(subcommand)]
    Transfer(TransferCommand),
    /// List undelivered callbacks, or redeliver them.
    #[command(subcommand)]
    Callback(CallbackCommand),
    /// List the callback lanes: undelivered callbacks of each DFSP, and its response times.
    ///
    /// P50 and P99 are the time from the hub's request to the DFSP's callback in the last five minutes, for the slowest
    /// kind of request. ERRORS is the share of requests of all kinds that failed, were not answered, or were not
    /// delivered. --sort -p99 lists the slowest DFSP first. --json has every kind, and the senders of failed requests.
    Lane(LaneArguments),
    /// Register parties in the hub's built-in directory, or show them.
    #[command(subcommand)]
    Directory(DirectoryCommand),
    /// Inspect the process of a running hub: health, clock, log level, metrics.
    #[command(subcommand)]
    Hub(ProcessCommand),
    /// Save hubs by name, so that commands need no address and no files.
    ///
    /// All commands that call a hub accept --context and the variable UPESI_CONTEXT.
    #[command(subcommand)]
    Context(ContextCommand),
    /// Manage operators, their credentials and approvals.
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Manage a cluster of hubs and the log that they share.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Run a certificate authority for TLS, for a scheme without one and for tests.
    #[command(subcommand)]
    Pki(PkiCommand),
    /// Run simulated DFSPs, or a simulated oracle.
    ///
    /// Runs any number of DFSPs in one process. They answer forwarded requests (lookups, quotes, transfers with the
    /// right fulfilment, and more) with configurable delays and faults, and keep their own books. GET /_sim/dfsps shows
    /// them, PUT /_sim/dfsps/NAME changes the behaviour of one, and GET /metrics has counters and durations for
    /// Prometheus. Prints the name and base URL of each, then runs until SIGTERM or SIGINT.
    Sim(SimArguments),
    /// Measure a hub under load.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Print the records of a data directory, oldest first.
    ///
    /// Prints one line per record: sequence number, time, events, callbacks, size of the request. Only reads; a hub may
    /// be using the directory.
    Journal(JournalArguments),
    /// Verify a data directory: every record, every invariant, snapshots and archive.
    ///
    /// Reads every segment of the journal (checksums, chain, times, zeros in unused space). Then it replays the journal
    /// with independent books. It checks that money is conserved, that no transfer takes effect twice, that caps and
    /// cover were respected, and that every outcome has its callbacks. Snapshots must equal the replay byte for byte,
    /// and archived transfers must equal the decisions. If the first segments were deleted, the replay begins with the
    /// oldest snapshot that the journal continues. That snapshot cannot be compared, and older records are only read.
    /// Prints counts and balances. Exits with code 65 if a check fails. `upesi trail` prints the changes that operators
    /// made.
    Audit(AuditArguments),
    /// Print and verify the audit trail of a data directory.
    ///
    /// Prints one line per change or rejected attempt, with its operator, oldest first. The whole chain is verified
    /// even if only some entries are printed. Each entry must follow from the entry before it and from the change in
    /// its record. Snapshots and signed checkpoints must agree with the chain. Only reads; a hub may be using the
    /// directory. If the trail is broken, the command names the place and exits with code 65.
    Trail(TrailArguments),
    /// Copy a data directory as of one moment, with or without a running hub.
    ///
    /// Collects the files as of one moment (hard links to files that never change, copies of the rest), then copies
    /// them. If the target directory already has a backup, the command copies only new files. Verify a backup by
    /// restoring it.
    Backup(BackupArguments),
    /// Create a data directory from a backup, and audit it.
    ///
    /// Verifies every file, audits the result and moves it into place. Fails if the directory is not empty. Exits with
    /// code 65 if a file is damaged or a sum is wrong; the result then stays in DIR.restoring. If only decisions
    /// violate the auditor's rules, the directory gets its final name. The command then exits with code 65 unless
    /// --accept-findings is given. Until the findings are accepted, no hub starts on the directory.
    Restore(RestoreArguments),
    /// Free space on a full disk: move or delete journal segments that are no longer needed.
    ///
    /// Applies to segments before the oldest snapshot whose transfers are archived and which no undelivered callback
    /// needs. The hub must be stopped. The command needs no free space on the full volume.
    Trim(TrimArguments),
    /// Write finished transfers to a file for other tools, as CSV, JSON Lines or Parquet.
    ///
    /// Also writes FX transfers or items of bulk transfers. Works with or without a running hub.
    /// Writes one row each, in no particular order: ids, DFSPs, amounts, state, times, condition and fulfilment.
    /// docs/data-directory.md describes the columns. Prints the number of rows.
    Export(ExportArguments),
    /// Print the manual of a command, exit codes, shell completions or man pages.
    ///
    /// Without arguments, prints the overview of all commands.
    Help(HelpArguments),
}

/// Arguments of `upesi init`.
#[derive(Args, Clone, Debug)]
pub struct InitArguments {
    /// The data directory; it must be missing or empty.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Arguments of `upesi config`.
#[derive(Args, Clone, Debug)]
pub struct ConfigArguments {
    /// The settings of serve.
    #[command(flatten)]
    pub settings: SettingsArguments,
    /// Print JSON instead of TOML.
    #[arg(long)]
    pub json: bool,
    /// Print the settings reference instead, as Markdown: the settings that a first installation needs, each with
    /// default, values and meaning.
    #[arg(long, conflicts_with = "json")]
    pub reference: bool,
    /// With --reference: all settings.
    #[arg(long, requires = "reference")]
    pub all: bool,
}

/// Arguments of `upesi journal`.
#[derive(Args, Clone, Debug)]
pub struct JournalArguments {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Print one JSON object per line instead of text. Amounts are strings.
    #[arg(long)]
    pub json: bool,
    /// With --json: add the request's headers and body, which contain personal data.
    #[arg(long, requires = "json")]
    pub payload: bool,
    /// Begin with this record instead of the oldest.
    #[arg(long, value_name = "SEQ")]
    pub from: Option<u64>,
    /// Print at most this many records.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Only records about this transfer and its callbacks.
    #[arg(long, value_name = "ID", value_parser = values::transfer_id)]
    pub transfer: Option<TransferId>,
    /// Only records about this participant.
    #[arg(long, value_name = "NAME", value_parser = values::dfsp_name)]
    pub fsp: Option<FspId>,
    /// Only records from this time on: 2026-11-21, 2026-11-21T09:39:53.000Z, yesterday, 2h.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub since: Option<ParsedTime>,
    /// Only records before this time.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub until: Option<ParsedTime>,
    /// Time zone of the output.
    #[command(flatten)]
    pub zone: ZoneArguments,
}

/// Arguments of `upesi audit`.
#[derive(Args, Clone, Debug)]
pub struct AuditArguments {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Audit while a hub is running: everything that it has written so far, without the archive.
    #[arg(long)]
    pub allow_live: bool,
    /// Skip the archive of finished transfers. Opening it may let its store remove obsolete files.
    #[arg(long)]
    pub no_archive: bool,
}

/// Another source of an audit trail than a data directory.
#[derive(Clone, Debug, Subcommand)]
pub enum TrailSource {
    /// Verify an export of the audit trail (the lines of `upesi trail --json`) without the journal.
    ///
    /// Each entry must follow from the one before, none may be missing, and signed checkpoints must agree. Otherwise
    /// the command names the lines and exits with code 65.
    Verify(VerifyArguments),
}

/// Arguments of `upesi trail verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArguments {
    /// The export.
    #[arg(value_name = "EXPORT")]
    pub export: PathBuf,
    /// Number of the first entry in the export.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub first: u64,
    /// File with signed checkpoints, such as a log of the hub, stored where the hub cannot write.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub checkpoints: Option<PathBuf>,
    /// Public key of the checkpoints' signatures (PEM).
    #[arg(long, value_name = "FILE", requires = "checkpoints")]
    pub key: Option<PathBuf>,
}

/// Arguments of `upesi trail`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TrailArguments {
    /// An export instead of a data directory.
    #[command(subcommand)]
    pub source: Option<TrailSource>,
    /// The data directory.
    #[arg(value_name = "DIR", required = true)]
    pub directory: Option<PathBuf>,
    /// Print one JSON object per line instead of text.
    #[arg(long)]
    pub json: bool,
    /// Only verify: print no entries.
    #[arg(long, conflicts_with_all = ["json", "limit"])]
    pub verify: bool,
    /// Only entries of this operator, or on behalf of it.
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
    /// Only entries of this permission, such as limit.raise, or of this area, such as limit.
    #[arg(long, value_name = "PERMISSION")]
    pub action: Option<String>,
    /// Only entries whose object contains this text, such as the name of a participant.
    #[arg(long, value_name = "TEXT")]
    pub object: Option<String>,
    /// Only changes that were made (done), or only attempts that were rejected (refused).
    #[arg(long, value_name = "OUTCOME", value_parser = ["done", "refused"])]
    pub outcome: Option<String>,
    /// Only entries from this time on: 2026-11-21, 2026-11-21T09:39:53.000Z, yesterday, 2h.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub since: Option<ParsedTime>,
    /// Only entries before this time.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub until: Option<ParsedTime>,
    /// Time zone of the output.
    #[command(flatten)]
    pub zone: ZoneArguments,
    /// Print at most this many entries.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// File with signed checkpoints, such as a log of the hub, stored where the hub cannot write.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub checkpoints: Option<PathBuf>,
    /// Public key of the checkpoints' signatures (PEM).
    #[arg(long, value_name = "FILE", requires = "checkpoints")]
    pub key: Option<PathBuf>,
}

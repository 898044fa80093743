//! `upesi settlement`: settlement windows and settlements.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use upesi_client::settlement::{
    self, Action, HubOptions, Job, JobName, Preview, Reconcile, Report, ReportKind, SettlementState,
};
use upesi_process::exit::{Failure, Outcome};
use upesi_process::terminal::Escaping;
use upesi_process::times::ZoneArguments;
use upesi_process::values::{WAIT_DEFAULT, dfsp_name, wait};
use upesi_types::FspId;

use super::hub::{self, runtime};
use super::models::{self, ModelsArguments};

/// Subcommands of `upesi settlement`.
#[derive(Debug, Subcommand)]
pub enum SettlementCommand {
    /// Show windows and settlements.
    ///
    /// Without a number, shows the open window, windows that are not settled, and settlements that are not finished. A
    /// positive net is an amount that the DFSP owes, a negative net an amount that it is owed.
    Show(ShowArguments),
    /// Close the open window.
    ///
    /// Transfers that commit afterwards belong to the next window. If the named window is already closed, the command
    /// only shows it.
    Close(CloseArguments),
    /// Create a settlement of closed windows.
    Create(CreateArguments),
    /// Advance the accounts of a settlement.
    ///
    /// Advances stage by stage, up to the given state. Accounts that have reached it are not changed. Recipients'
    /// positions are reset at reserved, senders' positions at committed.
    Advance(AdvanceArguments),
    /// Abort a settlement; its windows can be settled again.
    ///
    /// Takes back the amounts that recipients have received. Rejected once an account is committed.
    Abort(AbortArguments),
    /// Close the open window and settle it until the bank has to act, as one job.
    ///
    /// Shows which window it closes. It creates a settlement for each model that governs part of the window, and stops
    /// at recorded, where the bank gets its file; --to settled continues to the end. NAME is a label, such as the date.
    /// A second call with the same name makes the missing steps and repeats none, wherever the first one stopped. If
    /// NAME contains a day and the window was not open on it, the command asks, or requires --yes. An empty window is
    /// not closed; in this case the command exits with code 1 if a closed window is not settled. References are
    /// NAME-SETTLEMENT-ACCOUNT.
    Run(RunArguments),
    /// List settlement models, and the currency that each governs.
    Models(ModelsArguments),
    /// Write a report about a settlement as CSV or XLSX.
    ///
    /// All figures are sums of the transfers between each pair of DFSPs. If they differ from the settlement's nets, or
    /// do not sum to zero, the command writes no report and exits with code 65.
    Report(ReportArguments),
    /// Check the file that the settlement bank has filled in, and finish the settlement with it.
    ///
    /// The file is the output of `report --kind bank`, as CSV or XLSX, with the balances filled in. If it belongs to
    /// another settlement, was altered, or is incomplete, the command changes nothing and exits with code 65. Balances
    /// that the hub does not expect are warnings.
    Reconcile(ReconcileArguments),
}

/// The hub to call.
#[derive(Args, Clone, Debug)]
pub struct CallArguments {
    #[command(flatten)]
    pub hub: hub::HubArguments,
    /// Seconds to wait for the hub to answer; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = WAIT_DEFAULT, value_parser = wait)]
    pub wait: Duration,
}

/// The hub to call, and output options.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct HubArguments {
    /// The hub.
    #[command(flatten)]
    pub call: CallArguments,
    /// Print one JSON object instead of text. Amounts are strings, and times are in UTC.
    #[arg(long)]
    pub json: bool,
    /// Time zone of the output.
    #[command(flatten)]
    pub zone: ZoneArguments,
}

/// Arguments of `upesi settlement show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The settlement.
    #[arg(value_name = "SETTLEMENT", conflicts_with = "window")]
    pub settlement: Option<u32>,
    /// Show this window and its settlements instead.
    #[arg(long, value_name = "WINDOW")]
    pub window: Option<u32>,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement close`.
#[derive(Args, Clone, Debug)]
pub struct CloseArguments {
    /// Number of the window; by default the open window.
    #[arg(value_name = "WINDOW")]
    pub window: Option<u32>,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement create`.
#[derive(Args, Clone, Debug)]
pub struct CreateArguments {
    /// Name of the settlement model.
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Number of a closed window. May be repeated.
    #[arg(long = "window", value_name = "N", required = true)]
    pub windows: Vec<u32>,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement advance`.
#[derive(Args, Clone, Debug)]
pub struct AdvanceArguments {
    /// The settlement.
    #[arg(value_name = "SETTLEMENT")]
    pub settlement: u32,
    /// The state to reach; by default the next one.
    #[arg(long, value_name = "STATE")]
    pub to: Option<Stage>,
    /// Advance only the accounts of this DFSP, by one stage.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name)]
    pub dfsp: Option<FspId>,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The bank's reference.
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement abort`.
#[derive(Args, Clone, Debug)]
pub struct AbortArguments {
    /// The settlement.
    #[arg(value_name = "SETTLEMENT")]
    pub settlement: u32,
    /// Reason, recorded in the audit trail.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The bank's reference.
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement run`.
#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// Name of the job: 1 to 26 letters, digits, dots, hyphens and underscores.
    #[arg(value_name = "NAME")]
    pub name: JobName,
    /// Settle with this model only. May be repeated.
    #[arg(long = "model", value_name = "MODEL")]
    pub models: Vec<String>,
    /// Settle this closed window instead of closing the open one.
    #[arg(long, value_name = "WINDOW")]
    pub window: Option<u32>,
    /// Stop at this state; a later call with the same name continues.
    #[arg(long, value_name = "STATE", default_value = "recorded")]
    pub to: Stage,
    /// Settle the window although NAME contains another day.
    #[arg(long)]
    pub yes: bool,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi settlement report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArguments {
    /// The settlement.
    #[arg(value_name = "SETTLEMENT")]
    pub settlement: u32,
    /// Kind of the report.
    #[arg(long, value_name = "KIND", default_value = "multilateral")]
    pub kind: Kind,
    /// The DFSP, for the report about a single DFSP.
    #[arg(long, value_name = "NAME", value_parser = dfsp_name, required_if_eq("kind", "dfsp"))]
    pub dfsp: Option<FspId>,
    /// Write to this file instead of stdout; as XLSX if its name ends with .xlsx.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The hub.
    #[command(flatten)]
    pub call: CallArguments,
}

/// Arguments of `upesi settlement reconcile`.
#[derive(Args, Clone, Debug)]
pub struct ReconcileArguments {
    /// The settlement.
    #[arg(value_name = "SETTLEMENT")]
    pub settlement: u32,
    /// The bank's file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Finish the settlement: advance all accounts to SETTLED, accounts of payers first.
    #[arg(long)]
    pub apply: bool,
    /// Also record the settled amounts as withdrawals and deposits.
    #[arg(long, requires = "apply")]
    pub move_cover: bool,
    /// Lower net debit caps to the new balances, as the first step.
    #[arg(long, requires = "apply")]
    pub lower_caps: bool,
    /// Raise net debit caps to the new balances, immediately before the accounts become SETTLED.
    #[arg(long, requires = "apply")]
    pub raise_caps: bool,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArguments,
}

/// A kind of report.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// The net of each DFSP.
    Multilateral,
    /// The net of each pair of DFSPs.
    Bilateral,
    /// All senders by all receivers, with check value.
    Matrix,
    /// One DFSP (--dfsp) by counterparty and window.
    Dfsp,
    /// The file for the settlement bank to fill in.
    Bank,
}

/// State of a settlement's accounts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Stage {
    /// The bank has the list.
    Recorded,
    /// Recipients' positions are reset.
    Reserved,
    /// Senders' positions are reset.
    Committed,
    /// Finished.
    Settled,
}

impl From<Stage> for SettlementState {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Recorded => Self::Recorded,
            Stage::Reserved => Self::Reserved,
            Stage::Committed => Self::Committed,
            Stage::Settled => Self::Settled,
        }
    }
}

/// Runs a subcommand.
pub fn run(command: SettlementCommand) -> Outcome {
    let runtime = runtime()?;
    let output = &mut Escaping::new(io::stdout());
    match read(command) {
        SettlementCall::Action(hub, action) => {
            runtime.block_on(settlement::run(&options(hub)?, &action, output))
        }
        SettlementCall::Report(call, report) => {
            let hub = HubArguments { call, json: false, zone: ZoneArguments::default() };
            runtime.block_on(settlement::report(&options(hub)?, &report, output))
        }
        SettlementCall::Models(arguments) => models::list(arguments),
        SettlementCall::Reconcile(hub, reconcile) => {
            runtime.block_on(settlement::reconcile(&options(hub)?, &reconcile, output))
        }
    }
}

enum SettlementCall {
    Action(HubArguments, Action),
    Report(CallArguments, Report),
    Reconcile(HubArguments, Reconcile),
    Models(ModelsArguments),
}

fn options(HubArguments { call, json, zone }: HubArguments) -> Result<HubOptions, Failure> {
    let CallArguments { hub, wait } = call;
    let hub = hub.resolve()?;
    let admin_token = hub.token()?;
    let zone = zone.chosen();
    Ok(HubOptions { admin_url: hub.url, admin_tls: hub.tls, admin_token, wait, json, zone })
}

fn report_kind(kind: Kind, dfsp: Option<FspId>) -> ReportKind {
    match (kind, dfsp) {
        (Kind::Bilateral, _) => ReportKind::Bilateral,
        (Kind::Matrix, _) => ReportKind::Matrix,
        (Kind::Bank, _) => ReportKind::Bank,
        (Kind::Dfsp, Some(name)) => ReportKind::Dfsp(name),
        (Kind::Multilateral | Kind::Dfsp, _) => ReportKind::Multilateral,
    }
}

fn read(command: SettlementCommand) -> SettlementCall {
    let (hub, action) = match command {
        SettlementCommand::Show(ShowArguments { settlement, window, hub }) => {
            let settlement = settlement.map(Action::ShowSettlement);
            (hub, settlement.or(window.map(Action::ShowWindow)).unwrap_or(Action::Overview))
        }
        SettlementCommand::Close(CloseArguments { window, reason, hub }) => {
            (hub, Action::Close { window, reason })
        }
        SettlementCommand::Create(CreateArguments { model, windows, reason, hub }) => {
            (hub, Action::Create { model, windows, reason })
        }
        SettlementCommand::Advance(arguments) => {
            let AdvanceArguments { settlement, to, dfsp, reason, reference, hub } = arguments;
            (hub, Action::Advance { settlement, goal: to.map(Into::into), dfsp, reason, reference })
        }
        SettlementCommand::Abort(AbortArguments { settlement, reason, reference, hub }) => {
            (hub, Action::Abort { settlement, reason, reference })
        }
        SettlementCommand::Run(RunArguments { name, models, window, to, yes, hub }) => {
            let preview = Preview::Shown { is_confirmed: yes };
            (hub, Action::Run(Job { name, models, window, goal: to.into(), preview }))
        }
        SettlementCommand::Reconcile(arguments) => {
            let ReconcileArguments { settlement, file, apply, move_cover, lower_caps, raise_caps, hub } =
                arguments;
            let reconcile = Reconcile {
                settlement,
                file,
                applies: apply,
                moves_cover: move_cover,
                lowers_caps: lower_caps,
                raises_caps: raise_caps,
            };
            return SettlementCall::Reconcile(hub, reconcile);
        }
        SettlementCommand::Models(arguments) => return SettlementCall::Models(arguments),
        SettlementCommand::Report(ReportArguments { settlement, kind, dfsp, out, call }) => {
            return SettlementCall::Report(call, Report { settlement, kind: report_kind(kind, dfsp), out });
        }
    };
    SettlementCall::Action(hub, action)
}

//! `upesi lab`: load against a hub, measured and audited.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use upesi_lab::forwarder::{self, ForwarderError, Route};
use upesi_lab::{Baseline, LabError, Load, TargetHub, TransfersOptions};
use upesi_types::{Amount, Currency};

use super::behaviour::BehaviourArguments;
use super::run::write_out;
use super::values::{amount, currency, duration};
use crate::exit::{Exit, Failure, Outcome};
use crate::fill::{self, FillArguments};

/// Subcommands of `upesi lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario.
    #[command(subcommand)]
    Run(Scenario),
    /// Fill a data directory with finished transfers through the engine, without HTTP, to measure a hub with history.
    Fill(FillArguments),
    /// Forward messages between DFSPs without a ledger or a journal: the baseline that a run starts by itself.
    #[command(hide = true)]
    Forwarder(ForwarderArguments),
}

/// The scenarios.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// DFSPs pay each other, as fast as virtual users can or at a fixed rate.
    ///
    /// Starts what it needs (simulated DFSPs, a hub on a fresh data directory, baselines), or drives a hub that is running.
    /// Every run ends with an audit: the hub's positions are what the DFSPs' own books say, they sum to zero, what was
    /// accepted has one outcome. The table goes to stdout, progress to stderr; --out keeps result.json. Ends with 1 when
    /// the audit fails.
    Transfers(Box<TransfersArguments>),
}

/// A baseline on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BaselineArgument {
    /// The DFSPs call each other without anything between them.
    SimsOnly,
    /// A process that does the hub's four HTTP exchanges, parses the JSON, and nothing more.
    Forwarder,
}

/// Arguments of `upesi lab run transfers`.
#[derive(Args, Clone, Debug)]
pub struct TransfersArguments {
    /// How many DFSPs pay each other.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Closed loop: virtual users that each wait for their transfer's outcome before they send the next.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub vus: usize,
    /// Open loop instead: transfers per second, whether or not earlier ones are done.
    #[arg(long, value_name = "N", conflicts_with = "vus")]
    pub rate: Option<u32>,
    /// Open loop: transfers without outcome at a time at most.
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "rate")]
    pub outstanding_max: usize,
    /// Measured time, such as 20s or 5m.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    pub duration: Duration,
    /// Load before the measurement.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub warm_up: Duration,
    /// Into how many slices the time is cut; hub and baselines take turns.
    #[arg(long, value_name = "N")]
    pub slices: Option<usize>,
    /// Compare with this in the same run. May be repeated.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<BaselineArgument>,
    /// Directory for result.json, logs and the hub's data.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Drive a hub that is running, by its FSPIOP base URL.
    #[arg(long, value_name = "URL", requires = "admin")]
    pub target: Option<String>,
    /// That hub's admin API.
    #[arg(long, value_name = "URL", requires = "target")]
    pub admin: Option<String>,
    /// That hub's process id on this machine, to measure its CPU and memory.
    #[arg(long, value_name = "PID", requires = "target")]
    pub target_pid: Option<u32>,
    /// Whether that hub makes transfers durable before it answers.
    #[arg(long, value_name = "BOOL", requires = "target")]
    pub target_durable: Option<bool>,
    /// An argument for the hub that is started, such as --hub-argument=--set=engine.durable=false. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, conflicts_with = "target")]
    pub hub_argument: Vec<String>,
    /// What each transfer moves.
    #[arg(long, value_name = "AMOUNT", default_value = "2", value_parser = amount)]
    pub amount: Amount,
    /// In which currency.
    #[arg(long, value_name = "CODE", default_value = "XXX", value_parser = currency)]
    pub currency: Currency,
    /// The first DFSP pays the second in all transfers.
    #[arg(long)]
    pub unidirectional: bool,
    /// Send no W3C trace context.
    #[arg(long)]
    pub no_trace: bool,
    /// Decides who pays whom and which transfers the faults hit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Address that the simulators listen on; a hub on another machine must reach it.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub sim_address: IpAddr,
    /// How long a virtual user waits for an outcome.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub callback_timeout: Duration,
    /// How long the end of the run waits for what is in flight.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub quiesce_timeout: Duration,
    /// Time until a transfer expires at the hub.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub expiry: Duration,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// How the payees behave.
    #[command(flatten)]
    pub behaviour: BehaviourArguments,
}

impl TransfersArguments {
    /// As the lab wants them.
    pub fn options(&self) -> TransfersOptions {
        let target = self.target.clone().zip(self.admin.clone()).map(|(fspiop_url, admin_url)| TargetHub {
            fspiop_url,
            admin_url,
            pid: self.target_pid,
            durable: self.target_durable,
        });
        let load = match self.rate {
            None => Load::Closed { users: self.vus },
            Some(rate_per_s) => Load::Open { rate_per_s, outstanding_max: self.outstanding_max },
        };
        let baselines = self.baseline.iter().map(|baseline| match baseline {
            BaselineArgument::SimsOnly => Baseline::SimsOnly,
            BaselineArgument::Forwarder => Baseline::Forwarder,
        });
        TransfersOptions {
            dfsps: self.dfsps,
            load,
            duration: self.duration,
            warm_up: self.warm_up,
            slices: self.slices,
            seed: self.seed,
            amount: self.amount,
            currency: self.currency,
            unidirectional: self.unidirectional,
            behaviour: self.behaviour.settings(),
            trace: !self.no_trace,
            out: self.out.clone(),
            baselines: baselines.collect(),
            target,
            binary: None,
            hub_arguments: self.hub_argument.clone(),
            sim_address: self.sim_address,
            workers: self.workers,
            callback_timeout: self.callback_timeout,
            quiesce_timeout: self.quiesce_timeout,
            expiry: self.expiry,
            commit: option_env!("UPESI_COMMIT").map(str::to_owned),
        }
    }
}

/// Arguments of `upesi lab forwarder`.
#[derive(Args, Clone, Debug)]
pub struct ForwarderArguments {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Where a DFSP's messages go. May be repeated.
    #[arg(long = "route", value_name = "DFSP=URL", required = true)]
    pub routes: Vec<String>,
    /// Threads; by default one per core.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
}

/// Runs a subcommand.
pub fn run(command: LabCommand) -> Outcome {
    match command {
        LabCommand::Run(Scenario::Transfers(arguments)) => transfers(&arguments),
        LabCommand::Fill(arguments) => fill::run(&arguments),
        LabCommand::Forwarder(arguments) => forward(&arguments),
    }
}

fn transfers(arguments: &TransfersArguments) -> Outcome {
    let result = upesi_lab::run_transfers(&arguments.options())
        .map_err(|error| Failure::new(lab_exit(&error), error))?;
    write_out(&if arguments.json { result.to_json() } else { result.table() })?;
    if result.passed() {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, "the run did not pass: see the audit above"))
    }
}

fn lab_exit(error: &LabError) -> Exit {
    match error {
        LabError::Options(_) => Exit::Usage,
        LabError::Io { .. } => Exit::CannotCreate,
        LabError::Child(_) | LabError::Sim(_) | LabError::Admin(_) | LabError::Workers(_) => {
            Exit::Unavailable
        }
        LabError::Onboard(_) => Exit::Failure,
    }
}

fn forward(arguments: &ForwarderArguments) -> Outcome {
    let routes: Result<Vec<Route>, ForwarderError> =
        arguments.routes.iter().map(|route| route.parse()).collect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ended = routes
        .and_then(|routes| forwarder::run(arguments.listen, &routes, arguments.workers.unwrap_or(cores)));
    ended.map_err(|error| {
        let exit = match error {
            ForwarderError::Route(_) | ForwarderError::Url { .. } => Exit::Usage,
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error)
    })
}

//! `upesi lab`: load against a hub, measured and audited.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use upesi_lab::forwarder::{self, ForwarderError, Prefix, Route};
use upesi_lab::{Baseline, LabError, Load, PairChoice, RunOptions, Scenario, TargetHub};
use upesi_types::{Amount, Currency};

use super::behaviour::BehaviourArguments;
use super::lab_isolated::{self, IsolatedArguments};
use super::lab_record::{self, RecordArguments};
use super::run::write_out;
use super::values::{amount, currency, duration};
use crate::exit::{Exit, Failure, Outcome};
use crate::fill::{self, FillArguments};

/// Subcommands of `upesi lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario against a hub, measured and audited.
    ///
    /// Starts what it needs (simulated DFSPs, a hub on a fresh data directory, baselines), or drives a hub that is running,
    /// with --target and --admin. Every run ends with an audit: the hub's positions are what the DFSPs' own books say and
    /// sum to zero, every accepted transfer has one outcome, every accepted question one answer, the right one. The table
    /// goes to stdout, progress to stderr; --out keeps result.json. Ends with 1 when the audit fails.
    #[command(subcommand)]
    Run(ScenarioCommand),
    /// Fill a data directory with finished transfers through the engine, without HTTP, to measure a hub with history.
    Fill(FillArguments),
    /// Write a stream of requests to a file: those that a hub took, from its journal, or made-up ones.
    ///
    /// Isolated stages are fed with such a stream. Recorded prepares are made to expire in 2099, so that they can be replayed
    /// at any time; the file holds whatever personal data the requests held.
    Record(RecordArguments),
    /// Measure one stage of the hub alone: ledger, position, journal, archive, notification, prepare, fulfil.
    ///
    /// docs/lab/isolated.md tells what each measures and leaves out, and which keys it has.
    Isolated(IsolatedArguments),
    /// Load a hub and show where its CPU time and memory go: a flame graph and heap summaries.
    Profile(super::profile::ProfileArguments),
    /// Print results of runs as metrics, for the textfile collector of Prometheus' node_exporter.
    Metrics(super::lab_metrics::LabMetricsArguments),
    /// Forward messages between DFSPs without a ledger or a journal: the baseline that a run starts by itself.
    #[command(hide = true)]
    Forwarder(ForwarderArguments),
}

/// The scenarios.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// DFSPs pay each other: one POST /transfers, until its outcome is told.
    Transfers(Box<RunArguments>),
    /// DFSPs ask who has a mobile number: GET /parties, until the party is told.
    ///
    /// The DFSPs register their parties in the hub's directory first. The forwarder knows them by their prefix.
    Lookups(Box<RunArguments>),
    /// DFSPs ask for terms: POST /quotes, until the terms are told.
    Quotes(Box<RunArguments>),
    /// Whole payments from a mobile number: a lookup, a quote and the transfer that the quote allows.
    ///
    /// Each phase is timed apart, and the whole from end to end.
    Payments(Box<RunArguments>),
}

/// A baseline on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BaselineArgument {
    /// The DFSPs call each other without anything between them.
    SimsOnly,
    /// A process that does the hub's HTTP exchanges, parses the JSON, and nothing more.
    Forwarder,
}

/// Arguments of `upesi lab run`, the same for all scenarios.
#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// How many DFSPs deal with each other.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Lookups and payments: over how many parties of each DFSP lookups are spread.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub parties: u64,
    /// Lookups and payments: do not register the parties, the hub's directory has them already.
    #[arg(long)]
    pub registered: bool,
    /// Closed loop: virtual users that each do one thing to its end before they begin the next.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub vus: usize,
    /// Open loop instead: transfers, lookups, quotes or payments per second, whether or not earlier ones are done.
    #[arg(long, value_name = "N", conflicts_with = "vus")]
    pub rate: Option<u32>,
    /// Open loop: how many may be without outcome at a time.
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
    /// What each transfer moves, and each quote is about.
    #[arg(long, value_name = "AMOUNT", default_value = "2", value_parser = amount)]
    pub amount: Amount,
    /// In which currency.
    #[arg(long, value_name = "CODE", default_value = "XXX", value_parser = currency)]
    pub currency: Currency,
    /// The first DFSP always asks and pays the second.
    #[arg(long)]
    pub unidirectional: bool,
    /// Send no W3C trace context.
    #[arg(long)]
    pub no_trace: bool,
    /// Decides who deals with whom, about which party, and what the faults hit.
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
    /// Time until a transfer or a quote expires.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub expiry: Duration,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// How the payees behave.
    #[command(flatten)]
    pub behaviour: BehaviourArguments,
}

impl RunArguments {
    /// As the lab wants them.
    pub fn options(&self, scenario: Scenario) -> RunOptions {
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
        RunOptions {
            scenario,
            dfsps: self.dfsps,
            parties: self.parties,
            register: !self.registered,
            load,
            duration: self.duration,
            warm_up: self.warm_up,
            slices: self.slices,
            seed: self.seed,
            amount: self.amount,
            currency: self.currency,
            pairs: if self.unidirectional { PairChoice::Unidirectional } else { PairChoice::Uniform },
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
            ..RunOptions::default()
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
    /// How the identifiers of a DFSP's parties begin, to find the DFSP of a lookup. May be repeated.
    #[arg(long = "prefix", value_name = "DIGITS=DFSP")]
    pub prefixes: Vec<String>,
    /// Threads; by default one per core.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
}

/// Runs a subcommand.
pub fn run(command: LabCommand) -> Outcome {
    match command {
        LabCommand::Run(ScenarioCommand::Transfers(arguments)) => scenario(Scenario::Transfers, &arguments),
        LabCommand::Run(ScenarioCommand::Lookups(arguments)) => scenario(Scenario::Lookups, &arguments),
        LabCommand::Run(ScenarioCommand::Quotes(arguments)) => scenario(Scenario::Quotes, &arguments),
        LabCommand::Run(ScenarioCommand::Payments(arguments)) => scenario(Scenario::Payments, &arguments),
        LabCommand::Fill(arguments) => fill::run(&arguments),
        LabCommand::Record(arguments) => lab_record::run(&arguments),
        LabCommand::Isolated(arguments) => lab_isolated::run(&arguments),
        LabCommand::Profile(arguments) => super::profile::run(&arguments),
        LabCommand::Metrics(arguments) => super::lab_metrics::run(&arguments),
        LabCommand::Forwarder(arguments) => forward(&arguments),
    }
}

fn scenario(scenario: Scenario, arguments: &RunArguments) -> Outcome {
    let result = upesi_lab::run(&arguments.options(scenario))
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
        LabError::Isolated(error) => lab_isolated::isolated_exit(error),
    }
}

fn forward(arguments: &ForwarderArguments) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let parsed = || -> Result<(Vec<Route>, Vec<Prefix>), ForwarderError> {
        let routes = arguments.routes.iter().map(|route| route.parse()).collect::<Result<_, _>>()?;
        let prefixes = arguments.prefixes.iter().map(|prefix| prefix.parse()).collect::<Result<_, _>>()?;
        Ok((routes, prefixes))
    };
    let ended = parsed().and_then(|(routes, prefixes)| {
        forwarder::run(arguments.listen, &routes, &prefixes, arguments.workers.unwrap_or(cores))
    });
    ended.map_err(|error| {
        let exit = match error {
            ForwarderError::Route(_) | ForwarderError::Prefix(_) | ForwarderError::Url { .. } => Exit::Usage,
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error)
    })
}

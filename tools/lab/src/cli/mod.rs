//! `upesi lab`: load against a hub, measured and audited.

mod characterize;
mod isolated;
pub mod messages;
mod metrics;
mod profile;
mod profile_tables;
mod record;
mod results;
mod run;
mod suite;
mod target;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::drive::forwarder::{self, ForwarderError, ForwarderSecurity, Prefix, Route, UnusableFiles};
use crate::{Security, Signatures, Transport};
use clap::{Args, Subcommand};

use self::isolated::IsolatedArguments;
use self::record::RecordArguments;
use self::results::{CompareArguments, DescribeArguments, ListArguments, MergeArguments, ReportArguments};
use self::run::RunArguments;
pub(crate) use self::run::exit_of;
use self::suite::SuiteArguments;
use crate::fill::{self, FillArguments};
use crate::grow::{self, GrowArguments};
use upesi_http::available_cores;
use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_pki::Trial;

/// Subcommands of `upesi lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario, measured and audited: one that is built in, a file of your own, or just an operation.
    ///
    /// Starts what it needs (simulated DFSPs, a hub on a fresh data directory, baselines), or drives a hub that is
    /// running, with --target and --admin. Every run ends with an audit: the hub's positions are what the DFSPs' own
    /// books say and sum to zero, every accepted transfer has one outcome, every accepted question one answer, the
    /// right one. The table goes to stdout, progress to stderr; --out keeps result.json. Ends with 1 when the audit
    /// fails, a target is missed, a search finds no rate, or a soak did not hold its load or has figures that do not
    /// count.
    Run(Box<RunArguments>),
    /// List the scenarios and suites that are built in.
    List(ListArguments),
    /// Tell what a scenario does, with its file to copy.
    Describe(DescribeArguments),
    /// Run several scenarios one after the other, and write a report.
    ///
    /// With --target the runs are those that a hub which runs already can be asked; the others are left out and named,
    /// with the reason. Ends with 1 when a run gave no result, did not pass, or was skipped because a breakpoint was
    /// not found.
    Suite(SuiteArguments),
    /// Compare runs or suites with the first of them: what changed, and whether the difference is real.
    Compare(CompareArguments),
    /// Show results: a table, Markdown, or one HTML page.
    Report(ReportArguments),
    /// Add up what several load generators measured at the same hub at the same time.
    Merge(MergeArguments),
    /// Fill a data directory with finished transfers through the engine, without HTTP, to measure a hub with history.
    Fill(FillArguments),
    /// Grow a history of finished transfers and measure at each step what it costs: throughput, lookups, memory,
    /// restart, disk.
    ///
    /// Throughput is that of a hub with the history in turn with an empty one. At the end come backup, restore, export
    /// and removal, while the hub serves. Ends with 1 when an aim is missed.
    Grow(GrowArguments),
    /// Offer a hub many times the load that it takes, and see what becomes of goodput, latency, memory and refusals.
    ///
    /// Below the peak, at it, many times over it, and below it again; or, with --flood-from, many times the peak from
    /// one DFSP alone. Ends with 1 when a goal of docs/overload.md is missed.
    Overload(crate::overload::OverloadArguments),
    /// Write a stream of requests to a file: those that a hub took, from its journal, or made-up ones.
    ///
    /// Isolated stages are fed with such a stream. Recorded prepares are made to expire in 2099, so that they can be
    /// replayed at any time; the file holds whatever personal data the requests held.
    Record(RecordArguments),
    /// Measure one stage of the hub alone: ledger, position, journal, archive, notification, prepare, fulfil.
    ///
    /// docs/lab/isolated.md tells what each measures and leaves out, and which keys it has.
    Isolated(IsolatedArguments),
    /// Load a hub and show where its CPU time and memory go: a flame graph, the share of each stage, and heap
    /// summaries.
    ///
    /// Takes the same scenarios, files and flags as lab run, and looks at the hub while it is loaded. With --target and
    /// --admin it loads and looks at an Upesi hub that is running; with --admin alone it looks at one as loaded as it
    /// is.
    Profile(Box<profile::ProfileArguments>),
    /// Print results of runs as metrics, for the textfile collector of Prometheus' node_exporter.
    Metrics(metrics::LabMetricsArguments),
    /// Forward messages between DFSPs without a ledger or a journal: the baseline that a run starts by itself.
    #[command(hide = true)]
    Forwarder(ForwarderArguments),
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
    /// Keys, made by `upesi pki trial`.
    #[arg(long, value_name = "DIR")]
    pub trial: Option<PathBuf>,
    /// How it is called, and calls.
    #[arg(long, value_enum, value_name = "MODE", default_value = "plain")]
    #[arg(requires_ifs([("mutual", "trial"), ("mutual-http2", "trial")]))]
    pub tls: Transport,
    /// Whether it verifies signatures.
    #[arg(long, value_enum, value_name = "MODE", default_value = "off", requires_if("enforce", "trial"))]
    pub jws: Signatures,
}

/// Runs a subcommand.
pub fn run(command: LabCommand) -> Outcome {
    match command {
        LabCommand::Run(arguments) => run::run(&arguments),
        LabCommand::List(arguments) => results::list(&arguments),
        LabCommand::Describe(arguments) => results::describe(&arguments),
        LabCommand::Suite(arguments) => suite::run(&arguments),
        LabCommand::Compare(arguments) => results::compare(&arguments),
        LabCommand::Report(arguments) => results::report(&arguments),
        LabCommand::Merge(arguments) => results::merge(&arguments),
        LabCommand::Fill(arguments) => fill::run(&arguments),
        LabCommand::Grow(arguments) => grow::run(&arguments),
        LabCommand::Overload(arguments) => crate::overload::run(&arguments),
        LabCommand::Record(arguments) => record::run(&arguments),
        LabCommand::Isolated(arguments) => isolated::run(&arguments),
        LabCommand::Profile(arguments) => profile::run(&arguments),
        LabCommand::Metrics(arguments) => metrics::run(&arguments),
        LabCommand::Forwarder(arguments) => forward(&arguments),
    }
}

fn forward(arguments: &ForwarderArguments) -> Outcome {
    let parsed = || -> Result<(Vec<Route>, Vec<Prefix>, ForwarderSecurity), ForwarderError> {
        let routes = arguments.routes.iter().map(|route| route.parse()).collect::<Result<_, _>>()?;
        let prefixes = arguments.prefixes.iter().map(|prefix| prefix.parse()).collect::<Result<_, _>>()?;
        let security = match &arguments.trial {
            None => ForwarderSecurity::default(),
            Some(directory) => {
                let trial = Trial::open(directory).map_err(UnusableFiles::from)?;
                let security = Security { tls: arguments.tls, jws: arguments.jws, ..Security::default() };
                ForwarderSecurity::of_trial(&trial, security)?
            }
        };
        Ok((routes, prefixes, security))
    };
    let ended = parsed().and_then(|(routes, prefixes, security)| {
        forwarder::run(
            arguments.listen,
            &routes,
            &prefixes,
            arguments.workers.unwrap_or_else(available_cores),
            security,
        )
    });
    ended.map_err(|error| {
        let exit = match error {
            ForwarderError::Route(_) | ForwarderError::Prefix(_) | ForwarderError::Url { .. } => Exit::Usage,
            ForwarderError::Files(_) => Exit::NoInput,
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error)
    })
}

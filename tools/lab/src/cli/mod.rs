//! `upesi lab`: load tests of a hub, with measurement and audit.

mod isolated;
pub mod messages;
mod metrics;
mod profile;
mod results;
mod run;
mod suite;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use upesi_http::available_cores;
use upesi_pki::Trial;
use upesi_process::exit::{Exit, Failure, Outcome};
pub use upesi_process::values::{amount, currency};

use self::isolated::{IsolatedArguments, RecordArguments};
use self::results::{CompareArguments, DescribeArguments, ListArguments, MergeArguments, ReportArguments};
use self::run::RunArguments;
use self::suite::SuiteArguments;
use crate::day::{self, DayArguments};
use crate::drive::forwarder::{self, ForwarderError, ForwarderSecurity, Prefix, Route, UnusableFiles};
use crate::fill::{self, FillArguments};
use crate::grow::{self, GrowArguments};
use crate::{Security, Signatures, TargetHub, Transport};

/// Subcommands of `upesi lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a scenario with measurement and audit: a built-in scenario, a file of your own, or a single operation.
    ///
    /// Starts what it needs (simulated DFSPs, a hub on a fresh data directory, baselines), or drives a running hub with
    /// --target and --admin. Every run ends with an audit: the hub's positions equal the DFSPs' own books and sum to
    /// zero, every accepted transfer has one outcome, and every accepted request has one correct answer. The table goes
    /// to stdout, progress to stderr; --out writes result.json. Exits with code 1 if the audit fails, a target is
    /// missed, a search finds no rate, or a soak did not sustain its load or has invalid figures.
    Run(Box<RunArguments>),
    /// List the built-in scenarios and suites.
    List(ListArguments),
    /// Describe a scenario, and print its file as a template.
    Describe(DescribeArguments),
    /// Run several scenarios one after the other, and write a report.
    ///
    /// With --target, runs only the scenarios that can use a running hub; it names the others with the reason. Exits
    /// with code 1 if a run gave no result, did not pass, or was skipped because a breakpoint was not found.
    Suite(SuiteArguments),
    /// Compare runs or suites with the first of them: the differences, and whether they are significant.
    Compare(CompareArguments),
    /// Show results: a table, Markdown, or one HTML page.
    Report(ReportArguments),
    /// Add up the results of several load generators that drove the same hub at the same time.
    Merge(MergeArguments),
    /// Fill a data directory with finished transfers through the engine, without HTTP, to measure a hub with history.
    Fill(FillArguments),
    /// Grow a history of finished transfers, and measure its cost at each step: throughput, lookups, memory, restart,
    /// disk.
    ///
    /// Throughput is measured in turn on a hub with the history and on an empty one. At the end, the command runs
    /// backup, restore, export and removal while the hub serves. Exits with code 1 if a goal is missed.
    Grow(GrowArguments),
    /// Send a hub many times its maximum load, and measure goodput, latency, memory and rejections.
    ///
    /// The phases are: below the peak, at the peak, many times the peak, and below the peak again. With --flood-from,
    /// single DFSPs send many times the peak. Exits with code 1 if a goal of docs/overload.md is missed.
    Overload(crate::overload::OverloadArguments),
    /// Write a stream of requests to a file: requests from a hub's journal, or generated ones.
    ///
    /// Isolated stages use such a stream as input. Recorded prepares get an expiration in 2099, so that they can be
    /// replayed at any time. The file contains any personal data of the requests.
    Record(RecordArguments),
    /// Measure one stage of the hub alone: journal, notification, prepare, fulfil, admin; or the load generator.
    ///
    /// docs/lab/isolated.md describes what each stage measures and leaves out, and its keys.
    Isolated(IsolatedArguments),
    /// Load a hub and show its use of CPU time and memory: a flame graph, the share of each stage, and heap summaries.
    ///
    /// Accepts the same scenarios, files and flags as lab run, and profiles the hub under load. With --target and
    /// --admin, it loads and profiles a running Upesi hub. With --admin alone, it profiles a running hub without
    /// additional load.
    Profile(Box<profile::ProfileArguments>),
    /// Fill a hub with a realistic day of 8 DFSPs, to learn the console and the commands.
    ///
    /// Starts a hub and simulated DFSPs, and plays a day: payments in a daily curve, failures, a slow DFSP, a failing
    /// pair, FX and bulk transfers, funds, caps, approvals, settlements, parked callbacks. The seed determines all
    /// payments and their ids. The day is compressed: it takes less than a minute, and the hub records the real times.
    /// At the end, the hub's data is audited. Exits with code 1 if the hub does something else than the story of the
    /// day, and with 65 if the audit fails.
    Day(DayArguments),
    /// Print results of runs as metrics, for the textfile collector of Prometheus' node_exporter.
    Metrics(metrics::LabMetricsArguments),
    /// Forward messages between DFSPs without a ledger or a journal. A run starts this baseline by itself.
    #[command(hide = true)]
    Forwarder(ForwarderArguments),
}

/// Arguments of `upesi lab forwarder`.
#[derive(Args, Clone, Debug)]
pub struct ForwarderArguments {
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Destination of a DFSP's messages. May be repeated.
    #[arg(long = "route", value_name = "DFSP=URL", required = true)]
    pub routes: Vec<Route>,
    /// Prefix of the identifiers of a DFSP's parties, to find the DFSP of a lookup. May be repeated.
    #[arg(long = "prefix", value_name = "DIGITS=DFSP")]
    pub prefixes: Vec<Prefix>,
    /// Number of threads; by default one per core.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Directory of keys, created by `upesi pki trial`.
    #[arg(long, value_name = "DIR")]
    pub trial: Option<PathBuf>,
    /// Transport of incoming and outgoing connections.
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
        LabCommand::Record(arguments) => isolated::record(&arguments),
        LabCommand::Isolated(arguments) => isolated::run(&arguments),
        LabCommand::Profile(arguments) => profile::run(&arguments),
        LabCommand::Day(arguments) => day::run(&arguments),
        LabCommand::Metrics(arguments) => metrics::run(&arguments),
        LabCommand::Forwarder(arguments) => forward(&arguments),
    }
}

fn forward(arguments: &ForwarderArguments) -> Outcome {
    let security = || -> Result<ForwarderSecurity, UnusableFiles> {
        let Some(directory) = &arguments.trial else { return Ok(ForwarderSecurity::default()) };
        let security = Security { tls: arguments.tls, jws: arguments.jws, ..Security::default() };
        ForwarderSecurity::of_trial(&Trial::open(directory)?, security)
    };
    let workers = arguments.workers.unwrap_or_else(available_cores);
    let ended = security().map_err(ForwarderError::from).and_then(|security| {
        forwarder::run(arguments.listen, &arguments.routes, &arguments.prefixes, workers, security)
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

/// Parses `20s`, `500ms`, `5m` or `1h`.
///
/// Errors: states the form.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::plan::duration_of(text).ok_or_else(|| "write a number and a unit: 500ms, 20s, 5m or 1h".to_owned())
}

/// The running hub to drive, and the simulators' address.
#[derive(Args, Clone, Debug)]
pub struct TargetArguments {
    /// FSPIOP base URL of a running hub to drive. A hub on another machine also needs --sim-address.
    #[arg(long, value_name = "URL", requires = "admin")]
    pub target: Option<String>,
    /// Base URL of that hub's lookups (/parties, /participants), if it is different.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_lookups: Option<String>,
    /// Base URL of that hub's quotes (/quotes, /bulkQuotes, /fxQuotes), if it is different.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_quotes: Option<String>,
    /// Base URL of that hub's transfers (/transfers), if it is different.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_transfers: Option<String>,
    /// Base URL of that hub's admin API.
    #[arg(long, value_name = "URL", requires = "target")]
    pub admin: Option<String>,
    /// URL of that hub's metrics, or a base URL that serves them at /metrics [the admin API]. May be repeated: the
    /// values of several services are added up.
    #[arg(long, value_name = "URL", requires = "target")]
    pub metrics: Vec<String>,
    /// Process id of that hub on this machine, to measure its CPU time and memory. May be repeated: several processes
    /// are added up, and listed.
    #[arg(long, value_name = "PID", requires = "target")]
    pub target_pid: Vec<u32>,
    /// Whether that hub makes transfers durable before it answers.
    #[arg(long, value_name = "BOOL", requires = "target")]
    pub target_durable: Option<bool>,
    /// Address for the simulators' ports. A hub on another machine must be able to reach it.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub sim_address: IpAddr,
}

impl TargetArguments {
    /// The running hub that the flags describe; `None` without --target.
    pub fn hub(&self) -> Option<TargetHub> {
        let (fspiop_url, admin_url) = self.target.as_deref().zip(self.admin.as_deref())?;
        Some(TargetHub {
            lookups_url: self.target_lookups.clone(),
            quotes_url: self.target_quotes.clone(),
            transfers_url: self.target_transfers.clone(),
            metrics_urls: self.metrics.clone(),
            pids: self.target_pid.clone(),
            durable: self.target_durable,
            ..TargetHub::at(fspiop_url, admin_url)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::run::RunArguments;
    use super::suite::SuiteArguments;
    use super::*;

    #[test]
    fn duration_is_read_with_its_unit() {
        for (text, ms) in [("500ms", 500), ("20s", 20_000), ("5m", 300_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "20", "s", "1.5s", "-1s", "20 s", "20sec", "99999999999999999999s", "99999999999999999h"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[derive(Debug, clap::Parser)]
    enum Commands {
        Run(Box<RunArguments>),
        Suite(Box<SuiteArguments>),
    }

    fn parsed(line: &str) -> Result<Option<TargetHub>, clap::Error> {
        let commands = <Commands as clap::Parser>::try_parse_from(line.split_whitespace())?;
        Ok(match commands {
            Commands::Run(arguments) => arguments.target.hub(),
            Commands::Suite(arguments) => arguments.target.hub(),
        })
    }

    #[test]
    fn target_of_several_services_is_accepted_by_every_command() {
        let parts = "--target http://als:4002 --target-quotes http://quoting:3002 --target-transfers http://ml:3000 \
                     --admin http://ledger:3001 --metrics http://ml:3000 --metrics http://ledger:3001/metrics \
                     --target-pid 7 --target-pid 8 --target-durable false";
        let expected = TargetHub {
            quotes_url: Some("http://quoting:3002".to_owned()),
            transfers_url: Some("http://ml:3000".to_owned()),
            metrics_urls: vec!["http://ml:3000".to_owned(), "http://ledger:3001/metrics".to_owned()],
            pids: vec![7, 8],
            durable: Some(false),
            ..TargetHub::at("http://als:4002", "http://ledger:3001")
        };
        for command in ["run payments", "run payments --role load --instance 2", "suite architect"] {
            assert_eq!(parsed(&format!("lab {command} {parts}")).unwrap().as_ref(), Some(&expected));
        }
    }

    #[test]
    fn parts_of_a_target_require_the_target() {
        assert_eq!(parsed("lab run payments").unwrap(), None);
        for part in ["--metrics http://a", "--target-pid 7", "--target-lookups http://a", "--target http://a"]
        {
            assert!(parsed(&format!("lab run payments {part}")).is_err(), "{part}");
        }
    }
}

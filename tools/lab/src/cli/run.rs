//! `upesi lab run`: a scenario, with flags that override its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_settings::Sources;
use upesi_sim::DfspSettings;
use upesi_types::{Amount, Currency};

use super::{TargetArguments, amount, currency, duration, suite};
use crate::failures;
use crate::plan::{Point, ScenarioFile, Test, Work};
use crate::{
    Baseline, Group, Load, PairChoice, Role, RunContext, RunOptions, Scenario, Signatures, SuitePlan,
    SuitePoint, Transport,
};

/// Default limit on unanswered operations in an open loop.
const OUTSTANDING_USUAL: usize = 10_000;

/// Arguments of `upesi lab run`. Flags override the scenario; defaults are shown in brackets.
#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// transfers, lookups, quotes, payments, converted-transfers or bulks; or the name of a scenario (`upesi lab
    /// list`); or the path of a file.
    ///
    /// transfers: one POST /transfers until its outcome arrives. lookups: GET /parties until the party arrives; the
    /// DFSPs register their parties in the hub's directory first. quotes: POST /quotes until the terms arrive.
    /// payments: a lookup, a quote and the transfer that the quote allows; each phase is timed separately.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Number of DFSPs [8].
    #[arg(long, value_name = "N")]
    pub dfsps: Option<usize>,
    /// Lookups and payments: number of parties of each DFSP over which lookups are spread [2000].
    #[arg(long, value_name = "N")]
    pub parties: Option<u64>,
    /// Lookups and payments: do not register the parties, because the hub's directory already has them.
    #[arg(long)]
    pub registered: bool,
    /// Closed loop: number of virtual users; each completes an operation before it begins the next [32].
    #[arg(long, value_name = "N")]
    pub vus: Option<usize>,
    /// Open loop instead: operations per second, regardless of whether earlier ones are complete.
    #[arg(long, value_name = "N", conflicts_with = "vus")]
    pub rate: Option<u32>,
    /// Open loop: arrivals at random times (Poisson) instead of evenly spaced ones.
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Open loop: maximum number of unanswered operations [10000].
    #[arg(long, value_name = "N", requires = "rate")]
    pub outstanding_max: Option<usize>,
    /// Measured time, such as 20s or 5m [20s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Load before the measurement [2s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub warm_up: Option<Duration>,
    /// Load after the measurement [0s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub cool_down: Option<Duration>,
    /// Number of time slices; the hub and the baselines run alternately.
    #[arg(long, value_name = "N")]
    pub slices: Option<usize>,
    /// Baseline to compare with in the same run. May be repeated.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<Baseline>,
    /// Directory for result.json, logs and the hub's data.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// A running hub.
    #[command(flatten)]
    pub target: TargetArguments,
    /// Role of this process; `load` is one of several generators that drive the same hub.
    #[arg(long, value_enum, value_name = "ROLE", default_value = "whole", requires_if("load", "target"))]
    pub role: Role,
    /// Number of this load generator among several, from 1. Each has its own DFSP names and parties.
    #[arg(long, value_name = "N", requires = "target")]
    pub instance: Option<u32>,
    /// Prefix of the DFSPs' names [dfsp; with --instance N, dfspN].
    #[arg(long, value_name = "TEXT")]
    pub dfsp_prefix: Option<String>,
    /// Argument for the hub that is started, such as --hub-argument=--set=engine.durable=false. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, conflicts_with = "target")]
    pub hub_argument: Vec<String>,
    /// Amount of each transfer and quote [2].
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub amount: Option<Amount>,
    /// Currency of transfers and quotes [XXX].
    #[arg(long, value_name = "CODE", value_parser = currency)]
    pub currency: Option<Currency>,
    /// All payments go from the first DFSP to the second.
    #[arg(long)]
    pub unidirectional: bool,
    /// Send no W3C trace context.
    #[arg(long)]
    pub no_trace: bool,
    /// Seed of the choice of DFSPs and parties, of random arrivals, and of faults [1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Number of threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Time limit of a virtual user for an outcome [30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub callback_timeout: Option<Duration>,
    /// Time limit at the end of the run for operations in flight [30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub quiesce_timeout: Option<Duration>,
    /// Time until a transfer or a quote expires [60s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub expiry: Option<Duration>,
    /// Transport of connections between hub, DFSPs and baselines [plain].
    #[arg(long, value_enum, value_name = "MODE")]
    pub tls: Option<Transport>,
    /// Whether DFSPs, hub and forwarder sign and verify messages [off].
    #[arg(long, value_enum, value_name = "MODE")]
    pub jws: Option<Signatures>,
    /// Number of transfers whose signatures the DFSPs create before the load, for the hub and for each baseline [0].
    ///
    /// Later transfers are signed when they are sent, which takes longer than all work of a hub on a transfer.
    #[arg(long, value_name = "N")]
    pub sign_ahead: Option<u64>,
    /// Directory of the keys of a running hub, created by `upesi pki trial`; with --target, --tls and --jws.
    #[arg(long, value_name = "DIR", requires = "target")]
    pub trial: Option<PathBuf>,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Behaviour of the payees. Given flags replace the scenario's behaviour.
    #[command(flatten)]
    pub behaviour: DfspSettings,
}

fn replace<T: Clone>(place: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        place.clone_from(given);
    }
}

impl RunArguments {
    /// Overrides settings of a scenario with the given flags.
    fn apply(&self, options: &mut RunOptions) {
        replace(&mut options.dfsps, self.dfsps.as_ref());
        replace(&mut options.parties, self.parties.as_ref());
        options.register &= !self.registered;
        self.apply_load(options);
        replace(&mut options.duration, self.duration.as_ref());
        replace(&mut options.warm_up, self.warm_up.as_ref());
        replace(&mut options.cool_down, self.cool_down.as_ref());
        options.slices = self.slices.or(options.slices);
        if !self.baseline.is_empty() {
            options.baselines.clone_from(&self.baseline);
        }
        options.target = self.target.hub();
        if self.role == Role::Load {
            options.role = Role::Load;
        }
        if let Some(instance) = self.instance {
            options.instance = Some(instance);
            options.dfsp_prefix = format!("dfsp{instance}");
        }
        replace(&mut options.dfsp_prefix, self.dfsp_prefix.as_ref());
        options.hub_arguments.extend_from_slice(&self.hub_argument);
        replace(&mut options.amount, self.amount.as_ref());
        replace(&mut options.currency, self.currency.as_ref());
        if self.unidirectional {
            options.pairs = PairChoice::Unidirectional;
        }
        options.trace &= !self.no_trace;
        replace(&mut options.seed, self.seed.as_ref());
        options.workers = self.workers.or(options.workers);
        options.sim_address = self.target.sim_address;
        replace(&mut options.callback_timeout, self.callback_timeout.as_ref());
        replace(&mut options.quiesce_timeout, self.quiesce_timeout.as_ref());
        replace(&mut options.expiry, self.expiry.as_ref());
        replace(&mut options.security.tls, self.tls.as_ref());
        replace(&mut options.security.jws, self.jws.as_ref());
        replace(&mut options.security.sign_ahead, self.sign_ahead.as_ref());
        options.trial.clone_from(&self.trial);
        if self.behaviour != DfspSettings::usual() || options.behaviour == DfspSettings::default() {
            options.behaviour = self.behaviour;
        }
    }

    fn apply_load(&self, options: &mut RunOptions) {
        if let Some(users) = self.vus {
            options.load = Load::Closed { users };
        }
        if let Some(rate_per_s) = self.rate {
            options.percent_of_breakpoint = None;
            let is_poisson = matches!(options.load, Load::Arrivals { poisson: true, .. });
            let outstanding_max = self.outstanding_max.unwrap_or(OUTSTANDING_USUAL);
            options.load = if self.poisson || is_poisson {
                Load::Arrivals { start_per_s: rate_per_s, stages: Vec::new(), poisson: true, outstanding_max }
            } else {
                Load::Open { rate_per_s, outstanding_max }
            };
        }
    }

    /// Overrides settings of one point of a scenario with the given flags.
    fn apply_to(&self, point: &mut Point) -> Result<(), Failure> {
        let usage = |text: &str| Err(failures::usage(text));
        match &mut point.work {
            Work::EndToEnd { options, test } => {
                self.apply(options);
                let is_hub_ready = options.hub_arguments.is_empty() && options.existing_transfers == 0;
                if options.target.is_some() && !is_hub_ready {
                    return usage(
                        "this scenario configures the hub that it starts, so it cannot use a running hub (--target)",
                    );
                }
                if matches!(test, Test::Breakpoint(_)) && self.vus.is_some() {
                    return usage("a breakpoint search varies the rate; --vus has no effect on it");
                }
                check_settings(&options.hub_arguments)?;
                options.validate().map_err(failures::usage)
            }
            Work::Isolated { hub_arguments, seed, .. } => {
                let is_loaded = self.vus.is_some() || self.rate.is_some() || self.duration.is_some();
                if is_loaded || self.target.target.is_some() || self.dfsps.is_some() {
                    return usage(
                        "an isolated stage is configured by its file: --target, --vus, --rate, --duration and --dfsps have no effect on it",
                    );
                }
                hub_arguments.extend_from_slice(&self.hub_argument);
                replace(seed, self.seed.as_ref());
                check_settings(hub_arguments)
            }
        }
    }
}

pub fn commit() -> Option<String> {
    upesi_process::version::commit().map(str::to_owned)
}

/// Reports settings that the hub would reject before the hub is started.
fn check_settings(arguments: &[String]) -> Result<(), Failure> {
    let setting = |argument: &String| {
        let (key, value) = argument.strip_prefix("--set=")?.split_once('=')?;
        Some((argument.clone(), key.to_owned(), value.to_owned()))
    };
    let flags = arguments.iter().filter_map(setting).collect();
    let sources = Sources { file: None, environment: Vec::new(), flags };
    upesi_settings::load(&sources)
        .map(drop)
        .map_err(|mistakes| failures::usage(upesi_settings::describe(&mistakes)))
}

/// The requested runs with the flags applied: the points of a scenario, or a single operation.
pub fn plan(arguments: &RunArguments) -> Result<SuitePlan, Failure> {
    let mut plan = match Scenario::ALL.into_iter().find(|known| known.name() == arguments.scenario) {
        Some(scenario) => {
            let options = Box::new(RunOptions { scenario, ..RunOptions::default() });
            let work = Work::EndToEnd { options, test: Test::Average };
            let point = Point { parameters: BTreeMap::new(), work };
            let (scenario, title, description) = (scenario.name().to_owned(), String::new(), String::new());
            SuitePlan {
                repetitions: 1,
                points: vec![SuitePoint { scenario, title, description, point }],
                groups: vec![Group { points: 0..1, repetitions: 1, is_against_first: false }],
                ..SuitePlan::default()
            }
        }
        None => SuitePlan::of_scenario(&ScenarioFile::named(&arguments.scenario)?),
    };
    for point in &mut plan.points {
        arguments.apply_to(&mut point.point)?;
    }
    Ok(plan)
}

/// Runs the scenario, and prints the results. Fails with 1 if a run did not pass.
pub fn run(arguments: &RunArguments) -> Outcome {
    let plan = plan(arguments)?;
    if plan.runs() > 1 {
        let out = arguments.out.clone().unwrap_or_else(|| Path::new("out/lab").join(&plan.name));
        return suite::run_plan(&plan, &out, arguments.json);
    }
    let Some(SuitePoint { scenario, title, description, point }) = plan.points.into_iter().next() else {
        return Ok(());
    };
    let surroundings = RunContext {
        name: scenario,
        title,
        description,
        parameters: point.parameters,
        out: arguments.out.clone(),
        recordings: None,
        commit: commit(),
    };
    show(&crate::suite::execute::execute(&point.work, &surroundings)?, arguments.json)
}

fn show(result: &crate::LabResult, as_json: bool) -> Outcome {
    write_out(&if as_json { result.to_json() } else { result.table() })?;
    let failings = result.failings();
    if failings.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, format!("the run did not pass: {}", failings.join("\n"))))
    }
}

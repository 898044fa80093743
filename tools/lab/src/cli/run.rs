//! `upesi lab run`: a scenario, with flags that override its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use upesi_hub::config::{self, Sources};
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_sim::DfspSettings;
use upesi_types::{Amount, Currency};

use super::{TargetArguments, amount, currency, duration, failures, suite};
use crate::plan::{Point, ScenarioFile, Test, Work};
use crate::{
    Baseline, Group, Load, PairChoice, Role, RunOptions, Scenario, Signatures, SuitePlan, SuitePoint,
    Surroundings, Transport,
};

/// Most operations without outcome in an open loop, where nobody says.
const OUTSTANDING_USUAL: usize = 10_000;

/// Arguments of `upesi lab run`. What is not given comes from the scenario, and else is what is said in brackets.
#[derive(Args, Clone, Debug)]
pub struct RunArguments {
    /// transfers, lookups, quotes, payments, converted-transfers or bulks; or the name of a scenario (`upesi lab
    /// list`); or the path of a file.
    ///
    /// transfers: one POST /transfers, until its outcome is told. lookups: GET /parties, until the party is told; the
    /// DFSPs register their parties in the hub's directory first. quotes: POST /quotes, until the terms are told.
    /// payments: a lookup, a quote and the transfer that the quote allows, each phase timed apart.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// How many DFSPs deal with each other [8].
    #[arg(long, value_name = "N")]
    pub dfsps: Option<usize>,
    /// Lookups and payments: over how many parties of each DFSP lookups are spread [2000].
    #[arg(long, value_name = "N")]
    pub parties: Option<u64>,
    /// Lookups and payments: do not register the parties, the hub's directory has them already.
    #[arg(long)]
    pub registered: bool,
    /// Closed loop: virtual users that each do one thing to its end before they begin the next [32].
    #[arg(long, value_name = "N")]
    pub vus: Option<usize>,
    /// Open loop instead: operations per second, whether or not earlier ones are done.
    #[arg(long, value_name = "N", conflicts_with = "vus")]
    pub rate: Option<u32>,
    /// Open loop: arrivals at random moments (Poisson) instead of evenly spaced ones.
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Open loop: how many may be without outcome at a time [10000].
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
    /// Into how many slices the time is cut; hub and baselines take turns.
    #[arg(long, value_name = "N")]
    pub slices: Option<usize>,
    /// Compare with this in the same run. May be repeated.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub baseline: Vec<Baseline>,
    /// Directory for result.json, logs and the hub's data.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// A hub that runs already.
    #[command(flatten)]
    pub target: TargetArguments,
    /// What of the load this process is: `load` is one of several generators that drive the same hub.
    #[arg(long, value_enum, value_name = "ROLE", default_value = "whole", requires_if("load", "target"))]
    pub role: Role,
    /// Which of several generators this is, from 1: names and parties of its DFSPs are its own.
    #[arg(long, value_name = "N", requires = "target")]
    pub instance: Option<u32>,
    /// How the names of the DFSPs begin [dfsp; with --instance N, dfspN].
    #[arg(long, value_name = "TEXT")]
    pub dfsp_prefix: Option<String>,
    /// An argument for the hub that is started, such as --hub-argument=--set=engine.durable=false. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true, conflicts_with = "target")]
    pub hub_argument: Vec<String>,
    /// What each transfer moves, and each quote is about [2].
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub amount: Option<Amount>,
    /// In which currency [XXX].
    #[arg(long, value_name = "CODE", value_parser = currency)]
    pub currency: Option<Currency>,
    /// The first DFSP always asks and pays the second.
    #[arg(long)]
    pub unidirectional: bool,
    /// Send no W3C trace context.
    #[arg(long)]
    pub no_trace: bool,
    /// Decides who deals with whom, about which party, when random arrivals come, and what the faults hit [1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How long a virtual user waits for an outcome [30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub callback_timeout: Option<Duration>,
    /// How long the end of the run waits for what is in flight [30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub quiesce_timeout: Option<Duration>,
    /// Time until a transfer or a quote expires [60s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub expiry: Option<Duration>,
    /// How hub, DFSPs and baselines connect [plain].
    #[arg(long, value_enum, value_name = "MODE")]
    pub tls: Option<Transport>,
    /// Whether messages are signed and verified, by the DFSPs, the hub and the forwarder [off].
    #[arg(long, value_enum, value_name = "MODE")]
    pub jws: Option<Signatures>,
    /// Transfers whose signatures the DFSPs make before the load, for the hub and for each baseline [0].
    ///
    /// Those after them are signed as they leave, which takes longer than all that a hub does about a transfer.
    #[arg(long, value_name = "N")]
    pub sign_ahead: Option<u64>,
    /// The keys of a hub that runs already, made by `upesi pki trial`; with --target, --tls and --jws.
    #[arg(long, value_name = "DIR", requires = "target")]
    pub trial: Option<PathBuf>,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// How the payees behave; given flags replace the scenario's behaviour.
    #[command(flatten)]
    pub behaviour: DfspSettings,
}

fn replace<T: Clone>(place: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        place.clone_from(given);
    }
}

impl RunArguments {
    /// Puts what was given over what a scenario says.
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

    /// Puts what was given over one point of a scenario.
    fn apply_to(&self, point: &mut Point) -> Result<(), Failure> {
        let usage = |text: &str| Err(failures::usage(text));
        match &mut point.work {
            Work::EndToEnd { options, test } => {
                self.apply(options);
                let is_hub_ready = options.hub_arguments.is_empty() && options.existing_transfers == 0;
                if options.target.is_some() && !is_hub_ready {
                    return usage(
                        "this scenario sets up the hub that it starts; a running one, by --target, is as it is",
                    );
                }
                if matches!(test, Test::Breakpoint(_)) && self.vus.is_some() {
                    return usage("a breakpoint is searched among rates; --vus says nothing to it");
                }
                check_settings(&options.hub_arguments)?;
                options.validate().map_err(failures::usage)
            }
            Work::Isolated { hub_arguments, seed, .. } => {
                let is_loaded = self.vus.is_some() || self.rate.is_some() || self.duration.is_some();
                if is_loaded || self.target.target.is_some() || self.dfsps.is_some() {
                    return usage(
                        "an isolated stage is set up by its file: --target, --vus, --rate, --duration and --dfsps say nothing to it",
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
    upesi_hub::process::commit().map(str::to_owned)
}

/// Settings that the hub would refuse are better refused before it is started.
fn check_settings(arguments: &[String]) -> Result<(), Failure> {
    let setting = |argument: &String| {
        let (key, value) = argument.strip_prefix("--set=")?.split_once('=')?;
        Some((argument.clone(), key.to_owned(), value.to_owned()))
    };
    let flags = arguments.iter().filter_map(setting).collect();
    let sources = Sources { file: None, environment: Vec::new(), flags };
    config::load(&sources).map(drop).map_err(|mistakes| failures::usage(config::describe(&mistakes)))
}

/// What was asked for, with the flags put over it: the points of a scenario, or just an operation.
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

pub fn run(arguments: &RunArguments) -> Outcome {
    let plan = plan(arguments)?;
    if plan.runs() > 1 {
        let out = arguments.out.clone().unwrap_or_else(|| Path::new("out/lab").join(&plan.name));
        return suite::run_plan(&plan, &out, arguments.json);
    }
    let Some(SuitePoint { scenario, title, description, point }) = plan.points.into_iter().next() else {
        return Ok(());
    };
    let surroundings = Surroundings {
        name: scenario,
        title,
        description,
        parameters: point.parameters,
        out: arguments.out.clone(),
        recordings: None,
        commit: commit(),
    };
    show(&crate::drive::execute::execute(&point.work, &surroundings)?, arguments.json)
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

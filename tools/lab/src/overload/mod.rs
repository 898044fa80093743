//! `upesi lab overload`: what a hub does with many times the load that it takes.
//!
//! After a time to warm up, four phases: below the peak, at the peak, many times the peak, below the peak again.
//! Transfers arrive in open loop from all DFSPs alike, and beside them a few connections ask and ask to see how fast a
//! refusal comes. Or, with `--flood-from`, it is one of them that asks for many times the peak, while the others go on
//! as before.

mod fairness;
mod figures;
mod objectives;
mod prober;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use upesi_hub::exit::{Exit, Failure, Outcome};

use crate::result::evidence::{Evidence, Provenance, Subject};
use crate::{HubProcess, LabResult, Load, RunOptions, Stage, TargetHub};
use figures::Times;
use objectives::{Conditions, Measured, OverloadReport};
use prober::Prober;
use report::RunReport;

/// The load changes within this.
const STEP: Duration = Duration::from_millis(1);
const PHASES: u32 = 4;
/// Transfers at the peak before the first phase counts: more than wait in memory for the archive, so that the hub has
/// taken all the memory that the peak costs it.
const WARM_UP_TRANSFERS: u64 = 70_000;
const WARM_UP_S_MIN: u64 = 3;
/// Where it is not memory that is looked at.
const WARM_UP_S_FLOOD: u64 = 10;
/// Transfers without outcome at a time; more are not sent.
const OUTSTANDING_MAX: usize = 10_000;
const DFSP_PREFIX: &str = "overload";
const SUBJECT: Subject = Subject {
    name: "overload",
    what: "many times the load that a hub takes, from all DFSPs alike and from one of them",
    command: "make overload",
};

/// Arguments of `upesi lab overload`.
#[derive(Args, Clone, Debug)]
pub struct OverloadArguments {
    /// The most transfers per second that the hub is to take.
    ///
    /// The hub is started with admission.rate_max at this. A hub that shares two cores with its load generator cannot
    /// be offered ten times what it could do, but it can be offered ten times what it is set to do: the refusals are
    /// the same.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub peak: u32,
    /// Do not set admission.rate_max: --peak is what this machine reaches, as measured before.
    #[arg(long)]
    pub unbounded: bool,
    /// How many times the peak is offered under overload.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub factor: u32,
    /// So many DFSPs, of --dfsps, offer it alone, while the others keep to their share of --normal; then it is the
    /// others who are looked at, in three phases: before, flood, after.
    #[arg(long, value_name = "N")]
    pub flood_from: Option<usize>,
    /// Load of the first and the last phase, in hundredths of the peak.
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    pub normal: u32,
    /// Length of each phase, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub phase: u64,
    /// Load at the peak before the first phase, in seconds; by default 70,000 transfers, so that memory is what it will
    /// be, and ten seconds with --flood-from.
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: Option<u64>,
    /// How often all of it is done, each time with a new hub; medians count.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// How many DFSPs.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Connections of the DFSPs to the hub, all together. Each costs the hub about 20 KiB, whatever comes through it.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=8_192))]
    pub connections: u32,
    /// Decides who pays whom.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// An argument for the hub, such as --hub-argument=--set=admission.refusal_hold_ms=0. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub hub_argument: Vec<String>,
    /// Directory for overload.json and, of each run, result.json, the hub's log and its data.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Directory of the evidence to which the runs are added, such as docs/evidence.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print overload.json to stdout instead of the tables.
    #[arg(long)]
    pub json: bool,
}

impl OverloadArguments {
    fn phase_length(&self) -> Duration {
        Duration::from_secs(self.phase.max(4))
    }

    fn warm_up_length(&self) -> Duration {
        let usual = match self.flood_from {
            Some(_) => WARM_UP_S_FLOOD,
            None => WARM_UP_TRANSFERS.div_ceil(u64::from(self.peak.max(1))),
        };
        Duration::from_secs(self.warm_up.unwrap_or(usual).max(WARM_UP_S_MIN))
    }

    fn normal_per_s(&self) -> u32 {
        u32::try_from(u64::from(self.peak) * u64::from(self.normal) / 100).unwrap_or(u32::MAX).max(1)
    }

    fn load(&self) -> Load {
        let (normal, flood) = (self.normal_per_s(), self.peak.saturating_mul(self.factor));
        let stage = |level, length| Stage { level, length };
        let mut stages = vec![stage(self.peak, self.warm_up_length())];
        for level in [normal, self.peak, flood, normal] {
            stages.extend([stage(level, STEP), stage(level, self.phase_length() - STEP)]);
        }
        Load::Arrivals { start_per_s: self.peak, stages, poisson: false, outstanding_max: OUTSTANDING_MAX }
    }

    fn validate(&self) -> Outcome {
        match self.flood_from {
            Some(flooders) if flooders == 0 || flooders + 2 > self.dfsps => {
                let text = "--flood-from must be at least 1, and leave two of --dfsps to be looked at";
                Err(Failure::new(Exit::Usage, text))
            }
            _ => Ok(()),
        }
    }

    fn hub_arguments(&self) -> Vec<String> {
        let mut arguments = self.hub_argument.clone();
        if !self.unbounded {
            arguments.push(format!("--set=admission.rate_max={}", self.peak));
        }
        arguments
    }
}

/// Runs the phases as often as asked for. Ends with 1 when a goal was missed.
pub fn run(arguments: &OverloadArguments) -> Outcome {
    arguments.validate()?;
    match arguments.flood_from {
        None => repeat(arguments, measure),
        Some(_) => repeat(arguments, fairness::measure),
    }
}

fn repeat<R: Measured>(
    arguments: &OverloadArguments,
    measure: fn(&OverloadArguments, &Path) -> Result<R, Failure>,
) -> Outcome {
    let started = Instant::now();
    let mut runs = Vec::new();
    for number in 1..=arguments.runs {
        let out = match arguments.runs {
            1 => arguments.out.clone(),
            _ => arguments.out.join(format!("run-{number}")),
        };
        if arguments.runs > 1 {
            eprintln!("run {number} of {}", arguments.runs);
        }
        runs.push(measure(arguments, &out)?);
    }
    let report = OverloadReport::of(runs, Conditions::of(arguments), Provenance::now(started.elapsed()));
    let software = |error: serde_json::Error| Failure::new(Exit::Software, error);
    let json = serde_json::to_string_pretty(&report).map_err(software)?;
    let write = |error| Failure::new(Exit::InputOutput, format!("cannot write into --out: {error}"));
    std::fs::write(arguments.out.join("overload.json"), &json).map_err(write)?;
    if let Some(directory) = &arguments.report {
        Evidence::add(directory, &SUBJECT, report.evidence().map_err(software)?)?;
    }
    upesi_hub::exit::write_out(&if arguments.json { format!("{json}\n") } else { report.table() })?;
    let missed = report.missed();
    if missed.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, missed.join("\n"))) }
}

/// A hub that is measured, on a data directory of its own.
struct Tried {
    hub: HubProcess,
    data: PathBuf,
}

impl Tried {
    fn start(arguments: &OverloadArguments, out: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Unavailable, error);
        std::fs::create_dir_all(out)
            .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", out.display())))?;
        let (data, log) = (out.join("hub-data"), out.join("hub.log"));
        if data.exists() {
            let text = format!("{} is there already: a hub with a past is not measured", data.display());
            return Err(Failure::new(Exit::CannotCreate, text));
        }
        let binary = std::env::current_exe().map_err(|error| failed(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let hub_arguments = arguments.hub_arguments();
        let hub = HubProcess::start(&binary, &data, &hub_arguments, Some(&log));
        let hub = runtime.block_on(hub).map_err(|error| failed(&error))?;
        Ok(Self { hub, data })
    }

    /// What all loads on it have in common.
    fn options(&self, arguments: &OverloadArguments) -> RunOptions {
        RunOptions {
            warm_up: arguments.warm_up_length(),
            seed: arguments.seed,
            connections_max: usize::try_from(arguments.connections).ok(),
            workers: arguments.workers,
            target: Some(TargetHub {
                pids: vec![self.hub.pid()],
                durable: Some(true),
                ..TargetHub::at(self.hub.fspiop_url(), self.hub.admin_url())
            }),
            commit: upesi_hub::process::commit().map(str::to_owned),
            ..RunOptions::default()
        }
    }

    /// Nobody needs the data of a good run; that of a bad one is evidence.
    fn tidy(&self, is_good: bool) {
        if is_good {
            let _ = std::fs::remove_dir_all(&self.data);
        }
    }
}

fn measure(arguments: &OverloadArguments, out: &Path) -> Result<RunReport, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Unavailable, error);
    let mut tried = Tried::start(arguments, out)?;
    let prober = Prober::start(&tried.hub.fspiop_url(), &format!("{DFSP_PREFIX}-1"), arguments.peak);
    let prober = prober.map_err(|error| failed(&error))?;
    let result = crate::drive::run::run(&RunOptions {
        dfsps: arguments.dfsps,
        load: arguments.load(),
        duration: arguments.phase_length() * PHASES,
        dfsp_prefix: DFSP_PREFIX.to_owned(),
        out: Some(out.to_owned()),
        ..tried.options(arguments)
    });
    let probes = prober.finish();
    tried.hub.end();
    let result: LabResult = result.map_err(|error| Failure::new(crate::cli::exit_of(&error), error))?;
    let times = Times { warm_up: arguments.warm_up_length(), phase: arguments.phase_length() };
    let report = RunReport::of(&result, &probes, arguments.peak, times);
    tried.tidy(report.audit_ok);
    Ok(report)
}

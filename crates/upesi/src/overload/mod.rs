//! `upesi lab overload`: what a hub does with many times the load that it takes.
//!
//! Three phases in one run: below the peak, many times the peak, below the peak again. Transfers arrive in open loop from
//! all DFSPs alike, and beside them a few connections ask and ask to see how fast a refusal comes.

mod prober;
mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use upesi_lab::{HubProcess, LabResult, Load, RunOptions, Stage, TargetHub};

pub use report::{OverloadReport, PhaseReport};

use crate::exit::{Exit, Failure, Outcome};
use prober::Prober;

/// The load changes within this.
const STEP: Duration = Duration::from_millis(1);
/// Load before the first phase counts.
const WARM_UP: Duration = Duration::from_secs(3);
/// Transfers without outcome at a time; more are not sent.
const OUTSTANDING_MAX: usize = 10_000;
/// How the DFSPs are called.
const DFSP_PREFIX: &str = "overload";

/// Arguments of `upesi lab overload`.
#[derive(Args, Clone, Debug)]
pub struct OverloadArguments {
    /// The most transfers per second that the hub is to take.
    ///
    /// The hub is started with admission.rate_max at this. A hub that shares two cores with its load generator cannot be
    /// offered ten times what it could do, but it can be offered ten times what it is set to do: the refusals are the same.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub peak: u32,
    /// Do not set admission.rate_max: --peak is what this machine reaches, as measured before.
    #[arg(long)]
    pub unbounded: bool,
    /// How many times the peak is offered in the second phase.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub factor: u32,
    /// Load of the first and the last phase, in hundredths of the peak.
    #[arg(long, value_name = "PERCENT", default_value_t = 80)]
    pub normal: u32,
    /// Length of each phase, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub phase: u64,
    /// How many DFSPs.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Threads of simulators and load; by default one per core, at most four.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// An argument for the hub, such as --hub-argument=--set=admission.refusal_hold_ms=0. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub hub_argument: Vec<String>,
    /// Directory for result.json of the run, overload.json, the hub's log and its data.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Print overload.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

impl OverloadArguments {
    fn phase_length(&self) -> Duration {
        Duration::from_secs(self.phase.max(4))
    }

    fn normal_per_s(&self) -> u32 {
        u32::try_from(u64::from(self.peak) * u64::from(self.normal) / 100).unwrap_or(u32::MAX).max(1)
    }

    fn load(&self) -> Load {
        let (normal, flood) = (self.normal_per_s(), self.peak.saturating_mul(self.factor));
        let stage = |level, length| Stage { level, length };
        let length = self.phase_length();
        Load::Arrivals {
            start_per_s: normal,
            // The time to warm up is part of the load's.
            stages: vec![
                stage(normal, WARM_UP + length),
                stage(flood, STEP),
                stage(flood, length),
                stage(normal, STEP),
                stage(normal, length),
            ],
            poisson: false,
            outstanding_max: OUTSTANDING_MAX,
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

/// Runs the three phases. Ends with 1 when a goal was missed.
pub fn run(arguments: &OverloadArguments) -> Outcome {
    let report = measure(arguments)?;
    let json = serde_json::to_string_pretty(&report).map_err(|error| Failure::new(Exit::Software, error))?;
    let write = |error| Failure::new(Exit::InputOutput, format!("cannot write into --out: {error}"));
    std::fs::write(arguments.out.join("overload.json"), &json).map_err(write)?;
    crate::cli::write_out(&if arguments.json { format!("{json}\n") } else { report.table() })?;
    let missed = report.missed();
    if missed.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, missed.join("\n"))) }
}

fn measure(arguments: &OverloadArguments) -> Result<OverloadReport, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Unavailable, error);
    std::fs::create_dir_all(&arguments.out)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", arguments.out.display())))?;
    let binary = std::env::current_exe().map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let (data, log) = (arguments.out.join("hub-data"), arguments.out.join("hub.log"));
    let hub_arguments = arguments.hub_arguments();
    let hub = HubProcess::start(&binary, &data, &hub_arguments, Some(&log));
    let mut hub = runtime.block_on(hub).map_err(|error| failed(&error))?;
    let prober = Prober::start(&hub.fspiop_url(), &format!("{DFSP_PREFIX}-1"), arguments.peak);
    let prober = prober.map_err(|error| failed(&error))?;
    let result = upesi_lab::run(&options(arguments, &hub));
    let probes = prober.finish();
    hub.end();
    let result: LabResult = result.map_err(|error| Failure::new(crate::cli::lab_exit(&error), error))?;
    Ok(OverloadReport::of(&result, &probes, arguments.peak, arguments.phase_length(), WARM_UP))
}

fn options(arguments: &OverloadArguments, hub: &HubProcess) -> RunOptions {
    RunOptions {
        dfsps: arguments.dfsps,
        load: arguments.load(),
        duration: arguments.phase_length() * 3,
        warm_up: WARM_UP,
        workers: arguments.workers,
        out: Some(arguments.out.clone()),
        target: Some(TargetHub {
            fspiop_url: hub.fspiop_url(),
            admin_url: hub.admin_url(),
            pid: Some(hub.pid()),
            durable: Some(true),
        }),
        dfsp_prefix: DFSP_PREFIX.to_owned(),
        commit: option_env!("UPESI_COMMIT").map(str::to_owned),
        ..RunOptions::default()
    }
}

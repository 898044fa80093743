//! Does what a scenario says: one run, a search, a soak, or one stage alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::drive::run::{LabError, run};
use crate::drive::search::Searching;
use crate::isolated::{self, Context};
use crate::judge::drift::drift;
use crate::judge::sustained;
use crate::judge::thresholds::fails_on_purpose;
use crate::plan::load_profile::Load;
use crate::plan::options::RunOptions;
use crate::plan::{Search, Test, Work};
use crate::result::LabResult;
use crate::result::schema::Parameter;

/// What surrounds the work of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub name: String,
    pub title: String,
    pub description: String,
    /// What tells this run from others of the same scenario.
    pub parameters: BTreeMap<String, Parameter>,
    /// Where `result.json`, logs and data go; `None` keeps nothing.
    pub out: Option<PathBuf>,
    /// Where streams that are recorded for the occasion are kept for other runs; `None` keeps nothing.
    pub recordings: Option<PathBuf>,
    /// The commit this program was built from, if known.
    pub commit: Option<String>,
}

/// Does it. Blocks until it is over; must not be called from within an async runtime.
///
/// # Errors
/// When something that it needs cannot be started, prepared or asked.
pub fn execute(work: &Work, surroundings: &Surroundings) -> Result<LabResult, LabError> {
    match work {
        Work::EndToEnd { options, test } => {
            let mut options = (**options).clone();
            options.out.clone_from(&surroundings.out);
            options.commit.clone_from(&surroundings.commit);
            match test {
                Test::Breakpoint(search) => breakpoint(&options, *search),
                Test::Soak => soak(&options),
                Test::Smoke | Test::Average | Test::Stress | Test::Spike => run(&options),
            }
        }
        Work::Isolated { stage, table, hub_arguments, seed } => {
            let out = surroundings.out.as_deref();
            let context = Context {
                name: surroundings.name.clone(),
                title: surroundings.title.clone(),
                description: surroundings.description.clone(),
                scratch: out.map_or_else(std::env::temp_dir, Path::to_owned),
                binary: None,
                hub_arguments: hub_arguments.clone(),
                logs: surroundings.out.clone(),
                recordings: surroundings.recordings.clone(),
                seed: *seed,
                commit: surroundings.commit.clone(),
            };
            create(out)?;
            let mut result = isolated::run(stage, table, &context)?;
            result.parameters.extend(surroundings.parameters.clone());
            write(&result, out)?;
            Ok(result)
        }
    }
}

/// Searches the highest rate that meets the targets. The result is that of the highest that did, or of the last probe
/// where none did, with every probe beside it.
fn breakpoint(options: &RunOptions, search: Search) -> Result<LabResult, LabError> {
    let mut searching = Searching::new(search);
    let mut best: Option<(u32, LabResult)> = None;
    let mut last = None;
    while let Some(rate_per_s) = searching.next_rate() {
        let again = if searching.is_known(rate_per_s) { "-again" } else { "" };
        let name = format!("rate-{rate_per_s}{again}");
        let out = options.out.as_ref().map(|out| out.join("probes").join(name));
        let load = match &options.load {
            Load::Arrivals { poisson, outstanding_max, .. } => Load::Arrivals {
                start_per_s: rate_per_s,
                stages: Vec::new(),
                poisson: *poisson,
                outstanding_max: *outstanding_max,
            },
            other => Load::Open { rate_per_s, outstanding_max: other.outstanding_max().max(OUTSTANDING_MIN) },
        };
        let mut probe = RunOptions { load, out, ..options.clone() };
        let rate = Parameter::Number(i64::from(rate_per_s));
        probe.identity.parameters.insert("rate_per_s".to_owned(), rate);
        let result = run(&probe)?;
        let is_met = searching.note(rate_per_s, &result);
        let is_best = is_met && best.as_ref().is_none_or(|(rate, _)| *rate < rate_per_s);
        if is_best {
            best = Some((rate_per_s, result));
        } else {
            last = Some(result);
        }
    }
    let found = searching.finish();
    // A search tries at least one rate, unless it was told to try none.
    let mut result = best.map(|(_, result)| result).or(last).unwrap_or_default();
    result.parameters.remove("rate_per_s");
    result.breakpoint = Some(found);
    write(&result, options.out.as_deref())?;
    Ok(result)
}

/// Fewest operations that a probe may have without outcome: a hub that is behind must show it in its latency first.
const OUTSTANDING_MIN: usize = 10_000;

/// A long run, with what it did to the hub, and whether the load was held for all of it.
fn soak(options: &RunOptions) -> Result<LabResult, LabError> {
    let mut result = run(options)?;
    let found = drift(&result);
    if let Some(thresholds) = &mut result.thresholds
        && !fails_on_purpose(options)
    {
        thresholds.add(sustained::check(result.window.seconds, found.held_s));
    }
    result.drift = Some(found);
    write(&result, options.out.as_deref())?;
    Ok(result)
}

fn create(out: Option<&Path>) -> Result<(), LabError> {
    let Some(out) = out else { return Ok(()) };
    std::fs::create_dir_all(out)
        .map_err(|source| LabError::Io { what: format!("cannot create {}", out.display()), source })
}

fn write(result: &LabResult, out: Option<&Path>) -> Result<(), LabError> {
    let Some(out) = out else { return Ok(()) };
    create(Some(out))?;
    result
        .write(out)
        .map_err(|source| LabError::Io { what: format!("cannot write into {}", out.display()), source })
}

//! `upesi lab suite`: several scenarios one after the other, and a report about them.

use std::path::{Path, PathBuf};

use clap::Args;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};

use super::TargetArguments;
use super::run::commit;
use crate::failures;
use crate::plan::{ScenarioFile, SuiteFile, Work};
use crate::{ClaimVerdict, LeftOut, SuitePlan};

/// Arguments of `upesi lab suite`.
#[derive(Args, Clone, Debug)]
pub struct SuiteArguments {
    /// The name of a suite (`upesi lab list`), or the path of a file.
    #[arg(value_name = "SUITE")]
    pub suite: String,
    /// Directory for suite.json, report.html and a directory per run [out/lab/SUITE].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Number of repetitions of every run; runs take turns. Overrides the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50))]
    pub repetitions: Option<u64>,
    /// A running hub. Scenarios that set up a hub of their own, or measure without one, are skipped and named.
    #[command(flatten)]
    pub target: TargetArguments,
    /// Print suite.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Runs the suite, and prints the results. Fails with 1 if a run did not pass.
pub fn run(arguments: &SuiteArguments) -> Outcome {
    let mut suite = SuiteFile::named(&arguments.suite)?;
    let target = arguments.target.hub();
    let left_out = if target.is_some() { leave_out(&mut suite)? } else { Vec::new() };
    let mut plan = SuitePlan { left_out, ..SuitePlan::of_suite(&suite) };
    for point in &mut plan.points {
        if let Work::EndToEnd { options, .. } = &mut point.point.work {
            options.target.clone_from(&target);
            options.sim_address = arguments.target.sim_address;
        }
    }
    if let Some(repetitions) = arguments.repetitions {
        plan.repetitions = usize::try_from(repetitions).unwrap_or(1);
    }
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("out/lab").join(&suite.name));
    run_plan(&plan, &out, arguments.json)
}

/// Removes scenarios that cannot drive a running hub, and returns them.
fn leave_out(suite: &mut SuiteFile) -> Result<Vec<LeftOut>, Failure> {
    let mut left_out = Vec::new();
    suite.runs.retain(|run| {
        let Some(reason) = unfit(&run.scenario) else { return true };
        let (scenario, question) = (run.scenario.name.clone(), run.question.clone());
        eprintln!("upesi lab: {scenario} is skipped: {reason}");
        left_out.push(LeftOut { scenario, question, reason: reason.to_owned() });
        false
    });
    if suite.runs.is_empty() {
        return Err(failures::usage("no scenario of this suite can use a running hub"));
    }
    Ok(left_out)
}

/// The reason why a scenario cannot drive a running hub; `None` if it can.
fn unfit(scenario: &ScenarioFile) -> Option<&'static str> {
    scenario.points().iter().find_map(|point| match &point.work {
        Work::Isolated { .. } => Some("it measures one stage of an Upesi hub alone"),
        Work::EndToEnd { options, .. } if options.alone.is_some() => {
            Some("it measures load generator and DFSPs without a hub; run it by itself for their maximum")
        }
        Work::EndToEnd { options, .. } if options.existing_transfers > 0 => {
            Some("it needs a hub of its own, filled with finished transfers")
        }
        Work::EndToEnd { options, .. } if !options.hub_arguments.is_empty() => {
            Some("it needs a hub of its own, with other settings")
        }
        Work::EndToEnd { .. } => None,
    })
}

/// Runs every point of a plan, writes a report next to the results, and shows them.
pub fn run_plan(plan: &SuitePlan, out: &Path, as_json: bool) -> Outcome {
    let mut tell = |text: &str| eprintln!("upesi lab: {text}");
    let suite = crate::run_suite(plan, out, commit().as_deref(), &mut tell)?;
    let paths = [out.to_owned()];
    if suite.failures.len() < plan.runs() {
        let page = out.join("report.html");
        let reported = crate::report::write_html(&paths, &page);
        reported.map_err(|error| Failure::new(Exit::CannotCreate, error))?;
        eprintln!("upesi lab: the report is {}", page.display());
        if as_json {
            write_out(&(serde_json::to_string_pretty(&suite).unwrap_or_default() + "\n"))?;
        } else {
            write_out(&crate::report::text(&paths).map_err(failures::software)?)?;
        }
    }
    let failed = suite.failures.iter().map(|failure| format!("{}: {}", failure.run, failure.error));
    let not_passed = suite.failings.iter().map(|(run, failings)| format!("{run}: {}", failings.join("; ")));
    let broken = suite.claims.iter().filter(|claim| claim.verdict == ClaimVerdict::Broken);
    let broken = broken.map(|claim| format!("{}: {}", claim.text, claim.words));
    failures::unless_any(&failed.chain(not_passed).chain(broken).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_that_a_running_hub_cannot_serve_are_left_out() {
        let mut suite = SuiteFile::named("architect").unwrap();
        let left_out = leave_out(&mut suite).unwrap();
        let told: Vec<_> =
            left_out.iter().map(|run| (run.scenario.as_str(), run.question.is_some())).collect();
        assert_eq!(told, [("simulators-only", true), ("existing-rows", true)]);
        assert!(left_out[0].reason.contains("without a hub") && left_out[1].reason.contains("finished"));
        let left: Vec<&str> = suite.runs.iter().map(|run| run.scenario.name.as_str()).collect();
        assert_eq!(left, ["payments-8", "transfers-8", "breakpoint", "around-breakpoint", "soak"]);
        let mut suite = SuiteFile::named("measuring-overhead").unwrap();
        assert!(leave_out(&mut suite).is_err());
    }
}

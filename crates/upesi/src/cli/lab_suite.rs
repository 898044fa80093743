//! `upesi lab suite`: several scenarios one after the other, and a report about them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_lab::plan::{ScenarioFile, SuiteFile, Work};
use upesi_lab::{ClaimVerdict, SuitePlan, TargetHub};

use super::lab_characterize;
use super::lab_run::{commit, lab_exit, plan_failure};
use super::run::write_out;
use crate::exit::{Exit, Failure, Outcome};

/// Arguments of `upesi lab suite`.
#[derive(Args, Clone, Debug)]
pub struct SuiteArguments {
    /// The name of a suite (`upesi lab list`), or the path of a file.
    #[arg(value_name = "SUITE")]
    pub suite: String,
    /// Directory for suite.json, report.html and a directory per run [out/lab/SUITE].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How often every run is repeated; runs take turns. Overrides the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50))]
    pub repetitions: Option<u64>,
    /// Drive a hub that is running, by its FSPIOP base URL. What sets up a hub of its own, or measures a stage alone, is left out.
    #[arg(long, value_name = "URL", requires = "admin")]
    pub target: Option<String>,
    /// That hub's admin API.
    #[arg(long, value_name = "URL", requires = "target")]
    pub admin: Option<String>,
    /// That hub's process id on this machine, to measure its CPU and memory.
    #[arg(long, value_name = "PID", requires = "target")]
    pub target_pid: Option<u32>,
    /// Address that the simulators listen on; a hub on another machine must reach it.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub sim_address: IpAddr,
    /// Also write a page there that puts published figures beside ours, with the report and the figures of every run.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
    /// A result of another time that the suite puts beside published figures, such as soak=out/soak/run/result.json. Without it, the
    /// one that is kept below --docs. May be repeated.
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    pub recorded: Vec<(String, PathBuf)>,
    /// Print suite.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Runs a suite.
pub fn run(arguments: &SuiteArguments) -> Outcome {
    let mut suite = SuiteFile::named(&arguments.suite).map_err(|error| plan_failure(&error))?;
    let target = arguments.target_hub();
    if target.is_some() {
        leave_out(&mut suite)?;
    }
    let mut plan = SuitePlan::of_suite(&suite);
    for point in &mut plan.points {
        if let Work::EndToEnd { options, .. } = &mut point.point.work {
            options.target.clone_from(&target);
            options.sim_address = arguments.sim_address;
        }
    }
    if let Some(repetitions) = arguments.repetitions {
        plan.repetitions = usize::try_from(repetitions).unwrap_or(1);
    }
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("out/lab").join(&suite.name));
    lab_characterize::bring_recorded(&suite, &out, arguments.docs.as_deref(), &arguments.recorded)?;
    let outcome = run_plan(&plan, &out, arguments.json);
    if let Some(docs) = &arguments.docs {
        // Also where a run failed: the page says which.
        lab_characterize::write(&suite, &out, docs)?;
    }
    outcome
}

/// `soak=out/soak/run/result.json`.
fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("give NAME=FILE")?;
    Ok((name.to_owned(), PathBuf::from(file)))
}

impl SuiteArguments {
    fn target_hub(&self) -> Option<TargetHub> {
        self.target.clone().zip(self.admin.clone()).map(|(fspiop_url, admin_url)| TargetHub {
            fspiop_url,
            admin_url,
            pid: self.target_pid,
            durable: None,
        })
    }
}

/// Leaves out what a running hub cannot be driven with, and says so.
fn leave_out(suite: &mut SuiteFile) -> Outcome {
    let (fitting, others) =
        std::mem::take(&mut suite.runs).into_iter().partition(|run| fits_running_hub(&run.scenario));
    suite.runs = fitting;
    for run in others {
        eprintln!("upesi lab: {} is left out: it sets up what it measures", run.scenario.name);
    }
    if suite.runs.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "nothing in this suite can be run against a hub that runs already",
        ));
    }
    Ok(())
}

/// Whether a scenario takes a hub as it is.
fn fits_running_hub(scenario: &ScenarioFile) -> bool {
    scenario.points().iter().all(|point| match &point.work {
        Work::EndToEnd { options, .. } => {
            options.hub_arguments.is_empty() && options.existing_transfers == 0 && options.alone.is_none()
        }
        Work::Isolated { .. } => false,
    })
}

/// Runs every point of a plan, writes a report beside the results, and shows them.
pub fn run_plan(plan: &SuitePlan, out: &Path, as_json: bool) -> Outcome {
    let mut tell = |text: &str| eprintln!("upesi lab: {text}");
    let suite = upesi_lab::run_suite(plan, out, commit().as_deref(), &mut tell)
        .map_err(|error| Failure::new(lab_exit(&error), error))?;
    let paths = [out.to_owned()];
    if suite.failures.len() < plan.runs() {
        let page = out.join("report.html");
        let beside = lab_characterize::beside_suite(&paths);
        let reported = upesi_report::write_html_beside(&paths, beside.as_ref(), &page);
        reported.map_err(|error| Failure::new(Exit::CannotCreate, error))?;
        eprintln!("upesi lab: the report is {}", page.display());
        if as_json {
            let text = serde_json::to_string_pretty(&suite).unwrap_or_default();
            write_out(&(text + "\n"))?;
        } else {
            let table = upesi_report::text(&paths).map_err(|error| Failure::new(Exit::Software, error))?;
            write_out(&table)?;
        }
    }
    let failed = suite.failures.iter().map(|failure| format!("{}: {}", failure.run, failure.error));
    let not_passed =
        suite.not_passed.iter().map(|run| format!("{run}: the audit failed or a target was missed"));
    let broken = suite.claims.iter().filter(|claim| claim.verdict == ClaimVerdict::Broken);
    let broken = broken.map(|claim| format!("{}: {}", claim.text, claim.words));
    let complaints: Vec<String> = failed.chain(not_passed).chain(broken).collect();
    if complaints.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, complaints.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_hub_is_asked_what_it_can_answer() {
        let mut suite = SuiteFile::named("architect").unwrap();
        leave_out(&mut suite).unwrap();
        let left: Vec<&str> = suite.runs.iter().map(|run| run.scenario.name.as_str()).collect();
        assert_eq!(left, ["payments-8", "transfers-8", "breakpoint", "around-breakpoint", "soak"]);
        let mut suite = SuiteFile::named("measuring-overhead").unwrap();
        assert!(leave_out(&mut suite).is_err());
    }
}

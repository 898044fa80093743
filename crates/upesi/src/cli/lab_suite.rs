//! `upesi lab suite`: several scenarios one after the other, and a report about them.

use std::path::{Path, PathBuf};

use clap::Args;
use upesi_lab::SuitePlan;
use upesi_lab::plan::SuiteFile;

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
    /// Also write a page there that puts published figures beside ours, with the report and the figures of every run.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
    /// Print suite.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Runs a suite.
pub fn run(arguments: &SuiteArguments) -> Outcome {
    let suite = SuiteFile::named(&arguments.suite).map_err(|error| plan_failure(&error))?;
    let mut plan = SuitePlan::of_suite(&suite);
    if let Some(repetitions) = arguments.repetitions {
        plan.repetitions = usize::try_from(repetitions).unwrap_or(1);
    }
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("out/lab").join(&suite.name));
    let outcome = run_plan(&plan, &out, arguments.json);
    if let Some(docs) = &arguments.docs {
        // Also where a run failed: the page says which.
        lab_characterize::write(&suite, &out, docs)?;
    }
    outcome
}

/// Runs every point of a plan, writes a report beside the results, and shows them.
pub fn run_plan(plan: &SuitePlan, out: &Path, as_json: bool) -> Outcome {
    let mut tell = |text: &str| eprintln!("upesi lab: {text}");
    let suite = upesi_lab::run_suite(plan, out, commit().as_deref(), &mut tell)
        .map_err(|error| Failure::new(lab_exit(&error), error))?;
    let paths = [out.to_owned()];
    if suite.failures.len() < plan.points.len() * plan.repetitions {
        let page = out.join("report.html");
        let reported = upesi_report::write_html(&paths, &page);
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
    let complaints: Vec<String> = failed.chain(not_passed).collect();
    if complaints.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, complaints.join("\n"))) }
}

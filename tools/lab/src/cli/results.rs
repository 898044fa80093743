//! `upesi lab list`, `describe`, `compare`, `report` and `merge`: available scenarios, and results of runs.

use std::fmt::Write as _;
use std::path::PathBuf;

use upesi_process::exit::{Outcome, write_out};

use crate::RunOptions;
use crate::plan::{SCENARIOS, SUITES, ScenarioFile, SuiteFile, Work};
use clap::Args;

use crate::failures::cannot_create;

/// Arguments of `upesi lab list`.
#[derive(Args, Clone, Debug)]
pub struct ListArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `upesi lab describe`.
#[derive(Args, Clone, Debug)]
pub struct DescribeArguments {
    /// Name of a scenario, or path of a file.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Print only the file, as a template.
    #[arg(long)]
    pub toml: bool,
}

/// Arguments of `upesi lab compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArguments {
    /// Directories of runs or suites, or their result.json or suite.json. The others are compared with the first one.
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    pub results: Vec<PathBuf>,
    /// Also write an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `upesi lab report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArguments {
    /// Directories of runs or suites, or their result.json or suite.json.
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
    /// Write a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print rows of Markdown instead of the table.
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `upesi lab merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArguments {
    /// Directories of runs that drove the same hub at the same time, or their result.json.
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
    /// Directory for the merged result.json; by default it goes to stdout.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Prints the built-in scenarios and suites.
pub fn list(arguments: &ListArguments) -> Outcome {
    let mut rows = Vec::new();
    for (name, _) in SCENARIOS {
        let scenario = ScenarioFile::named(name)?;
        let kind = kind_of(&scenario);
        rows.push(("scenario", *name, kind, scenario.points().len(), scenario.title));
    }
    for (name, _) in SUITES {
        let suite = SuiteFile::named(name)?;
        let runs = suite.runs.iter().map(|run| run.scenario.points().len()).sum();
        rows.push(("suite", *name, "suite".to_owned(), runs, suite.title));
    }
    if arguments.json {
        let row = |(what, name, kind, runs, title)| serde_json::json!({"what": what, "name": name, "kind": kind, "runs": runs, "title": title});
        let list: Vec<serde_json::Value> = rows.into_iter().map(row).collect();
        return write_out(&(serde_json::to_string_pretty(&list).unwrap_or_default() + "\n"));
    }
    let mut text = format!("{:<25}{:<13}{:>4}  {}\n", "NAME", "KIND", "RUNS", "WHAT");
    for (_, name, kind, runs, title) in rows {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:<25}{kind:<13}{runs:>4}  {title}");
    }
    write_out(&text)
}

fn kind_of(scenario: &ScenarioFile) -> String {
    match scenario.points().first().map(|point| &point.work) {
        Some(Work::Isolated { .. }) => "isolated".to_owned(),
        Some(Work::EndToEnd { test, .. }) => test.name().to_owned(),
        None => String::new(),
    }
}

/// Prints the runs of a scenario, and its file.
pub fn describe(arguments: &DescribeArguments) -> Outcome {
    let scenario = ScenarioFile::named(&arguments.scenario)?;
    if arguments.toml {
        return write_out(&scenario.text);
    }
    let mut text = format!("{}: {}\n\n{}\n", scenario.name, scenario.title, scenario.description);
    text.push_str(match scenario.points().len() {
        1 => "\nOne run:\n",
        _ => "\nRuns:\n",
    });
    if scenario.repetitions > 1 {
        let between = if scenario.is_against_first() { ", each between two of the first" } else { "" };
        let _ = writeln!(text, "  (each {} times, in turn{between})", scenario.repetitions);
    }
    for claim in scenario.claims() {
        let _ = writeln!(text, "  (to show: {})", claim.text);
    }
    for point in scenario.points() {
        let what = match &point.work {
            Work::EndToEnd { options, test } => end_to_end(options, test.name()),
            Work::Isolated { stage, .. } => format!("stage {stage} alone"),
        };
        let label = point.label();
        let separator = if label.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "  {label}{separator}{what}");
    }
    text.push_str("\nThe file; copy it, change it, and give its path to `upesi lab run`:\n\n");
    for line in scenario.text.lines() {
        let _ = writeln!(text, "    {line}");
    }
    write_out(&text)
}

fn end_to_end(options: &RunOptions, test: &str) -> String {
    let seconds = options.duration.as_secs_f64();
    let subject = options.alone.map_or("", |baseline| baseline.name());
    let alone = if subject.is_empty() { String::new() } else { format!(", {subject} without a hub") };
    format!(
        "{} ({test}), {} DFSPs ({}), {}, {seconds} s measured{alone}",
        options.scenario.name(),
        options.dfsps,
        options.pairs,
        options.load
    )
}

/// Compares the results with the first one.
pub fn compare(arguments: &CompareArguments) -> Outcome {
    let comparison = crate::report::compare(&arguments.results)?;
    write_out(&format!("{comparison}\n"))?;
    write_html(&arguments.results, arguments.html.as_ref())
}

/// Prints the results, or writes a page of them.
pub fn report(arguments: &ReportArguments) -> Outcome {
    if let Some(page) = &arguments.html {
        write_html(&arguments.results, Some(page))?;
        if !arguments.markdown {
            return Ok(());
        }
    }
    let text = if arguments.markdown {
        crate::report::markdown(&arguments.results)
    } else {
        crate::report::text(&arguments.results)
    };
    write_out(&text?)
}

fn write_html(results: &[PathBuf], page: Option<&PathBuf>) -> Outcome {
    let Some(page) = page else { return Ok(()) };
    Ok(crate::report::write_html(results, page)?)
}

/// Writes the sum of the results of several load generators.
pub fn merge(arguments: &MergeArguments) -> Outcome {
    let merged = crate::merge(&arguments.results)?;
    let text = serde_json::to_string_pretty(&merged).unwrap_or_default() + "\n";
    let Some(out) = &arguments.out else { return write_out(&text) };
    std::fs::create_dir_all(out).map_err(cannot_create(out))?;
    std::fs::write(out.join("result.json"), text).map_err(cannot_create(out))
}

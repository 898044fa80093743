//! Runs several points one after the other, several times in turn, and writes what they gave.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::execute::{Surroundings, execute};
use crate::plan::{Plot, Point, ScenarioFile, SuiteFile};
use crate::result::{LabResult, SCHEMA_VERSION};
use crate::run::LabError;
use crate::statistics::{median, rounded};

/// One run of a suite: a point of a scenario.
#[derive(Clone, Debug)]
pub struct SuitePoint {
    /// Name of the scenario.
    pub scenario: String,
    /// What the scenario is.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// The point.
    pub point: Point,
}

impl SuitePoint {
    /// Its directory below that of the suite; also how it is named to people.
    pub fn directory(&self) -> String {
        match self.point.label() {
            label if label.is_empty() => self.scenario.clone(),
            label => format!("{},{label}", self.scenario),
        }
    }
}

/// Several points, and how they are drawn.
#[derive(Clone, Debug)]
pub struct SuitePlan {
    /// Its name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// How often every point is run.
    pub repetitions: usize,
    /// The points.
    pub points: Vec<SuitePoint>,
    /// Plots, each over some of the points.
    pub plots: Vec<(Plot, Vec<usize>)>,
}

impl SuitePlan {
    /// The points of one scenario.
    pub fn of_scenario(scenario: &ScenarioFile) -> Self {
        let mut plan = Self {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            description: scenario.description.clone(),
            repetitions: 1,
            points: Vec::new(),
            plots: Vec::new(),
        };
        plan.add(scenario);
        plan
    }

    /// All points of a suite.
    pub fn of_suite(suite: &SuiteFile) -> Self {
        let mut plan = Self {
            name: suite.name.clone(),
            title: suite.title.clone(),
            description: suite.description.clone(),
            repetitions: suite.repetitions,
            points: Vec::new(),
            plots: Vec::new(),
        };
        suite.runs.iter().for_each(|run| plan.add(&run.scenario));
        let all: Vec<usize> = (0..plan.points.len()).collect();
        plan.plots.extend(suite.plots.iter().map(|plot| (plot.clone(), all.clone())));
        plan
    }

    fn add(&mut self, scenario: &ScenarioFile) {
        let first = self.points.len();
        self.points.extend(scenario.points().iter().map(|point| SuitePoint {
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            description: scenario.description.clone(),
            point: point.clone(),
        }));
        let own: Vec<usize> = (first..self.points.len()).collect();
        self.plots.extend(scenario.plots().iter().map(|plot| (plot.clone(), own.clone())));
    }
}

/// A run that gave no result.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteFailure {
    /// Its directory.
    pub run: String,
    /// Why.
    pub error: String,
}

/// The contents of `suite.json`.
#[derive(Clone, Debug, Serialize)]
pub struct SuiteResult {
    /// Version of this layout, the same as of `result.json`.
    pub schema_version: u32,
    /// The suite's name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// How often every point was run.
    pub repetitions: usize,
    /// Directories of the points, relative to the suite's.
    pub runs: Vec<String>,
    /// How they are drawn.
    pub plots: Vec<PlotResult>,
    /// What gave no result.
    pub failures: Vec<SuiteFailure>,
    /// Directories of results that did not pass: their audit failed or a target was missed.
    pub not_passed: Vec<String>,
}

/// A plot of a suite.
#[derive(Clone, Debug, Serialize)]
pub struct PlotResult {
    /// Its heading.
    pub title: String,
    /// Parameter on the horizontal axis.
    pub x: String,
    /// Parameter that tells lines apart.
    pub series: Option<String>,
    /// The figure.
    pub y: String,
    /// Which of `runs`.
    pub runs: Vec<usize>,
}

/// Runs everything into a directory and writes `suite.json` there. `tell` is told what begins. A run that fails does not end
/// the others.
///
/// # Errors
/// When the directory cannot be written.
pub fn run_suite(
    plan: &SuitePlan,
    out: &Path,
    commit: Option<&str>,
    tell: &mut dyn FnMut(&str),
) -> Result<SuiteResult, LabError> {
    let total = plan.points.len() * plan.repetitions;
    let mut results: Vec<Vec<LabResult>> = plan.points.iter().map(|_| Vec::new()).collect();
    let mut failures = Vec::new();
    for repetition in 0..plan.repetitions {
        for (index, point) in plan.points.iter().enumerate() {
            let number = repetition * plan.points.len() + index + 1;
            tell(&format!("{number} of {total}: {}", point.directory()));
            let mut directory = out.join(point.directory());
            if plan.repetitions > 1 {
                directory = directory.join(format!("repetition-{}", repetition + 1));
            }
            let surroundings = Surroundings {
                name: point.scenario.clone(),
                title: point.title.clone(),
                description: point.description.clone(),
                parameters: point.point.parameters.clone(),
                out: Some(directory),
                commit: commit.map(str::to_owned),
            };
            match execute(&point.point.work, &surroundings) {
                Ok(result) => results[index].push(result),
                Err(error) => {
                    tell(&format!("{} failed: {error}", point.directory()));
                    failures.push(SuiteFailure { run: point.directory(), error: error.to_string() });
                }
            }
        }
    }
    let mut suite = suite_result(plan, failures);
    for (point, results) in plan.points.iter().zip(results) {
        let Some(result) = together(results) else { continue };
        if !result.passed() {
            suite.not_passed.push(point.directory());
        }
        let directory = out.join(point.directory());
        result.write(&directory).map_err(|source| unwritable(&directory, source))?;
    }
    write_suite(&suite, out)?;
    Ok(suite)
}

fn suite_result(plan: &SuitePlan, failures: Vec<SuiteFailure>) -> SuiteResult {
    let plot = |(plot, runs): &(Plot, Vec<usize>)| PlotResult {
        title: plot.title.clone(),
        x: plot.x.clone(),
        series: plot.series.clone(),
        y: plot.y.clone(),
        runs: runs.clone(),
    };
    SuiteResult {
        schema_version: SCHEMA_VERSION,
        name: plan.name.clone(),
        title: plan.title.clone(),
        description: plan.description.clone(),
        repetitions: plan.repetitions,
        runs: plan.points.iter().map(SuitePoint::directory).collect(),
        plots: plan.plots.iter().map(plot).collect(),
        failures,
        not_passed: Vec::new(),
    }
}

fn write_suite(suite: &SuiteResult, out: &Path) -> Result<(), LabError> {
    // Cannot fail: the members are plain values.
    let text = serde_json::to_string_pretty(suite).unwrap_or_default() + "\n";
    std::fs::create_dir_all(out).map_err(|source| unwritable(out, source))?;
    std::fs::write(out.join("suite.json"), text).map_err(|source| unwritable(out, source))
}

fn unwritable(directory: &Path, source: std::io::Error) -> LabError {
    LabError::Io { what: format!("cannot write into {}", PathBuf::from(directory).display()), source }
}

/// Several runs of the same as one: the one in the middle, with the throughput of each. What speaks against one speaks
/// against all.
fn together(mut results: Vec<LabResult>) -> Option<LabResult> {
    if results.len() < 2 {
        return results.pop();
    }
    let throughputs: Vec<f64> = results.iter().map(|result| result.throughput_per_s).collect();
    let bad = results.iter().find(|result| !result.audit.ok).map(|result| result.audit.clone());
    let lost = results.iter().map(|result| result.lost).max().unwrap_or(0);
    let mut findings: Vec<String> =
        results.iter().flat_map(|result| result.validity.findings.iter().cloned()).collect();
    findings.sort();
    findings.dedup();
    results.sort_by(|one, other| one.throughput_per_s.total_cmp(&other.throughput_per_s));
    let mut result = results.swap_remove(results.len() / 2);
    result.throughput_per_s = rounded(median(throughputs.iter().copied()).unwrap_or(0.0), 1);
    result.repetitions = throughputs;
    result.validity = crate::measured::Validity::of(findings);
    result.lost = lost;
    if let Some(audit) = bad {
        result.audit = audit;
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Validity;

    #[test]
    fn repetitions_become_one_and_a_bad_one_spoils_it() {
        let run = |throughput_per_s, findings: &[&str]| LabResult {
            throughput_per_s,
            validity: Validity::of(findings.iter().map(|text| (*text).to_owned()).collect()),
            ..LabResult::default()
        };
        let result = together(vec![run(30.0, &[]), run(10.0, &["lag"]), run(20.0, &["lag"])]).unwrap();
        assert_eq!((result.throughput_per_s, result.repetitions), (20.0, vec![30.0, 10.0, 20.0]));
        assert_eq!(result.validity.findings, ["lag"]);
        assert!(result.audit.ok);
        let mut bad = run(40.0, &[]);
        bad.audit.ok = false;
        assert!(!together(vec![run(1.0, &[]), bad, run(2.0, &[])]).unwrap().passed());
        assert!(together(Vec::new()).is_none());
    }

    #[test]
    fn a_plan_has_every_point_with_a_directory_of_its_own() {
        let scenario = ScenarioFile::named("position-batch").unwrap();
        let plan = SuitePlan::of_scenario(&scenario);
        assert_eq!(plan.points.len(), 21);
        assert_eq!(plan.points[20].directory(), "position-batch,batch-natural,dfsps-8");
        assert_eq!(plan.plots[0].1.len(), 21);
        let suite = SuiteFile::named("quick").unwrap();
        let plan = SuitePlan::of_suite(&suite);
        assert_eq!(
            plan.points.iter().map(SuitePoint::directory).collect::<Vec<_>>(),
            ["transfers-8", "lookups-8", "payments-8"]
        );
        let result = suite_result(&plan, Vec::new());
        assert_eq!(serde_json::to_value(&result).unwrap()["runs"][1], "lookups-8");
    }
}

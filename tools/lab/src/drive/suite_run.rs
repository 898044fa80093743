//! Runs several points one after the other, several times in turn, and writes their results.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::drive::execute::{Surroundings, execute};
use crate::drive::run::{LabError, now};
use crate::drive::suite_turns::{Group, Turn};
use crate::judge::suite_pairs::{self, ClaimResult, PairResult, judge, pairs_of};
use crate::judge::thresholds;
use crate::judge::validity::deserves_second_try;
use crate::observe::process;
use crate::plan::load_profile::percent_of;
use crate::plan::{Claim, Point, ScenarioFile, SuiteFile, SuiteRun, Test, Work};
use crate::report::Metric;
use crate::result::statistics::{median, rounded};
use crate::result::{LabResult, SCHEMA_VERSION};

/// Maximum duration of a run that is repeated after a disturbance. In a longer run, a disturbance is a small part, and
/// a repetition takes too long.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// File of a disturbed result, in the directory of the run that replaced it.
const DISTURBED: &str = "disturbed.json";
/// Directory below a suite's for recorded streams, each of which is recorded once.
const RECORDINGS: &str = "recordings";

/// One run of a suite: a point of a scenario.
#[derive(Clone, Debug)]
pub struct SuitePoint {
    pub scenario: String,
    pub title: String,
    pub description: String,
    pub point: Point,
}

impl SuitePoint {
    /// Its directory below that of the suite, which is also its name for people.
    pub fn directory(&self) -> String {
        match self.point.label() {
            label if label.is_empty() => self.scenario.clone(),
            label => format!("{},{label}", self.scenario),
        }
    }
}

/// Several points, and their plots.
#[derive(Clone, Debug, Default)]
pub struct SuitePlan {
    pub name: String,
    pub title: String,
    pub description: String,
    /// Number of times that the whole plan is run.
    pub repetitions: usize,
    /// Maximum duration of the whole suite, if one is given.
    pub within: Option<Duration>,
    pub points: Vec<SuitePoint>,
    /// Groups of points that belong together, with their repetitions.
    pub groups: Vec<Group>,
    pub plots: Vec<PlotResult>,
    pub questions: Vec<Question>,
    /// The claims to be shown, each about a point of the group with that index.
    pub claims: Vec<(usize, Claim)>,
    /// Whether rates that are a part of the highest one require an earlier search. Otherwise they are parts of the
    /// file's own rate, as in a scenario that runs alone.
    pub finds_rates: bool,
    /// Scenarios of the suite that are not run.
    pub left_out: Vec<LeftOut>,
}

/// A scenario of a suite that is not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub scenario: String,
    /// The question that it would have answered, if the suite has one.
    pub question: Option<String>,
    /// The reason, in words.
    pub reason: String,
}

impl SuitePlan {
    pub fn of_scenario(scenario: &ScenarioFile) -> Self {
        let mut plan = Self {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            description: scenario.description.clone(),
            repetitions: 1,
            ..Self::default()
        };
        plan.add(scenario);
        plan
    }

    pub fn of_suite(suite: &SuiteFile) -> Self {
        let mut plan = Self {
            name: suite.name.clone(),
            title: suite.title.clone(),
            description: suite.description.clone(),
            repetitions: suite.repetitions,
            within: suite.within,
            finds_rates: true,
            ..Self::default()
        };
        for run in &suite.runs {
            let first = plan.points.len();
            plan.add(&run.scenario);
            let runs = (first..plan.points.len()).collect();
            plan.questions.extend(run.question.clone().map(|text| Question { text, runs }));
        }
        plan.ask_together(suite);
        let all = 0..plan.points.len();
        plan.plots.extend(suite.plots.iter().map(|plot| plot.over(all.clone())));
        plan
    }

    /// Adds the questions that several scenarios answer together, after the own question of the last of them. Scenarios
    /// that are left out have none.
    fn ask_together(&mut self, suite: &SuiteFile) {
        for question in &suite.questions {
            let is_asked = |run: &SuiteRun| question.scenarios.contains(&run.scenario.name);
            let asked = suite.runs.iter().zip(&self.groups).filter(|(run, _)| is_asked(run));
            let runs: Vec<usize> = asked.flat_map(|(_, group)| group.points.clone()).collect();
            if !runs.is_empty() {
                self.questions.push(Question { text: question.text.clone(), runs });
            }
        }
        self.questions.sort_by_key(|question| question.runs.last().copied());
    }

    fn add(&mut self, scenario: &ScenarioFile) {
        let first = self.points.len();
        self.points.extend(scenario.points().iter().map(|point| SuitePoint {
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            description: scenario.description.clone(),
            point: point.clone(),
        }));
        let points = first..self.points.len();
        self.plots.extend(scenario.plots().iter().map(|plot| plot.over(points.clone())));
        self.claims.extend(scenario.claims().iter().map(|claim| (self.groups.len(), claim.clone())));
        let (repetitions, is_against_first) = (scenario.repetitions, scenario.is_against_first());
        self.groups.push(Group { points, repetitions, is_against_first });
    }

    pub fn runs(&self) -> usize {
        let turns = self.groups.iter().map(|group| group.turns(self.repetitions).len()).sum::<usize>();
        turns * self.repetitions
    }
}

/// A run that gave no result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuiteFailure {
    /// Its directory.
    pub run: String,
    /// The cause.
    pub error: String,
}

/// A question that some runs of a suite answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The text of the question.
    pub text: String,
    /// Indices into `runs`.
    pub runs: Vec<usize>,
}

/// The contents of `suite.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteResult {
    /// Version of this layout, the same as of `result.json`.
    pub schema_version: u32,
    /// The suite's name.
    pub name: String,
    /// A short title.
    pub title: String,
    /// The purpose of the suite.
    pub description: String,
    /// Number of times that the whole suite was run.
    pub repetitions: usize,
    /// Time of the start, ISO 8601.
    pub began_at: String,
    /// Time at which its last run had ended.
    pub ended_at: String,
    /// Duration of the suite in seconds.
    pub took_s: f64,
    /// Maximum duration in seconds, if one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_s: Option<f64>,
    /// Directories of the points, relative to the suite's.
    pub runs: Vec<String>,
    /// Plots of the runs.
    pub plots: Vec<PlotResult>,
    /// Runs that gave no result.
    pub failures: Vec<SuiteFailure>,
    /// Scenarios that were not run, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Directories of results that did not pass.
    pub not_passed: Vec<String>,
    /// For each of these, the reasons: [`LabResult::failings`].
    pub failings: BTreeMap<String, Vec<String>>,
    /// Questions, and the runs that answer them.
    pub questions: Vec<Question>,
    /// Runs beside a base, compared with it.
    pub pairs: Vec<PairResult>,
    /// Claims and their verdicts.
    pub claims: Vec<ClaimResult>,
}

/// A plot of a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlotResult {
    /// Its heading.
    pub title: String,
    /// Parameter on the horizontal axis.
    pub x: String,
    /// Parameter that separates the lines.
    pub series: Option<String>,
    /// The plotted figure.
    pub y: String,
    /// Indices into `runs`.
    pub runs: Vec<usize>,
}

impl PlotResult {
    fn over(&self, runs: Range<usize>) -> Self {
        Self { runs: runs.collect(), ..self.clone() }
    }
}

/// Runs everything into a directory and writes `suite.json` there. `tell` receives a line at the start of each run. A
/// failed run does not end the others. Fails if the directory cannot be written.
pub fn run_suite(
    plan: &SuitePlan,
    out: &Path,
    commit: Option<&str>,
    tell: &mut dyn FnMut(&str),
) -> Result<SuiteResult, LabError> {
    forget_recordings(out)?;
    let (began_at, began) = (now(), Instant::now());
    let mut progress = Progress::new(plan, out, commit);
    for _ in 0..plan.repetitions {
        for (index, group) in plan.groups.iter().enumerate() {
            let turns = group.turns(plan.repetitions);
            let turns = turns.into_iter().map(|point| progress.turn(point, tell)).collect();
            progress.sequences[index].push(turns);
        }
    }
    let Progress { results, sequences, failures, .. } = progress;
    let mut suite = suite_result(plan, failures);
    for (point, results) in plan.points.iter().zip(results) {
        let directory = out.join(point.directory());
        let Some(result) = together(results) else {
            // A result that an earlier suite left there must not count as this run's.
            let _ = std::fs::remove_file(directory.join("result.json"));
            continue;
        };
        let failings = result.failings();
        if !failings.is_empty() {
            suite.not_passed.push(point.directory());
            suite.failings.insert(point.directory(), failings);
        }
        result.write(&directory).map_err(LabError::io("write into", &directory))?;
        process::carry(&directory);
    }
    let pairs = plan.groups.iter().zip(&sequences).flat_map(|(group, turns)| pairs_of(group, turns));
    suite.pairs = pairs.collect();
    let name = |point: usize| plan.points[point].point.name();
    let judged = |(group, claim): &(usize, Claim)| judge(claim, &plan.groups[*group], &suite.pairs, name);
    suite.claims = plan.claims.iter().map(judged).collect();
    (suite.began_at, suite.ended_at) = (began_at.to_string(), now().to_string());
    suite.took_s = rounded(began.elapsed().as_secs_f64(), 1);
    write_suite(&suite, out)?;
    Ok(suite)
}

/// Removes recordings of an earlier run in the same directory, which may be of another hub.
fn forget_recordings(out: &Path) -> Result<(), LabError> {
    let recordings = out.join(RECORDINGS);
    match std::fs::remove_dir_all(&recordings) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::io("write into", &recordings)(error))
        }
        _ => Ok(()),
    }
}

/// A suite in progress.
struct Progress<'plan> {
    plan: &'plan SuitePlan,
    out: &'plan Path,
    commit: Option<&'plan str>,
    /// Number of runs of each point in total.
    wanted: Vec<usize>,
    /// Number of finished runs of each point.
    made: Vec<usize>,
    results: Vec<Vec<LabResult>>,
    /// For each group, its runs in order.
    sequences: Vec<Vec<Vec<Turn>>>,
    failures: Vec<SuiteFailure>,
    /// The highest rate that the last breakpoint search found, if it found one.
    rate_per_s: Option<u32>,
}

impl<'plan> Progress<'plan> {
    fn new(plan: &'plan SuitePlan, out: &'plan Path, commit: Option<&'plan str>) -> Self {
        let mut wanted = vec![0; plan.points.len()];
        for point in plan.groups.iter().flat_map(|group| group.turns(plan.repetitions)) {
            wanted[point] += plan.repetitions;
        }
        Self {
            plan,
            out,
            commit,
            made: vec![0; wanted.len()],
            wanted,
            results: plan.points.iter().map(|_| Vec::new()).collect(),
            sequences: plan.groups.iter().map(|_| Vec::new()).collect(),
            failures: Vec::new(),
            rate_per_s: None,
        }
    }

    /// The work of a point. If it runs at a part of a found rate, the rate is set. Fails with the reason if no rate was
    /// found.
    fn work(&self, index: usize) -> Result<Work, String> {
        let mut work = self.plan.points[index].point.work.clone();
        if let Work::EndToEnd { options, .. } = &mut work
            && let Some(percent) = options.percent_of_breakpoint
        {
            match self.rate_per_s {
                Some(rate) => options.load = options.load.at_rate(percent_of(rate, percent)),
                None if !self.plan.finds_rates => {}
                None => {
                    return Err(format!(
                        "skipped: it is to run at {percent} % of the highest rate that holds, and no search before it found one"
                    ));
                }
            }
        }
        Ok(work)
    }

    /// Executes a point. A run at a part of a found rate is tried twice if it is disturbed, like the rates of a search.
    fn execute(
        &mut self,
        index: usize,
        surroundings: &Surroundings,
        tell: &mut dyn FnMut(&str),
    ) -> Result<LabResult, String> {
        let work = self.work(index)?;
        let searches = matches!(work, Work::EndToEnd { test: Test::Breakpoint(_), .. });
        let run = || execute(&work, surroundings).map_err(|error| error.to_string());
        let result = if may_be_tried_twice(&work) {
            undisturbed(run, |findings| {
                tell(&format!("{}, once more: {findings}", self.plan.points[index].directory()));
                set_aside(surroundings.out.as_deref());
            })
        } else {
            run()
        };
        if searches {
            // An earlier search's rate is discarded too, because it may be of something else.
            let found = result.as_ref().ok().and_then(|result| result.breakpoint.as_ref());
            self.rate_per_s = found.and_then(|found| found.highest_met_per_s);
        }
        result
    }

    /// Runs a point once more.
    fn turn(&mut self, index: usize, tell: &mut dyn FnMut(&str)) -> Turn {
        let point = &self.plan.points[index];
        self.made[index] += 1;
        let (number, total) = (self.made.iter().sum::<usize>(), self.wanted.iter().sum::<usize>());
        tell(&format!("{number} of {total}: {}", point.directory()));
        let mut directory = self.out.join(point.directory());
        if self.wanted[index] > 1 {
            directory = directory.join(format!("repetition-{}", self.made[index]));
        }
        let surroundings = Surroundings {
            name: point.scenario.clone(),
            title: point.title.clone(),
            description: point.description.clone(),
            parameters: point.point.parameters.clone(),
            out: Some(directory),
            recordings: Some(self.out.join(RECORDINGS)),
            commit: self.commit.map(str::to_owned),
        };
        let figures = match self.execute(index, &surroundings, tell) {
            Ok(result) => {
                // A run that lost money or transfers has no valid figures.
                let figures =
                    result.audit.ok.then(|| Metric::ALL.map(|metric| suite_pairs::value(metric, &result)));
                self.results[index].push(result);
                figures
            }
            Err(error) => {
                tell(&format!("{} gave no result: {error}", point.directory()));
                self.failures.push(SuiteFailure { run: point.directory(), error });
                None
            }
        };
        Turn { point: index, figures }
    }
}

/// Whether a disturbed run is repeated.
fn may_be_tried_twice(work: &Work) -> bool {
    match work {
        Work::EndToEnd { options, .. } => {
            options.percent_of_breakpoint.is_some() && options.duration <= AGAIN_MAX
        }
        Work::Isolated { .. } => false,
    }
}

/// Makes a run. If it is disturbed, makes another one that replaces it, because a second disturbance is not momentary.
/// `again` receives the findings about the first run. The first result is used if the second run gives none.
fn undisturbed(
    run: impl Fn() -> Result<LabResult, String>,
    again: impl FnOnce(&str),
) -> Result<LabResult, String> {
    let first = run()?;
    if !deserves_second_try(&first) {
        return Ok(first);
    }
    again(&first.validity.findings.join("; "));
    run().or(Ok(first))
}

/// Keeps a result beside that of the run that replaces it.
fn set_aside(directory: Option<&Path>) {
    if let Some(directory) = directory {
        // The file only documents the first run. A failure to keep it must not lose the second one.
        let _ = std::fs::rename(directory.join("result.json"), directory.join(DISTURBED));
    }
}

fn suite_result(plan: &SuitePlan, failures: Vec<SuiteFailure>) -> SuiteResult {
    SuiteResult {
        schema_version: SCHEMA_VERSION,
        name: plan.name.clone(),
        title: plan.title.clone(),
        description: plan.description.clone(),
        repetitions: plan.repetitions,
        within_s: plan.within.map(|within| within.as_secs_f64()),
        runs: plan.points.iter().map(SuitePoint::directory).collect(),
        plots: plan.plots.clone(),
        failures,
        left_out: plan.left_out.clone(),
        questions: plan.questions.clone(),
        ..SuiteResult::default()
    }
}

fn write_suite(suite: &SuiteResult, out: &Path) -> Result<(), LabError> {
    // Cannot fail: the members are plain values.
    let text = serde_json::to_string_pretty(suite).unwrap_or_default() + "\n";
    std::fs::create_dir_all(out).map_err(LabError::io("write into", out))?;
    std::fs::write(out.join("suite.json"), text).map_err(LabError::io("write into", out))
}

/// Combines several runs of the same point: the median run, with the figures of each. A finding about one run applies
/// to all.
fn together(mut results: Vec<LabResult>) -> Option<LabResult> {
    if results.len() < 2 {
        return results.pop();
    }
    let throughputs: Vec<f64> = results.iter().map(|result| result.throughput_per_s).collect();
    let repeated = repeated(&results);
    let bad = results.iter().find(|result| !result.audit.ok).map(|result| result.audit.clone());
    let lost = results.iter().map(|result| result.lost).max().unwrap_or(0);
    let thresholds = thresholds::together(results.iter().filter_map(|result| result.thresholds.as_ref()));
    let mut findings: Vec<String> =
        results.iter().flat_map(|result| result.validity.findings.iter().cloned()).collect();
    findings.sort();
    findings.dedup();
    results.sort_by(|one, other| one.throughput_per_s.total_cmp(&other.throughput_per_s));
    let mut result = results.swap_remove(results.len() / 2);
    result.throughput_per_s = rounded(median(throughputs.iter().copied()).unwrap_or(0.0), 1);
    (result.repetitions, result.repeated) =
        (throughputs, repeated.into_iter().map(|(member, values)| (member.into(), values)).collect());
    result.validity = crate::result::schema::Validity::of(findings);
    (result.lost, result.thresholds) = (lost, thresholds);
    if let Some(audit) = bad {
        result.audit = audit;
    }
    Some(result)
}

/// Figures beside throughput that all of them have, one value for each run.
fn repeated(results: &[LabResult]) -> BTreeMap<&'static str, Vec<f64>> {
    let others = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Throughput);
    let of_all = |metric: Metric| {
        let values = results.iter().map(|result| suite_pairs::value(metric, result));
        Some((metric.member(), values.collect::<Option<Vec<f64>>>()?))
    };
    others.filter_map(of_all).collect()
}

#[cfg(test)]
#[path = "suite_run_tests.rs"]
mod tests;

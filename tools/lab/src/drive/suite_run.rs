//! Runs several points one after the other, several times in turn, and writes what they gave.

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

/// What is measured for longer than this is not run once more for having been disturbed: a moment is a small part of
/// it, and it takes too long.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// The result that was disturbed, in the directory of the run that was made in its place.
const DISTURBED: &str = "disturbed.json";
/// Directory below a suite's, of the streams that are recorded for its runs: each once.
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
    /// Its directory below that of the suite; also how it is named to people.
    pub fn directory(&self) -> String {
        match self.point.label() {
            label if label.is_empty() => self.scenario.clone(),
            label => format!("{},{label}", self.scenario),
        }
    }
}

/// Several points, and how they are drawn.
#[derive(Clone, Debug, Default)]
pub struct SuitePlan {
    pub name: String,
    pub title: String,
    pub description: String,
    /// How often all of it is run.
    pub repetitions: usize,
    /// How long all of it may take, where that is said.
    pub within: Option<Duration>,
    pub points: Vec<SuitePoint>,
    /// Which of them belong together, and how often each of these is run.
    pub groups: Vec<Group>,
    pub plots: Vec<PlotResult>,
    pub questions: Vec<Question>,
    /// What is to be shown, each about points of a group.
    pub claims: Vec<(usize, Claim)>,
    /// Whether rates that are parts of the highest one must have been found by a search before; else they are parts of
    /// the file's own, as in a scenario that is run by itself.
    pub finds_rates: bool,
    /// What the suite has and what is not run.
    pub left_out: Vec<LeftOut>,
}

/// A scenario of a suite that is not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub scenario: String,
    /// The question that it would have answered, where the suite asks one.
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

    /// Adds what several scenarios answer together, after what the last of them answers by itself. Of scenarios that
    /// are left out nothing is asked.
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

/// What some runs of a suite tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The question that they answer.
    pub text: String,
    /// Which of `runs`.
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
    /// What it is.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// How often all of it was run.
    pub repetitions: usize,
    /// When it began, ISO 8601.
    pub began_at: String,
    /// When its last run had ended.
    pub ended_at: String,
    /// How long that was, in seconds.
    pub took_s: f64,
    /// How long it may take at most, in seconds, where that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_s: Option<f64>,
    /// Directories of the points, relative to the suite's.
    pub runs: Vec<String>,
    /// How they are drawn.
    pub plots: Vec<PlotResult>,
    /// What gave no result.
    pub failures: Vec<SuiteFailure>,
    /// What was not run, and why.
    pub left_out: Vec<LeftOut>,
    /// Directories of results that did not pass.
    pub not_passed: Vec<String>,
    /// Of each of these, why: [`LabResult::failings`].
    pub failings: BTreeMap<String, Vec<String>>,
    /// Which question which runs answer.
    pub questions: Vec<Question>,
    /// What was run beside a base, compared with it.
    pub pairs: Vec<PairResult>,
    /// What was to be shown, and what became of it.
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
    /// Parameter that tells lines apart.
    pub series: Option<String>,
    /// The figure.
    pub y: String,
    /// Which of `runs`.
    pub runs: Vec<usize>,
}

impl PlotResult {
    fn over(&self, runs: Range<usize>) -> Self {
        Self { runs: runs.collect(), ..self.clone() }
    }
}

/// Runs everything into a directory and writes `suite.json` there. `tell` is told what begins. A run that fails does
/// not end the others. Fails when the directory cannot be written.
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
            // What an earlier suite left there must not stand for it.
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

/// Removes what an earlier run in the same directory has recorded, which may have been another hub.
fn forget_recordings(out: &Path) -> Result<(), LabError> {
    let recordings = out.join(RECORDINGS);
    match std::fs::remove_dir_all(&recordings) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::io("write into", &recordings)(error))
        }
        _ => Ok(()),
    }
}

/// A suite that is being run.
struct Progress<'plan> {
    plan: &'plan SuitePlan,
    out: &'plan Path,
    commit: Option<&'plan str>,
    /// How many runs there are of each point in all, and how many were made.
    wanted: Vec<usize>,
    made: Vec<usize>,
    results: Vec<Vec<LabResult>>,
    /// Of each group, what was run one after the other.
    sequences: Vec<Vec<Vec<Turn>>>,
    failures: Vec<SuiteFailure>,
    /// The highest rate that the last breakpoint found, if it found one.
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

    /// What a point is to do, at the rate that a breakpoint found where it is to be a part of that; why not, where none
    /// was found.
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

    /// Does what a point says. What runs at a part of the rate that a search found is tried as a search tries its
    /// rates.
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
            // Not even that of a search before: this one may be of something else.
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
                // Whatever lost money or transfers has no speed.
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

/// Whether a run that something disturbed is made once more.
fn may_be_tried_twice(work: &Work) -> bool {
    match work {
        Work::EndToEnd { options, .. } => {
            options.percent_of_breakpoint.is_some() && options.duration <= AGAIN_MAX
        }
        Work::Isolated { .. } => false,
    }
}

/// Makes a run, and where something disturbed it another, which then stands for it: what disturbs two is no moment.
/// `again` is told what speaks against the first. That one stands where the second gives no result.
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

/// Keeps a result beside that of the run which is made in its place.
fn set_aside(directory: Option<&Path>) {
    if let Some(directory) = directory {
        // It is kept for whoever asks why there were two; no run is worth losing for it.
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

/// Several runs of the same as one: the one in the middle, with the figures of each. What speaks against one speaks
/// against all.
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

/// Beside throughput the figures that all of them have, one value of each run.
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

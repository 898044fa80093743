//! Runs several points one after the other, several times in turn, and writes their results.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::drive::error::LabError;
use crate::drive::session::now;
use crate::judge::suite_pairs::{self, judge, pairs_of};
use crate::judge::thresholds;
use crate::judge::turns::FinishedRun;
use crate::judge::validity::deserves_second_try;
use crate::observe::profile;
use crate::plan::load_profile::percent_of;
use crate::plan::metric::Metric;
use crate::plan::suite_plan::{SuitePlan, SuitePoint};
use crate::plan::surroundings::RunContext;
use crate::plan::{Claim, Test, Work};
use crate::result::suite::{SuiteFailure, SuiteResult};
use crate::result::{LabResult, SCHEMA_VERSION};
use crate::statistics::{median, rounded};
use crate::suite::execute::execute;

/// Maximum duration of a run that is repeated after a disturbance. In a longer run, a disturbance is a small part, and
/// a repetition takes too long.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// File of a disturbed result, in the directory of the run that replaced it.
const DISTURBED: &str = "disturbed.json";
/// Directory for recorded streams, below a suite's directory. Each stream is recorded once.
const RECORDINGS: &str = "recordings";

/// Runs everything into a directory and writes `suite.json` there. `tell` is called with a line at the start of each
/// run. A failed run does not end the others. Fails if the directory cannot be written.
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
        profile::carry(&directory);
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
    sequences: Vec<Vec<Vec<FinishedRun>>>,
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
                        "skipped: it needs {percent} % of the highest rate that meets the targets, and no earlier search found \
                         one"
                    ));
                }
            }
        }
        Ok(work)
    }

    /// Executes a point. A run at a part of a found rate is tried twice if it is disturbed, like a rate of a search.
    fn execute(
        &mut self,
        index: usize,
        surroundings: &RunContext,
        tell: &mut dyn FnMut(&str),
    ) -> Result<LabResult, String> {
        let work = self.work(index)?;
        let searches = matches!(work, Work::EndToEnd { test: Test::Breakpoint(_), .. });
        let run = || execute(&work, surroundings).map_err(|error| error.to_string());
        let result = if may_be_tried_twice(&work) {
            undisturbed(run, |findings| {
                tell(&format!("{}, again: {findings}", self.plan.points[index].directory()));
                set_aside(surroundings.out.as_deref());
            })
        } else {
            run()
        };
        if searches {
            // The rate of an earlier search is discarded in any case, because it may belong to another load.
            let found = result.as_ref().ok().and_then(|result| result.breakpoint.as_ref());
            self.rate_per_s = found.and_then(|found| found.highest_met_per_s);
        }
        result
    }

    /// Runs a point again.
    fn turn(&mut self, index: usize, tell: &mut dyn FnMut(&str)) -> FinishedRun {
        let point = &self.plan.points[index];
        self.made[index] += 1;
        let (number, total) = (self.made.iter().sum::<usize>(), self.wanted.iter().sum::<usize>());
        tell(&format!("{number} of {total}: {}", point.directory()));
        let mut directory = self.out.join(point.directory());
        if self.wanted[index] > 1 {
            directory = directory.join(format!("repetition-{}", self.made[index]));
        }
        let surroundings = RunContext {
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
        FinishedRun { point: index, figures }
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

/// Executes a run. If it is disturbed, executes it again and returns the second result, because a second disturbance is
/// not momentary. `again` is called with the findings about the first run. If the second run fails, the first result is
/// returned.
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

/// Keeps the first result beside the result that replaces it.
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
#[path = "run_tests.rs"]
mod tests;

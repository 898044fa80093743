//! The runs of a suite: points, their groups, and the order of the runs, which take turns.
//!
//! Shared machines have phases: for some minutes everything is slower. A phase must affect compared runs alike. So a
//! run that is compared with a base is made between two runs of the base (A B A C A B A C A), and compared with the
//! mean of these two. A phase affects both, and a linear drift cancels out.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::plot::SuitePlot;
use crate::plan::{Claim, Point, ScenarioFile, SuiteFile, SuiteRun};

/// One run of a suite: a point of a scenario.
#[derive(Clone, Debug)]
pub struct SuitePoint {
    pub scenario: String,
    pub title: String,
    pub description: String,
    pub point: Point,
}

impl SuitePoint {
    /// The name of its directory below the suite's directory. Reports show it, too.
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
    pub plots: Vec<SuitePlot>,
    pub questions: Vec<SuiteQuestion>,
    /// The claims to be judged, each about a point of the group with that index.
    pub claims: Vec<(usize, Claim)>,
    /// Whether the plan has breakpoint searches. Without them, a percentage of the highest rate is a percentage of the
    /// file's own rate.
    pub finds_rates: bool,
    /// Scenarios of the suite that are not run.
    pub left_out: Vec<LeftOut>,
}

impl SuitePlan {
    /// The plan of a scenario that runs alone.
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

    /// The plan of a suite.
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
            plan.questions.extend(run.question.clone().map(|text| SuiteQuestion { text, runs }));
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
                self.questions.push(SuiteQuestion { text: question.text.clone(), runs });
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

    /// Number of runs of the whole plan.
    pub fn runs(&self) -> usize {
        let turns = self.groups.iter().map(|group| group.turns(self.repetitions).len()).sum::<usize>();
        turns * self.repetitions
    }
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

/// A question that some runs of a suite answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuiteQuestion {
    /// The text of the question.
    pub text: String,
    /// Indices into `runs`.
    pub runs: Vec<usize>,
}

/// The points of one scenario.
#[derive(Clone, Debug)]
pub struct Group {
    pub points: Range<usize>,
    /// Repetitions of each point in one run of the suite.
    pub repetitions: usize,
    /// Whether the others are compared with the first one.
    pub is_against_first: bool,
}

impl Group {
    /// The points in the order of their runs; the suite is run `suite_repetitions` times.
    pub fn turns(&self, suite_repetitions: usize) -> Vec<usize> {
        let is_interleaved = self.is_against_first && self.repetitions * suite_repetitions > 1;
        if !is_interleaved {
            return (0..self.repetitions).flat_map(|_| self.points.clone()).collect();
        }
        let base = self.points.start;
        let others = (0..self.repetitions).flat_map(|_| self.points.clone().skip(1));
        [base].into_iter().chain(others.flat_map(|other| [other, base])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_run_is_between_two_runs_of_its_base() {
        let group = |points, repetitions, is_against_first| Group { points, repetitions, is_against_first };
        for (group, suite_repetitions, expected) in [
            (group(0..3, 1, true), 1, &[0, 1, 2][..]),
            (group(4..6, 3, true), 1, &[4, 5, 4, 5, 4, 5, 4]),
            (group(0..3, 2, true), 1, &[0, 1, 0, 2, 0, 1, 0, 2, 0]),
            (group(0..3, 1, true), 2, &[0, 1, 0, 2, 0]),
            (group(0..3, 2, false), 1, &[0, 1, 2, 0, 1, 2]),
            (group(7..8, 2, false), 5, &[7, 7]),
        ] {
            assert_eq!(group.turns(suite_repetitions), expected, "{group:?}");
        }
    }
}

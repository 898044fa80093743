//! Suite files: scenarios that run one after the other, several times in turn.

use std::path::Path;
use std::time::Duration;

use super::section::{Mistakes, Node, Section};
use super::{
    Mistake, PlanError, REPETITIONS_MAX, SUITES, ScenarioFile, Test, Work, looks_like_path, read_text, stem,
    sweep,
};
use crate::plan::plot::SuitePlot;

/// Length of the profile in a suite's run: enough for about two thousand samples of one core by `upesi_profile`.
pub(super) const PROFILE_LENGTH: Duration = Duration::from_secs(10);

/// One `[[run]]` of a suite.
#[derive(Clone, Debug)]
pub struct SuiteRun {
    /// The scenario, with the suite's changes in it.
    pub scenario: ScenarioFile,
    /// The question that the scenario answers for a reader.
    pub question: Option<String>,
    /// Whether the hub is profiled after the measurement.
    pub profile: bool,
}

/// A question that several scenarios of a suite answer together. Each scenario may have a question of its own, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteQuestion {
    pub text: String,
    pub scenarios: Vec<String>,
}

/// A suite file that was read and is valid, with all of its scenarios.
#[derive(Clone, Debug)]
pub struct SuiteFile {
    /// The name of its file, without the ending.
    pub name: String,
    pub title: String,
    pub description: String,
    /// Number of runs of every point; the points take turns.
    pub repetitions: usize,
    /// Maximum duration of the suite; the report compares the actual duration with it.
    pub within: Option<Duration>,
    pub runs: Vec<SuiteRun>,
    pub questions: Vec<SuiteQuestion>,
    /// Plots over all points.
    pub plots: Vec<SuitePlot>,
}

impl SuiteFile {
    /// Finds a built-in suite by its name, or reads a file by its path. Fails if there is none, or if the suite or one
    /// of its scenarios has mistakes.
    pub fn named(name: &str) -> Result<Self, PlanError> {
        if let Some((name, text)) = SUITES.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text, None);
        }
        if !looks_like_path(name) {
            return Err(PlanError::Unknown { what: "suite", name: name.to_owned() });
        }
        let path = Path::new(name);
        let mut suite = Self::parse(name, &read_text(path)?, path.parent())?;
        suite.name = stem(path);
        Ok(suite)
    }

    /// Parses a text; paths of scenario files are relative to `directory`. Fails with every mistake in it, or with
    /// every mistake in the first invalid scenario.
    pub fn parse(name: &str, text: &str, directory: Option<&Path>) -> Result<Self, PlanError> {
        let (mut node, mistakes) = Node::parse(text);
        let mistakes = Mistakes::new(mistakes);
        let plots = node.take("plot");
        let plots = sweep::plots(plots.as_ref(), &[], &mistakes);
        let mut file = Section::new("", Some(&node), &mistakes);
        let title = file.text_required("title");
        let description = file.text("description").unwrap_or_default().trim().to_owned();
        let repetitions = file.size("repetitions", 1..=REPETITIONS_MAX).unwrap_or(1);
        let within = file.duration("within");
        let mut runs = Vec::new();
        let mut failure = None;
        for mut section in file.tables("run", "run") {
            match run(&mut section, directory) {
                Ok(run) => runs.push(run),
                Err(PlanError::Unknown { name, .. }) => {
                    section.mistake(format!("no scenario is named {name:?}"));
                }
                Err(PlanError::Mistakes { file, mistakes }) => {
                    for mistake in mistakes {
                        // A value that the suite sets has no line in the scenario.
                        let line = if mistake.line == 0 {
                            String::new()
                        } else {
                            format!(", line {}", mistake.line)
                        };
                        let text = format!("in {file}{line}: {}", mistake.text);
                        section.mistake(text);
                    }
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if runs.is_empty() && failure.is_none() && mistakes.borrow().is_empty() {
            file.mistake_at(0, "a suite needs at least one [[run]]");
        }
        let all_are_read = failure.is_none() && mistakes.borrow().is_empty();
        let questions = questions(&mut file, &runs, all_are_read);
        drop(file);
        let mut mistakes = mistakes.into_inner();
        if !mistakes.is_empty() {
            mistakes.sort_by_key(|mistake: &Mistake| mistake.line);
            return Err(PlanError::Mistakes { file: name.to_owned(), mistakes });
        }
        match failure {
            Some(error) => Err(error),
            None => {
                let name = name.to_owned();
                Ok(Self { name, title, description, repetitions, within, runs, questions, plots })
            }
        }
    }
}

/// The questions of several scenarios. Their scenarios can only be checked if all runs of the suite could be read.
fn questions(file: &mut Section<'_>, runs: &[SuiteRun], all_are_read: bool) -> Vec<SuiteQuestion> {
    let has = |name: &str| runs.iter().any(|run| run.scenario.name == name);
    let question = |section: &mut Section<'_>| {
        let text = section.text_required("text");
        let scenarios = section.texts("scenarios").unwrap_or_default();
        let strange = scenarios.iter().find(|name| !has(name.as_str()));
        if let Some(name) = strange.filter(|_| all_are_read) {
            let text = format!("question.scenarios: this suite has no [[run]] of {name:?}");
            section.mistake(text);
        }
        if scenarios.is_empty() {
            section.mistake("question.scenarios: name the scenarios that answer it");
        }
        SuiteQuestion { text, scenarios }
    };
    file.tables("question", "question").iter_mut().map(question).collect()
}

fn run(section: &mut Section<'_>, directory: Option<&Path>) -> Result<SuiteRun, PlanError> {
    let name = section.text_required("scenario");
    let question = section.text("question");
    let profile = section.flag("profile").unwrap_or(false);
    let changes = section.node("set").map(sweep::axes_of).unwrap_or_default();
    let changes: Vec<(String, Node)> =
        changes.into_iter().map(|(path, node)| (path, Node { line: 0, ..node.clone() })).collect();
    let mut scenario = match super::SCENARIOS.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => ScenarioFile::with_changes(name, text, &changes)?,
        None if looks_like_path(&name) => {
            let path = directory.map_or_else(|| Path::new(&name).to_owned(), |parent| parent.join(&name));
            let mut scenario =
                ScenarioFile::with_changes(&path.display().to_string(), &read_text(&path)?, &changes)?;
            scenario.rename(&stem(&path));
            scenario
        }
        None => return Err(PlanError::Unknown { what: "scenario", name }),
    };
    if profile && !look_into(&mut scenario) {
        let text =
            format!("{}: only a steady load on a hub can be profiled: leave out profile", scenario.name);
        section.mistake(text);
    }
    Ok(SuiteRun { scenario, question, profile })
}

/// Makes every run profile its hub. Returns false if a run has no hub, or if its load varies and ends with the measured
/// time.
fn look_into(scenario: &mut ScenarioFile) -> bool {
    scenario.points.iter_mut().all(|point| match &mut point.work {
        Work::EndToEnd { options, test } => {
            options.profile = Some(PROFILE_LENGTH);
            let is_search = matches!(test, Test::Breakpoint(_));
            !is_search && options.alone.is_none() && options.load.stages().is_empty()
        }
        Work::Isolated { .. } => false,
    })
}

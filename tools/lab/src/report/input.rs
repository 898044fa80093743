//! Finds and reads the results that a user names.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::ReportError;
use crate::observe::profile::{FLAME_GRAPH, SHARES};
use crate::plan::parameters;
use crate::report::absences::absences;
use crate::report::run::{Run, Shares};
use crate::result::file::{FileError, read, read_result};
use crate::result::suite::SuiteResult;

/// Maximum size of a flame graph in a page, in bytes. A larger one stays in its file.
const FLAME_GRAPH_BYTES_MAX: u64 = 512 * 1024;
const RUNS_MAX: usize = 1_000;

/// Several runs that belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suite {
    /// The content of its file; runs in it are indices into [`Results::runs`].
    pub file: SuiteResult,
    /// Indices into [`Results::runs`].
    pub runs: Vec<usize>,
    /// Runs that the suite names and that are missing, with the reason, one sentence each.
    pub absences: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub runs: Vec<Run>,
    pub suites: Vec<Suite>,
    pub only_suites: bool,
}

pub(crate) fn load(paths: &[PathBuf]) -> Result<Results, ReportError> {
    if paths.is_empty() {
        return Err(ReportError::Nothing);
    }
    let mut results = Results { only_suites: true, ..Results::default() };
    for path in paths {
        let file = file_of(path);
        let value = read_result(&file)?;
        if value.get("runs").is_some_and(Value::is_array) && value.get("scenario").is_none() {
            let suite = read_suite(&file, value, &mut results.runs)?;
            results.suites.push(suite);
        } else {
            results.only_suites = false;
            results.runs.push(read_run(&file, value)?);
        }
        if results.runs.len() > RUNS_MAX {
            return Err(ReportError::TooMany { runs_max: RUNS_MAX });
        }
    }
    label(&mut results.runs);
    Ok(results)
}

/// The file of a directory: a suite's takes precedence over a run's.
fn file_of(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let suite = path.join("suite.json");
    if suite.is_file() { suite } else { path.join("result.json") }
}

fn read_run(path: &Path, value: Value) -> Result<Run, ReportError> {
    let mut run = Run::of(value).map_err(|source| FileError::Malformed { path: path.to_owned(), source })?;
    run.directory = directory_name(path);
    let shares = path.with_file_name(SHARES);
    // Only a run in its own directory has a profile beside it.
    if path.file_name().is_some_and(|name| name == "result.json") && shares.is_file() {
        let value = read(&shares)?;
        let found =
            Shares::deserialize(value).map_err(|source| FileError::Malformed { path: shares, source })?;
        run.shares = Some(found);
        run.flame_graph = flame_graph(&path.with_file_name(FLAME_GRAPH));
    }
    Ok(run)
}

/// A flame graph that fits a page. One that cannot be read is left out, because nothing depends on it.
fn flame_graph(path: &Path) -> Option<String> {
    let length = std::fs::metadata(path).ok()?.len();
    let bytes = if length <= FLAME_GRAPH_BYTES_MAX { std::fs::read(path).ok()? } else { return None };
    Some(STANDARD.encode(bytes))
}

fn directory_name(file: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A result that is kept under its own file name is known by that name.
    if file.file_name().is_some_and(|name| name != "result.json") {
        return file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    }
    let absolute = parent.map(Path::to_owned).or_else(|| std::env::current_dir().ok());
    absolute.as_deref().and_then(name).unwrap_or_else(|| "result".to_owned())
}

fn read_suite(path: &Path, value: Value, runs: &mut Vec<Run>) -> Result<Suite, ReportError> {
    let malformed = |source| FileError::Malformed { path: path.to_owned(), source };
    let mut file = SuiteResult::deserialize(value).map_err(malformed)?;
    if file.runs.len() > RUNS_MAX {
        return Err(ReportError::TooMany { runs_max: RUNS_MAX });
    }
    let base = path.parent().unwrap_or_else(|| Path::new(""));
    let mut missing = Vec::new();
    // The index of each of the suite's runs among all runs.
    let mut places = Vec::new();
    for name in &file.runs {
        let result = file_of(&base.join(name));
        if result.is_file() {
            places.push(Some(runs.len()));
            runs.push(read_run(&result, read_result(&result)?)?);
        } else {
            places.push(None);
            missing.push(name.clone());
        }
    }
    let absences = absences(&missing, &file.failures, &file.left_out);
    let place = |index: usize| places.get(index).copied().flatten();
    let all: Vec<usize> = places.iter().copied().flatten().collect();
    for plot in &mut file.plots {
        if plot.title.is_empty() {
            plot.title = format!("By {}", parameters::heading(&plot.x));
        }
        if plot.y.is_empty() {
            "throughput_per_s".clone_into(&mut plot.y);
        }
        plot.runs = if plot.runs.is_empty() {
            all.clone()
        } else {
            plot.runs.iter().copied().filter_map(place).collect()
        };
    }
    for question in &mut file.questions {
        question.runs = question.runs.iter().copied().filter_map(place).collect();
    }
    file.pairs.retain_mut(|pair| {
        let both = place(pair.base).zip(place(pair.other));
        (pair.base, pair.other) = both.unwrap_or_default();
        both.is_some()
    });
    if file.title.is_empty() {
        file.title = if file.name.is_empty() { "Suite".to_owned() } else { file.name.clone() };
    }
    Ok(Suite { file, runs: all, absences })
}

/// Gives every run the shortest label that distinguishes it: its name, its parameters, its directory, or a number.
fn label(runs: &mut [Run]) {
    type Labelling = fn(&Run) -> String;
    let named: Labelling = |run| run.name().to_owned();
    let with_parameters: Labelling = |run| match run.parameters_text() {
        text if text.is_empty() => run.name().to_owned(),
        text => format!("{}, {text}", run.name()),
    };
    let directory: Labelling = |run| run.directory.clone();
    for labelling in [named, with_parameters, directory] {
        let mut labels: Vec<String> = runs.iter().map(labelling).collect();
        for (run, label) in runs.iter_mut().zip(&labels) {
            run.label.clone_from(label);
        }
        labels.sort();
        labels.dedup();
        if labels.len() == runs.len() {
            return;
        }
    }
    for (index, run) in runs.iter_mut().enumerate() {
        run.label = format!("{} #{}", run.label, index + 1);
    }
}

//! Finds and reads the results that a person names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::ReportError;
use super::run::{self, Shares};
use crate::drive::suite_run::{LeftOut, Question, SuiteFailure};
use crate::report::parameters;
use crate::report::run::Run;
use crate::report::suite::{Beside, Claim, Length, PairFile, absences};

/// Newest layout of `result.json` and `suite.json` that is understood.
const SCHEMA_VERSION_MAX: u64 = 2;
/// Largest file that is read, in bytes: an hour per second with all its buckets is below one mebibyte.
pub(crate) const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The flame graph that `upesi lab profile` keeps beside a result.
const FLAME_GRAPH: &str = "profile.svg";
/// A larger one is left to its file, in bytes.
const FLAME_GRAPH_BYTES_MAX: u64 = 512 * 1024;
const RUNS_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub title: String,
    /// Name of the parameter on the horizontal axis.
    pub x: String,
    /// Name of the parameter that tells lines apart.
    pub series: Option<String>,
    /// Name of the figure on the vertical axis.
    pub y: String,
    /// Which runs, as indices into [`Results::runs`].
    pub runs: Vec<usize>,
}

/// Several runs that belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suite {
    pub title: String,
    pub plots: Vec<Plot>,
    /// Indices into [`Results::runs`].
    pub runs: Vec<usize>,
    /// What the suite names and what is not there, with the reason, a sentence each.
    pub absences: Vec<String>,
    pub pairs: Vec<Beside>,
    pub claims: Vec<Claim>,
    pub questions: Vec<Question>,
    /// How long it took, where it says so.
    pub length: Option<Length>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub runs: Vec<Run>,
    pub suites: Vec<Suite>,
    pub only_suites: bool,
}

#[derive(Deserialize)]
struct SuiteFile {
    name: Option<String>,
    title: Option<String>,
    runs: Vec<String>,
    plots: Option<Vec<PlotFile>>,
    pairs: Option<Vec<PairFile>>,
    claims: Option<Vec<Claim>>,
    questions: Option<Vec<Question>>,
    failures: Option<Vec<SuiteFailure>>,
    left_out: Option<Vec<LeftOut>>,
    began_at: Option<String>,
    took_s: Option<f64>,
    within_s: Option<f64>,
}

#[derive(Deserialize)]
struct PlotFile {
    title: Option<String>,
    x: String,
    series: Option<String>,
    y: Option<String>,
    runs: Option<Vec<usize>>,
}

pub(crate) fn load(paths: &[PathBuf]) -> Result<Results, ReportError> {
    if paths.is_empty() {
        return Err(ReportError::Nothing);
    }
    let mut results = Results { only_suites: true, ..Results::default() };
    for path in paths {
        let file = file_of(path);
        let value = read(&file)?;
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

/// The file of a directory: a suite's before a run's.
fn file_of(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let suite = path.join("suite.json");
    if suite.is_file() { suite } else { path.join("result.json") }
}

/// Reads a file as it is.
pub(crate) fn read(path: &Path) -> Result<Value, ReportError> {
    let unreadable = |source| ReportError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ReportError::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX });
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|source| ReportError::Malformed { path: path.to_owned(), source })?;
    // Whoever leaves the version out means the first.
    let version = value.get("schema_version").and_then(Value::as_u64).unwrap_or(1);
    if version > SCHEMA_VERSION_MAX {
        return Err(ReportError::TooNew { path: path.to_owned(), version, known: SCHEMA_VERSION_MAX });
    }
    Ok(value)
}

fn read_run(path: &Path, value: Value) -> Result<Run, ReportError> {
    let mut run =
        Run::of(value).map_err(|source| ReportError::Malformed { path: path.to_owned(), source })?;
    run.directory = directory_name(path);
    let shares = path.with_file_name(run::FILE);
    // Only what a run wrote as a directory of its own has a profile beside it.
    if path.file_name().is_some_and(|name| name == "result.json") && shares.is_file() {
        let value = read(&shares)?;
        let found =
            Shares::deserialize(value).map_err(|source| ReportError::Malformed { path: shares, source })?;
        run.shares = Some(found);
        run.flame_graph = flame_graph(&path.with_file_name(FLAME_GRAPH));
    }
    Ok(run)
}

/// A picture that a page can hold; one that cannot be read is left out, as nothing depends on it.
fn flame_graph(path: &Path) -> Option<String> {
    let length = std::fs::metadata(path).ok()?.len();
    let bytes = if length <= FLAME_GRAPH_BYTES_MAX { std::fs::read(path).ok()? } else { return None };
    Some(STANDARD.encode(bytes))
}

fn directory_name(file: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A result that is kept under a name of its own is known by that name.
    if file.file_name().is_some_and(|name| name != "result.json") {
        return file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    }
    let absolute = parent.map(Path::to_owned).or_else(|| std::env::current_dir().ok());
    absolute.as_deref().and_then(name).unwrap_or_else(|| "result".to_owned())
}

fn read_suite(path: &Path, value: Value, runs: &mut Vec<Run>) -> Result<Suite, ReportError> {
    let malformed = |source| ReportError::Malformed { path: path.to_owned(), source };
    let file = SuiteFile::deserialize(value).map_err(malformed)?;
    if file.runs.len() > RUNS_MAX {
        return Err(ReportError::TooMany { runs_max: RUNS_MAX });
    }
    let base = path.parent().unwrap_or_else(|| Path::new(""));
    let mut missing = Vec::new();
    // Where each run of the suite is among all runs.
    let mut places = Vec::new();
    for name in &file.runs {
        let result = file_of(&base.join(name));
        if result.is_file() {
            places.push(Some(runs.len()));
            let value = read(&result)?;
            runs.push(read_run(&result, value)?);
        } else {
            places.push(None);
            missing.push(name.clone());
        }
    }
    let place = |index: usize| places.get(index).copied().flatten();
    let plots = file.plots.unwrap_or_default().into_iter().map(|plot| Plot {
        title: plot.title.unwrap_or_else(|| format!("By {}", parameters::heading(&plot.x))),
        x: plot.x,
        series: plot.series,
        y: plot.y.unwrap_or_else(|| "throughput_per_s".to_owned()),
        runs: match plot.runs {
            Some(indices) => indices.into_iter().filter_map(place).collect(),
            None => places.iter().copied().flatten().collect(),
        },
    });
    let plots = plots.collect();
    let title = file.title.or(file.name).unwrap_or_else(|| "Suite".to_owned());
    let pairs = file.pairs.unwrap_or_default().into_iter().filter_map(|pair| pair.placed(place)).collect();
    let mut questions = file.questions.unwrap_or_default();
    questions.iter_mut().for_each(|one| one.runs = one.runs.drain(..).filter_map(place).collect());
    let claims = file.claims.unwrap_or_default();
    let (failures, left_out) = (file.failures.unwrap_or_default(), file.left_out.unwrap_or_default());
    let absences = absences(&missing, &failures, &left_out);
    let (began_at, within_s) = (file.began_at, file.within_s);
    let length = file.took_s.map(|seconds| Length { began_at, seconds, within_s });
    Ok(Suite {
        title,
        plots,
        runs: places.into_iter().flatten().collect(),
        absences,
        pairs,
        claims,
        questions,
        length,
    })
}

/// Gives every run the shortest text that tells it from the others: its name, its parameters, its directory, a number.
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

//! Reports of the characterization lab.
//!
//! Reads the files of runs (`result.json`, and the `suite.json` of several runs) and explains them to people: as a
//! table for a terminal, as rows of Markdown, as a comparison with intervals and a verdict in words, and as one
//! self-contained HTML page. Nothing is measured here; everything can be repeated from the files. The intervals are
//! computed from the samples of `run.rs`: repetitions, or else slices or seconds of one run. The plots are chosen in
//! `html/plots.rs`, and drawn by `html/page.js` with uPlot (`html/uplot/`, MIT).
//!
//! The same files produce the same bytes. All texts from a file are escaped on the page. The page's security policy
//! contains the hash of its one script, so that no other script can run.
#![allow(clippy::float_arithmetic, reason = "statistics and coordinates of plots; no money is computed here")]

mod absences;
mod compare;
mod comparison;
mod conditions;
mod difference;
mod grid;
mod html;
mod input;
mod run;
mod run_table;
mod suite;
mod text;
mod verdict;

use std::path::{Path, PathBuf};

pub use compare::Pair;
pub use comparison::Comparison;
pub use difference::{Difference, Judgement};

use crate::result::file::FileError;

/// Compares results with the first of them. For suites, compares every run with the run of the same name and parameters
/// in the first suite. Each path is a directory that a run or suite wrote, or its `result.json` or `suite.json`. The
/// comparison's `Display` is a table and the verdict in words. Fails if fewer than two results are given or one cannot
/// be read.
pub fn compare(paths: &[PathBuf]) -> Result<Comparison, ReportError> {
    comparison::compare(&input::load(paths)?)
}

/// The results as a table for a terminal: by question if a suite has questions, with comparisons of runs that took
/// turns, and with the verdicts on claims. Fails if a result cannot be read.
pub fn text(paths: &[PathBuf]) -> Result<String, ReportError> {
    Ok(text::results(&input::load(paths)?))
}

/// The results as a table in Markdown, with their common conditions below it. Fails if a result cannot be read.
pub fn markdown(paths: &[PathBuf]) -> Result<String, ReportError> {
    Ok(text::markdown(&input::load(paths)?))
}

/// Writes the results as one HTML page that loads nothing: style, script and plots are inside. Two or more results are
/// compared with the first; suites bring their plots. Fails if a result cannot be read or the page cannot be written.
pub fn write_html(paths: &[PathBuf], page: &Path) -> Result<(), ReportError> {
    let content = html::page(&input::load(paths)?);
    std::fs::write(page, content).map_err(|source| ReportError::Unwritable { path: page.to_owned(), source })
}

/// Results that cannot be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("no result was given; give directories that `upesi lab run --out` wrote")]
    Nothing,
    #[error("a comparison needs at least two results, and one was given")]
    OnlyOne,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("more than {runs_max} results were given; report on them in parts")]
    TooMany { runs_max: usize },
    #[error("the suites have no run in common by name and parameters, so there is nothing to compare")]
    NothingInCommon,
    #[error("{path} could not be written: {source}")]
    Unwritable { path: PathBuf, source: std::io::Error },
}

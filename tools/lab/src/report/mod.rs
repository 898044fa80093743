//! Reports of the characterization lab.
//!
//! Reads what runs leave behind (`result.json`, and the `suite.json` of several runs) and tells people what it
//! means: a table for a terminal, rows of Markdown, a comparison with intervals and a verdict in words, and one HTML
//! page that needs nothing but itself. Nothing here measures; everything here can be repeated from the files. An
//! interval rests on the samples of `run.rs`: repetitions, or else slices or seconds of one run; what is plotted is
//! chosen in `html/plots.rs`, and drawn by `html/page.js` with uPlot (`html/uplot/`, MIT).
//!
//! The same files give the same bytes; a text from a file reaches the page only escaped; the page's one script is named
//! by its hash in the page's own security policy, so that no other can run.
#![allow(clippy::float_arithmetic, reason = "statistics and coordinates of plots; no money is computed here")]

mod compare;
mod conditions;
pub mod figures;
mod html;
pub(crate) mod input;
pub mod parameters;
pub mod published;
mod run;
pub mod statistics;
mod suite;
mod summary;
mod text;
mod verdict;

use std::path::{Path, PathBuf};

pub use compare::{Comparison, Difference, Judgement, Metric, Pair};

/// Compares results with the first of them; of suites, every run with the run of the same name and parameters in the
/// first. Each path is a directory that a run or suite wrote, or its `result.json` or `suite.json`. The comparison's
/// `Display` is a table and the verdict in words. Fails when fewer than two results are given or one cannot be read.
pub fn compare(paths: &[PathBuf]) -> Result<Comparison, ReportError> {
    compare::compare(&input::load(paths)?)
}

/// The results as a table for a terminal: by question where a suite asks some, with what took turns compared, and
/// what became of claims. Fails when a result cannot be read.
pub fn text(paths: &[PathBuf]) -> Result<String, ReportError> {
    Ok(text::results(&input::load(paths)?))
}

/// The results as a table in Markdown, with the conditions that they share below it. Fails when a result cannot be
/// read.
pub fn markdown(paths: &[PathBuf]) -> Result<String, ReportError> {
    Ok(text::markdown(&input::load(paths)?))
}

/// A text as a paragraph of Markdown, in lines that an editor shows whole.
pub fn paragraph(text: &str) -> String {
    text::wrapped(&text::escaped(text), "")
}

/// Writes the results as one HTML page that loads nothing: style, script and plots are inside. Two or more results
/// are compared with the first; suites bring their plots. Fails when a result cannot be read or the page not be
/// written.
pub fn write_html(paths: &[PathBuf], page: &Path) -> Result<(), ReportError> {
    write_html_beside(paths, None, page)
}

/// The same, with published figures beside ours as the page's first part. Fails when a result cannot be read or the
/// page not be written.
pub fn write_html_beside(
    paths: &[PathBuf],
    published: Option<&published::Beside>,
    page: &Path,
) -> Result<(), ReportError> {
    let content = html::page(&input::load(paths)?, published);
    std::fs::write(page, content).map_err(|source| ReportError::Unwritable { path: page.to_owned(), source })
}

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("no result was named; give directories that `upesi lab run --out` wrote")]
    Nothing,
    #[error("a comparison needs at least two results, and one was given")]
    OnlyOne,
    #[error("{path}: {source}; give a directory with result.json or suite.json, or such a file")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a result of the lab: {source}")]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error(
        "{path} has layout version {version}, this program reads version {known}; use the release that wrote it"
    )]
    Layout { path: PathBuf, version: u64, known: u32 },
    #[error("{path} has more than {bytes_max} bytes, which no result of the lab has")]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("more than {runs_max} results were given; report on them in parts")]
    TooMany { runs_max: usize },
    #[error("the suites have no run in common by name and parameters, so there is nothing to compare")]
    NothingInCommon,
    #[error("{path} could not be written: {source}")]
    Unwritable { path: PathBuf, source: std::io::Error },
}

//! What can go wrong when results are read and a report is written.

use std::path::PathBuf;

/// Why there is no report.
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
        "{path} has layout version {version}, this program reads up to {known}; use the release that wrote it"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        version: u64,
        known: u64,
    },
    #[error("{path} has more than {bytes_max} bytes, which no result of the lab has")]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("more than {runs_max} results were given; report on them in parts")]
    TooMany { runs_max: usize },
    #[error("the suites have no run in common by name and parameters, so there is nothing to compare")]
    NothingInCommon,
    #[error("{path} could not be written: {source}")]
    Unwritable { path: PathBuf, source: std::io::Error },
}

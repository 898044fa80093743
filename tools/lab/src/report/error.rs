//! What can go wrong when results are read and a report is written.

use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Nothing to report on.
    #[error("no result was named; give directories that `upesi lab run --out` wrote")]
    Nothing,
    /// A comparison needs two.
    #[error("a comparison needs at least two results, and one was given")]
    OnlyOne,
    /// A file could not be read.
    #[error("{path}: {source}; give a directory with result.json or suite.json, or such a file")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} is not a result of the lab: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
    /// A file was written by a later release.
    #[error(
        "{path} has layout version {version}, this program reads up to {known}; use the release that wrote it"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
        /// The newest version known here.
        known: u64,
    },
    /// A file is larger than any result.
    #[error("{path} has more than {bytes_max} bytes, which no result of the lab has")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// More results than a page can show.
    #[error("more than {runs_max} results were given; report on them in parts")]
    TooMany {
        /// The limit.
        runs_max: usize,
    },
    /// Two suites without a run in common.
    #[error("the suites have no run in common by name and parameters, so there is nothing to compare")]
    NothingInCommon,
    /// The page could not be written.
    #[error("{path} could not be written: {source}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

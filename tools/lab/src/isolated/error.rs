//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use super::KINDS;
use super::stream::StreamError;
use crate::drive::child::ChildError;

/// Why a stage could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedError {
    #[error("there is no isolated kind {kind:?}; give one of {kinds}")]
    Kind { kind: String, kinds: String },
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the engine does not start: {0}")]
    Start(#[from] upesi_engine::StartError),
    #[error("the engine refused {what}: {reason}")]
    Refused { what: &'static str, reason: String },
    #[error(transparent)]
    Journal(#[from] upesi_journal::JournalError),
    #[error(transparent)]
    Directory(#[from] upesi_journal::DataDirectoryError),
    #[error("the archive: {0}")]
    Archive(#[from] upesi_tables::TablesError),
    #[error("no stream can be recorded: {0}")]
    Recording(Box<crate::drive::run::LabError>),
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("no operator can be made: {0}")]
    Operator(String),
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    #[error("the receivers cannot listen: {0}")]
    Bind(#[from] upesi_http::BindError),
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] upesi_sim::SimError),
    #[error("{what} made no progress for {seconds} s")]
    Stuck { what: &'static str, seconds: u64 },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl IsolatedError {
    pub(super) fn unknown_kind(kind: &str) -> Self {
        let kinds: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
        Self::Kind { kind: kind.to_owned(), kinds: kinds.join(", ") }
    }

    pub(super) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }

    pub(super) fn thread(source: io::Error) -> Self {
        Self::Io { what: "cannot start a thread".to_owned(), source }
    }

    /// A failure of a thread of the measurement itself.
    pub(super) fn panicked() -> Self {
        Self::Io { what: "a thread of the measurement".to_owned(), source: io::Error::other("it panicked") }
    }

    /// Whether the asker made a mistake, rather than the machine.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Kind { .. } | Self::Settings(_))
    }

    /// The stream that is missing, if that is what is wrong.
    pub fn missing_stream(&self) -> Option<&PathBuf> {
        match self {
            Self::Stream(error) => error.missing(),
            _ => None,
        }
    }
}

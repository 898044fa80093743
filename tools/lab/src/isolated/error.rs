//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use super::KINDS;
use super::stream::StreamError;
use crate::drive::child::ChildError;

/// Why a stage could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum IsolatedError {
    /// No such kind.
    #[error("there is no isolated kind {kind:?}; give one of {kinds}")]
    Kind {
        /// What was asked for.
        kind: String,
        /// What there is.
        kinds: String,
    },
    /// The table of the scenario has mistakes.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    /// The recorded stream cannot be used.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The engine does not start.
    #[error("the engine does not start: {0}")]
    Start(#[from] upesi_engine::StartError),
    /// The engine refused a command.
    #[error("the engine refused {what}: {reason}")]
    Refused {
        /// What was submitted.
        what: &'static str,
        /// What it said.
        reason: String,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] upesi_journal::JournalError),
    /// The journal's directory cannot be used.
    #[error(transparent)]
    Directory(#[from] upesi_journal::DataDirectoryError),
    /// The archive failed.
    #[error("the archive: {0}")]
    Archive(#[from] upesi_tables::TablesError),
    /// The hub that was to be recorded.
    #[error("no stream can be recorded: {0}")]
    Recording(Box<crate::drive::run::LabError>),
    /// The hub does not run.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// Threads.
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    /// A port for the receivers.
    #[error("the receivers cannot listen: {0}")]
    Bind(#[from] upesi_http::BindError),
    /// The simulated DFSPs.
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] upesi_sim::SimError),
    /// Nothing moved for too long.
    #[error("{what} made no progress for {seconds} s")]
    Stuck {
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
    /// A file or a thread.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
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

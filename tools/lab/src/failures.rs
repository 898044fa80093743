//! Exit codes and messages of commands that fail.

use std::fmt::Display;
use std::io;
use std::path::Path;

use tokio::runtime::{Builder, Runtime};
use upesi_process::exit::{Exit, Failure, Outcome};

use crate::drive::error::LabError;
use crate::judge::merge::MergeError;
use crate::plan::PlanError;
use crate::report::ReportError;
use crate::result::file::FileError;
use crate::suite::execute::ExecuteError;

pub(crate) fn unavailable(error: impl Display) -> Failure {
    Failure::new(Exit::Unavailable, error)
}

pub(crate) fn software(error: impl Display) -> Failure {
    Failure::new(Exit::Software, error)
}

pub(crate) fn usage(error: impl Display) -> Failure {
    Failure::new(Exit::Usage, error)
}

/// Ends a command with 1 if there are complaints.
pub(crate) fn unless_any(complaints: &[String]) -> Outcome {
    if complaints.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, complaints.join("\n"))) }
}

/// The failure for a file or directory that cannot be created or written.
pub(crate) fn cannot_create(path: &Path) -> impl Fn(io::Error) -> Failure + Copy {
    move |error| Failure::new(Exit::CannotCreate, format!("{}: {error}", path.display()))
}

/// A runtime for a command that mostly waits.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(unavailable)
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let exit = match &error {
            LabError::Options(_) | LabError::Security(_) => Exit::Usage,
            LabError::Process(_) => Exit::NoInput,
            LabError::Io { .. } | LabError::Keys(_) => Exit::CannotCreate,
            LabError::Child(_)
            | LabError::Sim(_)
            | LabError::Admin(_)
            | LabError::Metrics(_)
            | LabError::Workers(_) => Exit::Unavailable,
            LabError::Onboard(_) => Exit::Failure,
        };
        Self::new(exit, error)
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        let exit = match &error {
            ExecuteError::Run(_) => None,
            ExecuteError::Isolated(error) if error.is_usage() => Some(Exit::Usage),
            ExecuteError::Isolated(error) if error.missing_stream().is_some() => Some(Exit::NoInput),
            ExecuteError::Isolated(_) => Some(Exit::Failure),
        };
        match (error, exit) {
            (ExecuteError::Run(error), _) => error.into(),
            (error, exit) => Self::new(exit.unwrap_or(Exit::Failure), error),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let exit = match error {
            PlanError::Unreadable { .. } => Exit::NoInput,
            PlanError::Unknown { .. } | PlanError::Mistakes { .. } => Exit::Usage,
        };
        Self::new(exit, error)
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        let exit = match error {
            ReportError::File(error) => return error.into(),
            ReportError::Unwritable { .. } => Exit::CannotCreate,
            _ => Exit::Usage,
        };
        Self::new(exit, error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let exit = match error {
            FileError::Unreadable { .. } => Exit::NoInput,
            FileError::Malformed { .. } | FileError::Layout { .. } | FileError::TooLarge { .. } => Exit::Data,
        };
        Self::new(exit, error)
    }
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Self {
        let exit = match error {
            MergeError::File(error) => return error.into(),
            MergeError::TooFew | MergeError::Different { .. } | MergeError::NotShared { .. } => Exit::Usage,
            MergeError::NoResult { .. } => Exit::Data,
        };
        Self::new(exit, error)
    }
}

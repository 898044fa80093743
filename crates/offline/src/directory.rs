//! Opens a data directory without a hub; the exit codes of directories, journals and starts that fail.

use std::path::Path;

use upesi_engine::{FollowError, StartError};
use upesi_journal::{DataDirectory, DataDirectoryError, JournalError};
use upesi_process::exit::{Exit, Failure};
use upesi_tables::TablesError;

/// Opens a data directory without changing or locking it.
///
/// # Errors
/// 66 if there is none or it may not be read, 65 if its format is unknown, 74 if the disk fails.
pub fn open(path: &Path) -> Result<DataDirectory, Failure> {
    DataDirectory::open_for_reading(path).map_err(|error| Failure::new(directory_exit(&error), error))
}

/// Creates an empty data directory.
///
/// # Errors
/// 73 if there already is one or it cannot be created, 65 if the directory has other files, 75 if it is in use.
pub fn make(path: &Path) -> Result<(), Failure> {
    if DataDirectory::open_for_reading(path).is_ok() {
        let text = format!("{} is already a data directory", path.display());
        return Err(Failure::new(Exit::CannotCreate, text));
    }
    let made = DataDirectory::open(path);
    made.map(drop).map_err(|error| Failure::new(directory_exit(&error), error))
}

/// The exit code of a data directory that cannot be used.
pub(crate) fn directory_exit(error: &DataDirectoryError) -> Exit {
    match error {
        DataDirectoryError::NotFound(_) => Exit::NoInput,
        DataDirectoryError::NotADirectory(_) | DataDirectoryError::Unwritable { .. } => Exit::CannotCreate,
        DataDirectoryError::Locked { .. } => Exit::Temporary,
        DataDirectoryError::UnknownFormat { .. }
        | DataDirectoryError::NoFormat(_)
        | DataDirectoryError::Foreign { .. } => Exit::Data,
        DataDirectoryError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Exit::NoInput
        }
        DataDirectoryError::Io { .. } => Exit::InputOutput,
    }
}

/// The exit code of a journal or snapshot that cannot be read or written.
pub(crate) fn journal_exit(error: &JournalError) -> Exit {
    match error {
        JournalError::Damaged { .. } => Exit::Data,
        JournalError::NoSuchRecord { .. } => Exit::Usage,
        JournalError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Exit::NoInput
        }
        JournalError::Io { .. } | JournalError::DiskFull { .. } | JournalError::Poisoned => Exit::InputOutput,
        JournalError::Superseded { .. } => Exit::Temporary,
    }
}

/// The exit code for a data directory whose state cannot be recovered.
pub fn start_exit(error: &StartError) -> Exit {
    match error {
        StartError::Data(DataDirectoryError::Locked { .. }) => Exit::Temporary,
        StartError::Data(
            DataDirectoryError::UnknownFormat { .. }
            | DataDirectoryError::NoFormat(_)
            | DataDirectoryError::Foreign { .. },
        ) => Exit::Data,
        StartError::Data(_) => Exit::CannotCreate,
        StartError::Journal(JournalError::Damaged { .. }) => Exit::Data,
        StartError::HubName(_) => Exit::Usage,
        StartError::Journal(_) | StartError::Thread(_) => Exit::InputOutput,
        StartError::Archive(TablesError::InUse { .. }) => Exit::Temporary,
        StartError::Archive(TablesError::Io { .. }) => Exit::InputOutput,
        StartError::Archive(_)
        | StartError::Record { .. }
        | StartError::Snapshot { .. }
        | StartError::EndOfTime(_)
        | StartError::ArchiveLost(_) => Exit::Data,
    }
}

/// The exit code for an unusable store.
pub const fn store_exit(error: &TablesError) -> Exit {
    match error {
        TablesError::Damaged { .. } | TablesError::Format { .. } | TablesError::Content { .. } => Exit::Data,
        TablesError::InUse { .. } => Exit::Temporary,
        _ => Exit::InputOutput,
    }
}

/// The failure for a record that cannot be read.
pub(crate) fn follow_failure(error: FollowError) -> Failure {
    match error {
        FollowError::Journal(error) => journal_failure(error),
        FollowError::Gone { .. } => Failure::new(Exit::Usage, error),
        FollowError::Record { .. } => Failure::new(Exit::Data, error),
    }
}

pub(crate) fn journal_failure(error: JournalError) -> Failure {
    Failure::new(journal_exit(&error), error)
}

//! Reads the files of results.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::result::SCHEMA_VERSION;

/// The reason why a file of results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
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
}

/// Maximum size of a file that is read, in bytes: an hour per second with all its buckets has less than one mebibyte.
pub(crate) const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads a file without changes.
pub(crate) fn read(path: &Path) -> Result<Value, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(FileError::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX });
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    serde_json::from_slice(&bytes).map_err(|source| FileError::Malformed { path: path.to_owned(), source })
}

/// Reads a result or a suite, which must have the current layout.
pub(crate) fn read_result(path: &Path) -> Result<Value, FileError> {
    let value = read(path)?;
    match value.get("schema_version").and_then(Value::as_u64) {
        Some(version) if version != u64::from(SCHEMA_VERSION) => {
            Err(FileError::Layout { path: path.to_owned(), version, known: SCHEMA_VERSION })
        }
        _ => Ok(value),
    }
}

//! Makes names durable that fjall leaves to the file system.
//!
//! fjall syncs its files and the directories of its lists and tables, but not the directory of its keyspaces. At a
//! start, it assumes that everything it finds is durable. Common file systems write the names in a directory together
//! with the directory, and changes of names in their order. This is not guaranteed (fsync(2)), so a power loss could
//! leave a database without keyspaces.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::lsm::lists::KEYSPACES;

/// Makes the names of the keyspaces of the database in `path` survive a power loss. [`open`](crate::lsm::open) calls
/// it; a caller that creates a keyspace later must also call it.
///
/// # Errors
/// The error of the system.
pub fn sync_keyspaces(path: &Path) -> io::Result<()> {
    sync(&path.join(KEYSPACES))
}

/// Makes the names of keyspaces and lists durable that an earlier process may have left only in the cache. fjall
/// immediately removes files that the current list does not name.
pub(crate) fn sync_found(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path.join(KEYSPACES)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        }
    }
    sync_keyspaces(path)
}

/// Syncs a directory. If another process has removed it meanwhile, no sync is needed.
fn sync(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}

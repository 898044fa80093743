//! Names that fjall leaves to the file system, made durable.
//!
//! fjall syncs what it writes and the directories of its lists and tables, but not the directory that names its
//! keyspaces; and what it finds at a start, it takes for durable. Common file systems write a directory's name down
//! with the directory, and changes of names in their order. None has to (fsync(2)), and then a power loss would
//! leave a database without keyspaces.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::lsm::lists::KEYSPACES;

/// Makes the names of the keyspaces of the database in `path` survive a power loss. [`open`](crate::lsm::open)
/// does; a caller that makes a keyspace later does so, too.
///
/// # Errors
/// The error of the system.
pub fn sync_keyspaces(path: &Path) -> io::Result<()> {
    sync(&path.join(KEYSPACES))
}

/// Makes the names of keyspaces and lists durable that a process before this one may have left in the cache only: fjall
/// removes at once what the list in use does not name.
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

/// Syncs a directory; one that another process has removed meanwhile needs no sync.
fn sync(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        opened => opened?.sync_all(),
    }
}

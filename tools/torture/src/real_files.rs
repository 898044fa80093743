//! Directories of real files, for an embedded store that cannot use the simulated disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
pub use upesi_lab::isolated::past::copy_directory;

/// A directory in memory if the system has such a place, because the real disk is not under test.
pub fn directory_in_memory() -> TempDir {
    let place = Path::new("/dev/shm");
    let made = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

/// The non-empty files below a directory, as sorted relative paths.
pub fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(directory.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else if entry.metadata()?.len() > 0 {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

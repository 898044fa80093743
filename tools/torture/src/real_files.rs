//! Directories of real files, for what is kept by an embedded store that knows no simulated disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
pub use upesi_lab::isolated::scheme::copy_directory;

/// In memory where the system has such a place: what is tried here is not the real disk.
pub fn directory_in_memory() -> TempDir {
    let place = Path::new("/dev/shm");
    let made = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

/// The files that have contents, relative to a directory, sorted.
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

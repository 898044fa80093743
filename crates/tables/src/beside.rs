//! Derived file names, and directories that appear completely or not at all.

use std::io;
use std::path::{Path, PathBuf};

use upesi_journal::durable;

/// The path with a suffix to its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a directory under a temporary name with `make`, and moves it to its place durably. If `make` returns false,
/// nothing is left. fjall creates its files one by one and cannot continue after a crash in between.
pub(crate) fn make_whole<E>(
    path: &Path,
    fail: impl Fn(io::Error) -> E,
    make: impl FnOnce(&Path) -> Result<bool, E>,
) -> Result<bool, E> {
    let unfinished = with_suffix(path, ".new");
    if unfinished.try_exists().map_err(&fail)? {
        std::fs::remove_dir_all(&unfinished).map_err(&fail)?;
    }
    let is_made = make(&unfinished)?;
    let moved = match is_made {
        true => std::fs::rename(&unfinished, path).and_then(|()| durable::sync_parent(path)),
        false => std::fs::remove_dir_all(&unfinished),
    };
    moved.map_err(fail)?;
    Ok(is_made)
}

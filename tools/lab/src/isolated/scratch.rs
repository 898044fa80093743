//! Directories that are removed at the end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::IsolatedError;

/// A fresh directory; it is removed with this value.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub fn new(parent: &Path) -> Result<Self, IsolatedError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(parent).map_err(IsolatedError::io("create", parent))?;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("upesi-lab-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by a process of the same number that was killed; it may be somebody's evidence.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(IsolatedError::io("create", &path)(error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a scratch directory could not be removed");
        }
    }
}

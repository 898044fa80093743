//! Mounted secrets: directories whose files change together.

use std::fs;
use std::path::{Path, PathBuf};

/// Link that lets a mounted secret change all its files atomically (Kubernetes).
const VERSION_LINK: &str = "..data";

/// Reads files of mounted secrets in one version. So a certificate and its key match, even if the mount changes in
/// between.
#[derive(Debug, Default)]
pub struct Mount {
    /// Directories of mounts, and the version in use.
    versions: Vec<(PathBuf, PathBuf)>,
}

impl Mount {
    /// The path for reading a file: inside a mount the path in the version in use, otherwise unchanged.
    pub fn pin(&mut self, file: &Path) -> PathBuf {
        self.version_of(file).unwrap_or_else(|| file.to_owned())
    }

    /// Whether a mount has changed since. Its earlier versions may then be deleted.
    pub fn has_changed(&self) -> bool {
        self.versions.iter().any(|(directory, version)| present(directory).as_ref() != Some(version))
    }

    fn version_of(&mut self, file: &Path) -> Option<PathBuf> {
        let (directory, name) = (file.parent()?, file.file_name()?);
        let target = fs::read_link(file).ok()?;
        if target.parent()? != Path::new(VERSION_LINK) {
            return None;
        }
        if !self.versions.iter().any(|(known, _)| known == directory) {
            self.versions.push((directory.to_owned(), present(directory)?));
        }
        let (_, version) = self.versions.iter().find(|(known, _)| known == directory)?;
        Some(version.join(target.file_name().unwrap_or(name)))
    }
}

fn present(directory: &Path) -> Option<PathBuf> {
    fs::canonicalize(directory.join(VERSION_LINK)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Activates a version of a secret like a mount: creates a directory, then replaces a link.
    fn swap(mount: &Path, version: &str) {
        fs::create_dir(mount.join(version)).unwrap();
        for name in ["tls.crt", "tls.key"] {
            fs::write(mount.join(version).join(name), version).unwrap();
        }
        symlink(version, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join(VERSION_LINK)).unwrap();
    }

    #[test]
    fn files_of_a_mount_have_the_same_version() {
        let directory = tempfile::TempDir::new().unwrap();
        let mount = directory.path();
        swap(mount, "..first");
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new(VERSION_LINK).join(name), mount.join(name)).unwrap();
        }
        fs::write(mount.join("beside.pem"), "beside").unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        let mut pinned = Mount::default();
        assert_eq!(read(pinned.pin(&mount.join("tls.crt"))), "..first");
        swap(mount, "..second");
        assert_eq!(
            read(pinned.pin(&mount.join("tls.key"))),
            "..first",
            "the key does not belong to another certificate"
        );
        assert!(pinned.has_changed());
        let mut pinned = Mount::default();
        assert_eq!(read(pinned.pin(&mount.join("tls.key"))), "..second");
        assert_eq!(pinned.pin(&mount.join("beside.pem")), mount.join("beside.pem"));
        assert!(!pinned.has_changed());
        assert_eq!(pinned.pin(&mount.join("missing")), mount.join("missing"));
    }
}

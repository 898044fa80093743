//! The list of a backup's files. It is written last, so a directory without it is not a backup.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use upesi_journal::durable;
use upesi_keys::read_limited;
use upesi_replication::CHECKPOINT_FILE;

use super::files::remove_if_there;
use super::staging::Staging;

/// Subdirectory of a backup with the copied data directory.
pub(super) const DATA: &str = "data";
pub(super) const MANIFEST: &str = "backup.json";
/// The manifest while it is written; it may remain after a crash or a failure.
pub(super) const UNFINISHED_MANIFEST: &str = "backup.json.new";
const FORMAT: &str = "upesi-backup 1";

/// Maximum size of a manifest, in bytes: about 400,000 files.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Depth of directories below the archive, or below the store's tables.
const TREE_DEPTH_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 255;

/// Whether a data directory may have a file with this path, relative to it.
fn is_known(path: &str) -> bool {
    let is_name = |part: &&str| {
        let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        is_plain && part.len() <= NAME_BYTES_MAX && !part.bytes().all(|byte| byte == b'.')
    };
    let parts: Vec<&str> = path.split('/').collect();
    let is_segment = |file: &str| file.ends_with(".seg");
    parts.iter().all(is_name)
        && match &parts[..] {
            ["FORMAT"] | [CHECKPOINT_FILE] => true,
            ["journal", file] | ["store", "journal", file] => is_segment(file),
            ["snapshots", file] => file.ends_with(".snap"),
            ["archive", below @ ..] | ["store", "tables", below @ ..] => {
                (1..=TREE_DEPTH_MAX).contains(&below.len())
            }
            _ => false,
        }
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Relative to the data directory.
    pub path: String,
    pub bytes: u64,
    /// Last change of the original, in nanoseconds since 1970. A file with the same name, length and time counts as
    /// unchanged.
    pub modified_ns: u64,
    pub crc32c: u32,
}

impl Entry {
    /// An entry without its checksum.
    pub fn of(path: &str, file: &Path) -> io::Result<Self> {
        let found = file.metadata()?;
        let modified = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            bytes: found.len(),
            modified_ns: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
            crc32c: 0,
        })
    }

    pub fn is_same_file(&self, other: &Self) -> bool {
        (&self.path, self.bytes, self.modified_ns) == (&other.path, other.bytes, other.modified_ns)
    }
}

/// The list of a backup's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: String,
    /// Version of the program that wrote it.
    pub version: String,
    pub first_record: u64,
    pub last_record: u64,
    pub last_time: String,
    pub files: Vec<Entry>,
    #[serde(skip)]
    by_path: HashMap<String, usize>,
}

impl Manifest {
    pub fn new(staging: &Staging, files: Vec<Entry>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            first_record: staging.first_record,
            last_record: staging.last_record,
            last_time: staging.last_time.to_string(),
            files,
            by_path: HashMap::new(),
        }
    }

    pub fn is_at(backup: &Path) -> bool {
        backup.join(MANIFEST).exists()
    }

    /// Reads the manifest of a backup; an error describes its fault.
    pub fn read(backup: &Path) -> Result<Self, String> {
        let bytes = read_limited(&backup.join(MANIFEST), MANIFEST_BYTES_MAX)
            .map_err(|error| format!("{MANIFEST}: {error}"))?;
        let mut manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| format!("{MANIFEST}: {error}"))?;
        if manifest.format != FORMAT {
            return Err(format!(
                "{MANIFEST}: the format is {:?}, but this version reads {FORMAT:?}",
                manifest.format
            ));
        }
        let paths = manifest.files.iter().enumerate().map(|(index, entry)| (entry.path.clone(), index));
        manifest.by_path = paths.collect();
        Ok(manifest)
    }

    /// Checks that each file belongs in a data directory and is listed once.
    pub fn check_paths(&self) -> Result<(), String> {
        if let Some(entry) = self.files.iter().find(|entry| !is_known(&entry.path)) {
            return Err(format!(
                "{MANIFEST} lists {:?}, which is not a file of a data directory",
                entry.path
            ));
        }
        match self.by_path.len() == self.files.len() {
            true => Ok(()),
            false => Err(format!("{MANIFEST} lists a file twice")),
        }
    }

    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.by_path.get(path).map(|index| &self.files[*index])
    }

    /// Removes the manifest. The directory is then no longer a backup.
    pub fn remove(backup: &Path) -> io::Result<()> {
        remove_if_there(&backup.join(MANIFEST))?;
        durable::sync_directory(backup)
    }

    /// Writes the manifest, which completes the backup. If this fails, the directory is not a backup.
    pub fn write(&self, backup: &Path) -> io::Result<()> {
        let (unfinished, path) = (backup.join(UNFINISHED_MANIFEST), backup.join(MANIFEST));
        remove_if_there(&unfinished)?;
        let mut file = File::create_new(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        durable::sync_directory(backup).inspect_err(|_| {
            // The file may be lost in a power failure, so it must not be used after an error.
            let _ = fs::remove_file(&path);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_accepts_only_files_of_a_data_directory() {
        let known = [
            "FORMAT",
            "place",
            "journal/00000000000000000001.seg",
            "snapshots/00000000000000000007.snap",
            "store/journal/00000000000000000001.seg",
            "archive/00000000000000000001/keyspaces/0/tables/12",
            "archive/00000000000000000001.filter",
            "store/tables/keyspaces/1/v3",
        ];
        for path in known {
            assert!(is_known(path), "{path}");
        }
        let deep = format!("archive/{}", ["a"; TREE_DEPTH_MAX + 1].join("/"));
        let long = format!("archive/{}", "a".repeat(NAME_BYTES_MAX + 1));
        let unknown = [
            "",
            ".",
            "..",
            "/FORMAT",
            "../FORMAT",
            "./FORMAT",
            "FORMAT/",
            "format",
            "lock",
            "restored",
            "admin.token",
            "journal",
            "journal/",
            "journal/..",
            "journal/../../x.seg",
            "journal/a/b.seg",
            "journal//a.seg",
            "journal/a.txt",
            "journal/\u{202e}.seg",
            "journal/a\0.seg",
            "journal/a\\b.seg",
            "snapshots/a.seg",
            "archive",
            "archive/..",
            "archive/a/../b",
            "archive//etc/passwd",
            "archive/ ",
            "store",
            "store/x",
            "store/tables",
            "store/tables/../../x",
            &deep,
            &long,
        ];
        for path in unknown {
            assert!(!is_known(path), "{path:?}");
        }
    }
}

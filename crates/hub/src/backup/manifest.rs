//! What a backup consists of. Written last, so that a directory without it is no backup.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use upesi_journal::durable;

use super::staging::Staging;

/// The manifest's file within a backup.
pub(super) const FILE: &str = "backup.json";
/// The manifest while it is written; also what a crash or a failure then leaves.
pub(super) const UNFINISHED: &str = "backup.json.new";
const FORMAT: &str = "upesi-backup 1";

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Relative to the data directory.
    pub path: String,
    pub bytes: u64,
    /// When the original last changed, in nanoseconds since 1970: a file of the same name, length and time is the same.
    pub modified_ns: u64,
    pub crc32c: u32,
}

impl Entry {
    /// Without its checksum yet.
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
    /// Of the program that wrote it.
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
            last_time: super::time_text(staging.last_time),
            files,
            by_path: HashMap::new(),
        }
    }

    pub fn is_at(backup: &Path) -> bool {
        backup.join(FILE).exists()
    }

    /// The manifest of a backup; an error says why it is none.
    pub fn read(backup: &Path) -> Result<Self, String> {
        let bytes = fs::read(backup.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
        let mut manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| format!("{FILE}: {error}"))?;
        if manifest.format != FORMAT {
            return Err(format!(
                "{FILE}: its format is {:?}, this version reads {FORMAT:?}",
                manifest.format
            ));
        }
        let paths = manifest.files.iter().enumerate().map(|(index, entry)| (entry.path.clone(), index));
        manifest.by_path = paths.collect();
        Ok(manifest)
    }

    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.by_path.get(path).map(|index| &self.files[*index])
    }

    pub fn remove(backup: &Path) -> io::Result<()> {
        match fs::remove_file(backup.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| durable::sync_directory(backup)),
        }
    }

    /// Makes the backup one; where that fails, it is none.
    pub fn write(&self, backup: &Path) -> io::Result<()> {
        let (unfinished, path) = (backup.join(UNFINISHED), backup.join(FILE));
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &path)?;
        durable::sync_directory(backup).inspect_err(|_| {
            // Whether it would be there after a power loss nobody knows, and whoever reads of the failure relies on
            // none.
            let _ = fs::remove_file(&path);
        })
    }
}

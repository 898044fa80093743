//! Files of a tree: listing, copying with a checksum, making them durable.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use upesi_journal::durable;

use super::staging::Staging;

const CHUNK_BYTES: usize = 1 << 20;

/// The files below a directory, relative to it, sorted; not what was in the making.
pub(super) fn below(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for file in fs::read_dir(root.join(&directory))? {
            let file = file?;
            let path = directory.join(file.file_name());
            if file.file_type()?.is_dir() {
                directories.push(path);
            } else if path.extension().is_none_or(|extension| extension != "tmp") {
                let text = path.to_str().ok_or_else(|| io::Error::other("a file's name is not UTF-8"))?;
                found.push(text.to_owned());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Copies a file durably, and gives the CRC-32C of what was copied. Room that holds only zeros is not taken.
/// Directories that are missing are made; their names and the file's are durable after [`sync_directories`].
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<u32> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut crc, mut length) = (0, 0);
    loop {
        let read = fill(&mut source, &mut chunk)?;
        let bytes = &chunk[..read];
        crc = crc32c::crc32c_append(crc, bytes);
        length += read as u64;
        if bytes.iter().all(|byte| *byte == 0) {
            io::Seek::seek(&mut target, io::SeekFrom::Start(length))?;
        } else {
            target.write_all(bytes)?;
        }
        if read < CHUNK_BYTES {
            break;
        }
    }
    target.set_len(length)?;
    target.sync_all()?;
    Ok(crc)
}

fn fill(source: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match source.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Removes what is not listed; gives how many files that were.
pub(super) fn remove_others(root: &Path, entries: &[Entry]) -> io::Result<u64> {
    let wanted: HashSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    let mut removed = 0;
    for path in below(root)? {
        if !wanted.contains(path.as_str()) {
            fs::remove_file(root.join(&path))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Makes the names of all files below a directory durable.
pub(super) fn sync_directories(root: &Path) -> io::Result<()> {
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for file in fs::read_dir(&directory)? {
            let file = file?;
            if file.file_type()?.is_dir() {
                directories.push(file.path());
            }
        }
        durable::sync_directory(&directory)?;
    }
    Ok(())
}

// What a backup consists of. Written last, so that a directory without it is no backup.

/// The manifest's file within a backup.
pub(super) const MANIFEST: &str = "backup.json";
/// The manifest while it is written; also what a crash or a failure then leaves.
pub(super) const UNFINISHED_MANIFEST: &str = "backup.json.new";
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
        backup.join(MANIFEST).exists()
    }

    /// The manifest of a backup; an error says why it is none.
    pub fn read(backup: &Path) -> Result<Self, String> {
        let bytes = fs::read(backup.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
        let mut manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| format!("{MANIFEST}: {error}"))?;
        if manifest.format != FORMAT {
            return Err(format!(
                "{MANIFEST}: its format is {:?}, this version reads {FORMAT:?}",
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
        match fs::remove_file(backup.join(MANIFEST)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| durable::sync_directory(backup)),
        }
    }

    /// Makes the backup one; where that fails, it is none.
    pub fn write(&self, backup: &Path) -> io::Result<()> {
        let (unfinished, path) = (backup.join(UNFINISHED_MANIFEST), backup.join(MANIFEST));
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

//! Files of a tree: listing, copying with a checksum, making them durable.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use upesi_journal::durable;
use upesi_keys::read_limited;
use upesi_process::progress::Progress;
use upesi_replication::PLACE_FILE;

use super::staging::Staging;

const CHUNK_BYTES: usize = 1 << 20;

/// The files below a directory, relative to it, sorted, without unfinished ones.
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

/// A file below a directory. No part of its path below that directory may be a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below<'a> {
    pub root: &'a Path,
    /// Relative to the root.
    pub path: &'a str,
}

impl Below<'_> {
    pub fn full(self) -> PathBuf {
        self.root.join(self.path)
    }

    /// Opens a regular file for reading.
    pub fn open(self) -> io::Result<File> {
        self.directories(&mut |directory| {
            let is_directory = fs::symlink_metadata(directory)?.is_dir();
            if is_directory { Ok(()) } else { Err(not_a(directory, "directory")) }
        })?;
        let full = self.full();
        // Does not wait for the other end of a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        if !fs::symlink_metadata(&full)?.is_file() {
            return Err(not_a(&full, "regular file"));
        }
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&full)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a(&full, "regular file")) }
    }

    /// Creates a new file, and missing directories above it. Never opens an existing file.
    fn create(self) -> io::Result<File> {
        self.directories(&mut |directory| match fs::symlink_metadata(directory) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(not_a(directory, "directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_private_directory(directory),
            Err(error) => Err(error),
        })?;
        File::create_new(self.full())
    }

    /// Calls `visit` for each directory between root and file, from the top.
    fn directories(self, visit: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut directory = self.root.to_path_buf();
        let above = Path::new(self.path).parent().unwrap_or(Path::new(""));
        for component in above.components() {
            let Component::Normal(name) = component else {
                return Err(io::Error::other(format!("{:?} is outside its directory", self.path)));
            };
            directory.push(name);
            visit(&directory)?;
        }
        Ok(())
    }
}

/// Creates a directory that only its owner may enter; it must not exist.
pub(super) fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

fn not_a(path: &Path, kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a {kind}", path.display()))
}

/// Copies a file of at most `bytes_max` bytes durably to a new one, and returns the CRC-32C of its content. Blocks of
/// zeros stay unallocated. Missing directories are created; their names and the file's are durable after
/// [`sync_directories`].
pub(super) fn copy(from: Below<'_>, to: Below<'_>, bytes_max: u64, progress: &Progress) -> io::Result<u32> {
    let mut source = from.open()?;
    let mut target = to.create()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut crc, mut length) = (0, 0);
    loop {
        let read = fill(&mut source, &mut chunk)?;
        let bytes = &chunk[..read];
        crc = crc32c::crc32c_append(crc, bytes);
        length += read as u64;
        progress.add(read as u64);
        if length > bytes_max {
            let problem = format!("it is longer than {bytes_max} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
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

/// Copies a file to the place of another, which may be absent. The other one is replaced, not written to.
pub(super) fn replace(
    from: Below<'_>,
    to: Below<'_>,
    bytes_max: u64,
    progress: &Progress,
) -> io::Result<u32> {
    let unfinished = format!("{}.tmp", to.path);
    let beside = Below { path: &unfinished, ..to };
    remove_if_there(&beside.full())?;
    let crc = copy(from, beside, bytes_max, progress)?;
    fs::rename(beside.full(), to.full())?;
    Ok(crc)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes files that are not listed; returns their number.
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

// The list of a backup's files. It is written last, so a directory without it is not a backup.

/// Subdirectory of a backup with the copied data directory.
pub(super) const DATA: &str = "data";
/// File of the manifest in a backup.
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
            ["FORMAT"] | [PLACE_FILE] => true,
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
            // It is unknown whether it would survive a power loss, so it must not be used after the failure.
            let _ = fs::remove_file(&path);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_data_directory_are_known() {
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

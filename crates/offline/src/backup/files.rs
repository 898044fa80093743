//! Files of a tree: listing, copying with a checksum, making them durable.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use upesi_journal::durable;
use upesi_process::progress::Progress;

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
pub(super) struct FileBelow<'a> {
    pub root: &'a Path,
    /// Relative to the root.
    pub path: &'a str,
}

impl FileBelow<'_> {
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
pub(super) fn copy(
    from: FileBelow<'_>,
    to: FileBelow<'_>,
    bytes_max: u64,
    progress: &Progress,
) -> io::Result<u32> {
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
    from: FileBelow<'_>,
    to: FileBelow<'_>,
    bytes_max: u64,
    progress: &Progress,
) -> io::Result<u32> {
    let unfinished = format!("{}.tmp", to.path);
    let beside = FileBelow { path: &unfinished, ..to };
    remove_if_there(&beside.full())?;
    let crc = copy(from, beside, bytes_max, progress)?;
    fs::rename(beside.full(), to.full())?;
    Ok(crc)
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes files that are not listed; returns their number.
pub(super) fn remove_others(root: &Path, wanted: &HashSet<&str>) -> io::Result<u64> {
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

//! Files of a tree: listing, copying with a checksum, making them durable.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use upesi_journal::durable;

use super::manifest::Entry;

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

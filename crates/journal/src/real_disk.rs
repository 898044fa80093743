//! Implements the journal's disk traits on the file system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::disk::{Access, Disk, DiskFile};

const ZERO_CHUNK_BYTES: usize = 256 * 1024;
/// Reads and writes bypass the page cache if their offset, length and memory address are multiples of this, in bytes.
const DIRECT_ALIGNMENT_BYTES: usize = 512;

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    access: Access,
}

impl RealDisk {
    /// The tree below `root`. With [`Access::Read`], every change is rejected.
    pub fn new(root: impl Into<PathBuf>, access: Access) -> Self {
        Self { root: root.into(), access }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn writable(&self, path: &str) -> io::Result<PathBuf> {
        match self.access {
            Access::Write => Ok(self.path(path)),
            Access::Read | Access::ReadOnce => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
        }
    }
}

impl Disk for RealDisk {
    fn create_directory(&self, path: &str) -> io::Result<()> {
        match fs::create_dir(self.writable(path)?) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(directory))? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.writable(path)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Arc::new(RealFile::new(file, &path, Access::Write)))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let path = if access == Access::Write { self.writable(path)? } else { self.path(path) };
        let file = OpenOptions::new().read(true).write(access == Access::Write).open(&path)?;
        Ok(Arc::new(RealFile::new(file, &path, access)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.writable(from)?, self.writable(to)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.writable(path)?)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        File::open(self.writable(directory)?)?.sync_all()
    }
}

/// An open file. A file that is written or read once has a second handle, for access that bypasses the page cache.
///
/// Appended data is written once and read once or never, so the page cache would only cost copies and memory. A direct
/// write has reached the drive when it returns. The sync that follows makes it durable.
#[derive(Debug)]
struct RealFile {
    file: File,
    direct: Option<File>,
    /// Cleared if the file system rejects direct access, for example because its sectors are larger.
    takes_direct: AtomicBool,
}

impl DiskFile for RealFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // A file system without extents: zeros are written to allocate the space.
            Err(Errno::OPNOTSUPP) => self.write_zeros(self.length()?, bytes),
            Err(Errno::INTR) => self.allocate(bytes),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (at, rest) = (offset + filled as u64, &mut buffer[filled..]);
            let direct = self.direct_for(at, rest);
            match direct.unwrap_or(&self.file).read_at(rest, at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if direct.is_some() && error.kind() == io::ErrorKind::InvalidInput => {
                    self.takes_direct.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = self.direct_for(offset, bytes) {
            match direct.write_all_at(bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.takes_direct.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl RealFile {
    /// Opens the second handle if direct access is useful. If that fails, all access uses the page cache.
    fn new(file: File, path: &Path, access: Access) -> Self {
        let open_direct = || {
            let flags = OFlags::DIRECT.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.read(true).write(access == Access::Write).custom_flags(flags).open(path).ok()
        };
        let direct = if access == Access::Read { None } else { open_direct() };
        Self { file, direct, takes_direct: AtomicBool::new(true) }
    }

    fn direct_for(&self, offset: u64, bytes: &[u8]) -> Option<&File> {
        let is_aligned = offset.is_multiple_of(DIRECT_ALIGNMENT_BYTES as u64)
            && bytes.len().is_multiple_of(DIRECT_ALIGNMENT_BYTES)
            && bytes.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES) == 0;
        self.direct.as_ref().filter(|_| is_aligned && self.takes_direct.load(Ordering::Relaxed))
    }

    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; ZERO_CHUNK_BYTES];
        let mut at = from;
        while at < to {
            let length = (to - at).min(ZERO_CHUNK_BYTES as u64) as usize;
            self.file.write_all_at(&zeros[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on a file system without extents.
    #[test]
    fn allocation_writes_zeros_and_changes_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (from, to) in [(1_000, 600_000), (0, ZERO_CHUNK_BYTES), (5, 5), (700_000, 900_001)] {
            let mut expected = vec![1; 800_000];
            fs::write(&path, &expected).unwrap();
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            RealFile::new(file, &path, Access::Write).write_zeros(from as u64, to as u64).unwrap();
            expected.resize(to.max(800_000), 0);
            expected[from..to].fill(0);
            assert!(fs::read(&path).unwrap() == expected, "{from} to {to}");
        }
    }
}

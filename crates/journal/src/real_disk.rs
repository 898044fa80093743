//! The file system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::disk::{Access, Disk, DiskFile};

const ZERO_CHUNK_BYTES: usize = 256 * 1024;

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    access: Access,
}

impl RealDisk {
    /// The tree below `root`. With [`Access::Read`] everything that would change it is refused.
    pub fn new(root: impl Into<PathBuf>, access: Access) -> Self {
        Self { root: root.into(), access }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn writable(&self, path: &str) -> io::Result<PathBuf> {
        match self.access {
            Access::Write => Ok(self.path(path)),
            Access::Read => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
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
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let path = if access == Access::Write { self.writable(path)? } else { self.path(path) };
        let file = OpenOptions::new().read(true).write(access == Access::Write).open(path)?;
        Ok(Arc::new(RealFile(file)))
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

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // A file system without extents: the room is taken by writing to it.
            Err(Errno::OPNOTSUPP) => self.write_zeros(self.length()?, bytes),
            Err(Errno::INTR) => self.allocate(bytes),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl RealFile {
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; ZERO_CHUNK_BYTES];
        let mut at = from;
        while at < to {
            let length = (to - at).min(ZERO_CHUNK_BYTES as u64) as usize;
            self.0.write_all_at(&zeros[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }
}

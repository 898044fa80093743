//! The bug of a disk that says that it synced and did not.

use std::io;
use std::sync::Arc;

use upesi_journal::sim_disk::SimDisk;
use upesi_journal::{Access, Disk, DiskFile};

/// Leaves out every sync of a file.
#[derive(Debug)]
pub(crate) struct LyingDisk(pub(crate) SimDisk);

#[derive(Debug)]
struct LyingFile(Arc<dyn DiskFile>);

fn lying(file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
    file.map(|file| Arc::new(LyingFile(file)) as Arc<dyn DiskFile>)
}

impl Disk for LyingDisk {
    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.0.list(directory)
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        lying(self.0.create(path))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        lying(self.0.open(path, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.0.sync_directory(directory)
    }
}

impl DiskFile for LyingFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

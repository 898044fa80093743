//! The file-system operations that the journal needs, as traits, so that a simulated disk can replace the file system.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// The mode of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading only, for data that is unlikely to be read again soon. Bypasses the page cache if possible.
    ReadOnce,
    /// Reading and writing.
    Write,
}

/// A directory tree. Paths are relative to its root and use `/`; the root itself is the empty path.
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory. An existing directory is not an error.
    fn create_directory(&self, path: &str) -> io::Result<()>;

    /// The names of the files in a directory, sorted. A directory that does not exist is `NotFound`.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Creates a new, empty file for reading and writing. An existing file is `AlreadyExists`.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file within its directory. An existing target is replaced atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Open handles can still read it.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Returns after all earlier creations, renames and removals in the directory are durable.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync {
    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reserves space and makes the file at least `bytes` long. Bytes that were never written read as zeros. Fails with
    /// `StorageFull` if the disk is full. Later writes below `bytes` need no further space.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Reads until the buffer is full or the file ends; returns how many bytes were read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns after all earlier writes and the length are durable.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an error means that the disk is full, rather than broken.
pub(crate) fn says_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

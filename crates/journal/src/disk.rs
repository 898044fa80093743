//! What the journal asks of a disk, so that a simulated one can stand in for the file system.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading only, what nobody is likely to read again soon: past the page cache, where that is possible.
    ReadOnce,
    /// Reading and writing.
    Write,
}

/// A directory tree. Paths are relative to its root and use `/`; the root itself is the empty path.
pub trait Disk: Debug + Send + Sync {
    /// Makes a directory; one that exists already is no error.
    fn create_directory(&self, path: &str) -> io::Result<()>;

    /// The names of the files in a directory, sorted. A directory that does not exist is `NotFound`.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Makes a new, empty file for reading and writing; one that exists already is `AlreadyExists`.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that exists.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file within its directory, replacing the target at once if there is one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Those who have it open can go on reading it.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Returns when all earlier creations, renames and removals in the directory survive a power loss.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reserves room and makes the file at least `bytes` long; what was not written reads as zeros. Fails with
    /// `StorageFull` when there is no room, and later writes below `bytes` need no further room.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Reads until the buffer is full or the file ends; returns how many bytes were read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything written before, and the length, survives a power loss.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an error says that there is no room, rather than that the disk is broken.
pub(crate) fn says_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

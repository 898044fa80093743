//! The data directory: checks that it belongs to a hub and has a known format, and locks it for one writing process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, Disk};
use crate::real_disk::RealDisk;
use crate::{durable, segment, snapshot};

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_TEMPORARY: &str = "FORMAT.tmp";
const FORMAT: &str = "upesi-data 2\n";
const FORMAT_BYTES_MAX: u64 = 64;
const LOCK_FILE: &str = "lock";
/// Names that are allowed in a directory before it is a data directory: names of this module, of file systems, and of
/// files that `upesi admin` leaves for the first start of a hub.
const BEFORE_FORMAT: [&str; 5] = [LOCK_FILE, FORMAT_TEMPORARY, "lost+found", "bootstrap", "break-glass"];

/// The reason why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// The path is not a directory.
    #[error("{0} is not a directory: name a directory for the data, or move the file away")]
    NotADirectory(PathBuf),
    /// The path does not exist, and it was opened for reading.
    #[error("{0} does not exist")]
    NotFound(PathBuf),
    /// The process has no write permission there.
    #[error(
        "{path} cannot be written to: {source}; give the hub's user write access, or choose another directory"
    )]
    Unwritable {
        /// The data directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process uses the data directory.
    #[error("{path} is in use by {}: stop that process first", describe(*pid))]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process named in the lock file, if the file is readable.
        pid: Option<u32>,
    },
    /// The directory has no file `FORMAT`.
    #[error(
        "{0} has no file FORMAT, as every data directory of a hub does: name the right directory, or restore that file from a backup"
    )]
    NoFormat(PathBuf),
    /// The directory holds other files and no file `FORMAT`.
    #[error(
        "{path} holds {found:?} and no file FORMAT, so it is not a data directory: name the right one, or an empty one"
    )]
    Foreign {
        path: PathBuf,
        /// The name of one of those files.
        found: String,
    },
    /// The data has a format that this version does not know.
    #[error(
        "{path} has the format {found:?}, this version reads \"upesi-data 2\": use the version that wrote it, \
         or begin with an empty directory"
    )]
    UnknownFormat {
        /// The data directory.
        path: PathBuf,
        /// The content of the file `FORMAT`.
        found: String,
    },
    /// The operating system reported an error.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

fn describe(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A data directory in use. Dropping it releases the lock.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Holds the lock while it is open. `None` if the directory is open for reading.
    _lock: Option<File>,
    in_use_by: Option<u32>,
}

impl DataDirectory {
    /// Opens a data directory for writing, creates it if it does not exist, and locks it for this process.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataDirectoryError> {
        let path = path.into();
        if fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
            return Err(DataDirectoryError::NotADirectory(path));
        }
        durable::create_directory(&path).map_err(|source| failed(&path, source))?;
        if read_format(&path)?.is_none()
            && let Err(error) = expect_empty(&path)
            // Another process may have created it meanwhile. In that case the lock reports it.
            && read_format(&path)?.is_none()
        {
            return Err(error);
        }
        let lock = lock(&path)?;
        let disk = RealDisk::new(&path, Access::Write);
        if let Some(found) = read_format(&path)? {
            check_format(&path, found)?;
            // An earlier process may have left the name of `FORMAT` only in the page cache. That name must be durable
            // before any directory is created.
            disk.sync_directory("").map_err(|source| failed(&path, source))?;
        } else {
            write_format(&path, &disk).map_err(|source| failed(&path, source))?;
        }
        for directory in [segment::DIRECTORY, snapshot::DIRECTORY] {
            disk.create_directory(directory).map_err(|source| failed(&path, source))?;
        }
        disk.sync_directory("").map_err(|source| failed(&path, source))?;
        Ok(Self { path, disk: Arc::new(disk), _lock: Some(lock), in_use_by: None })
    }

    /// Opens a data directory for reading. Nothing is changed or locked, so this also works on a read-only copy; see
    /// [`in_use_by`](Self::in_use_by).
    pub fn open_for_reading(path: impl Into<PathBuf>) -> Result<Self, DataDirectoryError> {
        let path = path.into();
        match fs::metadata(&path) {
            Ok(found) if !found.is_dir() => return Err(DataDirectoryError::NotADirectory(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(DataDirectoryError::NotFound(path));
            }
            other => other.map_err(|source| failed(&path, source))?,
        };
        match read_format(&path)? {
            Some(found) => check_format(&path, found)?,
            None => return Err(DataDirectoryError::NoFormat(path)),
        }
        let in_use_by = user_of(&path);
        let disk = Arc::new(RealDisk::new(&path, Access::Read));
        Ok(Self { path, disk, _lock: None, in_use_by })
    }

    /// Whether a directory is absent or empty, as at the first start of a hub.
    ///
    /// # Errors
    /// Like [`open`](Self::open), if the directory holds other files.
    pub fn is_absent_or_empty(path: &Path) -> Result<bool, DataDirectoryError> {
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => Err(DataDirectoryError::NotADirectory(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(source) => Err(failed(path, source)),
            Ok(_) if read_format(path)?.is_some() => Ok(false),
            Ok(_) => expect_empty(path).map(|()| true),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory as a disk, for the journal and the snapshots.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// The process that had the directory locked when it was opened for reading; 0 if that process is unknown. The data
    /// may then change while it is read: the journal's end may be a batch in flight.
    pub fn in_use_by(&self) -> Option<u32> {
        self.in_use_by
    }
}

fn failed(path: &Path, source: io::Error) -> DataDirectoryError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            DataDirectoryError::Unwritable { path, source }
        }
        io::ErrorKind::NotADirectory => DataDirectoryError::NotADirectory(path),
        _ => DataDirectoryError::Io { path, source },
    }
}

fn lock(path: &Path) -> Result<File, DataDirectoryError> {
    let fail = |source| failed(path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.join(LOCK_FILE))
        .map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(DataDirectoryError::Locked { path: path.to_owned(), pid: pid_in(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(fail(source)),
    }
    // Only the lock matters. The number is for the operator, and a full disk must not keep the hub from starting.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(FORMAT_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn user_of(path: &Path) -> Option<u32> {
    let mut file = File::open(path.join(LOCK_FILE)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid_in(&mut file).unwrap_or(0)),
        _ => None,
    }
}

fn read_format(path: &Path) -> Result<Option<String>, DataDirectoryError> {
    let file = path.join(FORMAT_FILE);
    let mut bytes = Vec::new();
    match File::open(&file).and_then(|opened| opened.take(FORMAT_BYTES_MAX).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DataDirectoryError::Io { path: file, source }),
    }
}

fn check_format(path: &Path, found: String) -> Result<(), DataDirectoryError> {
    if found == FORMAT {
        Ok(())
    } else {
        Err(DataDirectoryError::UnknownFormat { path: path.to_owned(), found: found.trim_end().to_owned() })
    }
}

/// Rejects a directory that holds data without a format, or other files.
fn expect_empty(path: &Path) -> Result<(), DataDirectoryError> {
    let entries = fs::read_dir(path).map_err(|source| failed(path, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| failed(path, source))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    if names.iter().any(|name| [segment::DIRECTORY, snapshot::DIRECTORY].contains(&name.as_str())) {
        return Err(DataDirectoryError::NoFormat(path.to_owned()));
    }
    names.retain(|name| !BEFORE_FORMAT.contains(&name.as_str()));
    match names.into_iter().min() {
        Some(found) => Err(DataDirectoryError::Foreign { path: path.to_owned(), found }),
        None => Ok(()),
    }
}

/// The format is written before everything else. A directory with data but no format is therefore never this hub's own.
fn write_format(path: &Path, disk: &RealDisk) -> io::Result<()> {
    let mut file = File::create(path.join(FORMAT_TEMPORARY))?;
    file.write_all(FORMAT.as_bytes())?;
    file.sync_all()?;
    disk.rename(FORMAT_TEMPORARY, FORMAT_FILE)?;
    disk.sync_directory("")
}

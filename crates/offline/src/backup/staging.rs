//! A view of a data directory as it was at one moment.
//!
//! Closed segments, snapshots and the tables of the LSM stores never change. So the view links them under second names,
//! which remain when the hub removes its own. Files that change are copied: the last segment up to its last complete
//! batch, and the stores' lists of tables. The result is a separate data directory that opens like one after a crash.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use upesi_journal::{Access, Disk, Extent, JournalError, RealDisk, SnapshotStore};
use upesi_process::exit::{Exit, Failure};
use upesi_process::progress::Progress;
use upesi_replication::CHECKPOINT_FILE;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::Timestamp;

use crate::directory;

/// The directory of the view. It is inside the data directory, because hard links must be on the same file system.
const DIRECTORY: &str = "backup.staging";
const LOCK: &str = "backup.lock";
/// Directory of the tables in an LSM store; all other files in it are small and are copied.
const TABLES: &str = "tables";
/// A filter is replaced as a whole and never changed.
const FILTER: &str = ".filter";
/// Number of attempts to view the stores between two merges.
const ATTEMPTS_MAX: usize = 50;
const ATTEMPT_WAIT: Duration = Duration::from_millis(20);

/// The view. Its files are removed on drop.
pub(crate) struct Staging {
    /// Path of the view, a data directory.
    pub(crate) path: PathBuf,
    /// The oldest record; 0 if there is none.
    pub(crate) first_record: u64,
    pub(crate) last_record: u64,
    pub(crate) last_time: Timestamp,
    _lock: File,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Remaining files are removed by the next backup.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Staging {
    /// Collects the files of a data directory, whether or not a hub is using it.
    pub(crate) fn take(data: &Path) -> Result<Self, Failure> {
        directory::open(data)?;
        let lock = lock(data)?;
        let _progress = Progress::unknown("collecting the files of the data directory");
        let mut staging = Self {
            path: data.join(DIRECTORY),
            first_record: 0,
            last_record: 0,
            last_time: Timestamp::EPOCH,
            _lock: lock,
        };
        let mut attempt = 1;
        loop {
            match staging.attempt(data) {
                Ok(()) => return Ok(staging),
                // The hub has just removed or merged a file.
                Err(_) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(failure) => return Err(failure),
            }
            sleep(ATTEMPT_WAIT);
        }
    }

    fn attempt(&mut self, data: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::new(
                Exit::InputOutput,
                format!("cannot collect the files of {}: {error}", data.display()),
            )
        };
        if self.path.exists() {
            fs::remove_dir_all(&self.path).map_err(failed)?;
        }
        fs::create_dir(&self.path).map_err(failed)?;
        self.link(data).map_err(failed)?;
        let extent = self.copy_last_segment(data, Path::new("")).map_err(directory::journal_failure)?;
        if let Some(extent) = extent {
            (self.last_record, self.last_time) = (extent.last_seq, Timestamp::from_ns(extent.last_time_ns));
        }
        if data.join("store").exists() {
            let copied = self.copy_last_segment(data, Path::new("store"));
            copied.map_err(directory::journal_failure)?;
        }
        self.check()
    }

    /// Links or copies the files. The order matters. Segments come before the files that allow the hub to remove
    /// segments, and again after the files that refer to segments.
    fn link(&self, data: &Path) -> io::Result<()> {
        // First, because it must not be ahead of the files that it refers to.
        if data.join(CHECKPOINT_FILE).exists() {
            fs::copy(data.join(CHECKPOINT_FILE), self.path.join(CHECKPOINT_FILE))?;
        }
        let link = |directory: &str, suffix: &str| {
            link_files(&data.join(directory), &self.path.join(directory), suffix)
        };
        for pass in 0..2 {
            link("journal", ".seg")?;
            link("store/journal", ".seg")?;
            if pass == 0 {
                link("snapshots", ".snap")?;
                for tree in ["archive", "store/tables"] {
                    view_tree(&data.join(tree), &self.path.join(tree))?;
                }
            }
        }
        fs::copy(data.join("FORMAT"), self.path.join("FORMAT")).map(|_| ())
    }

    /// Replaces the link to the segment that is being written by a copy.
    fn copy_last_segment(&self, data: &Path, below: &Path) -> Result<Option<Extent>, JournalError> {
        let (data, staged) = (data.join(below), self.path.join(below));
        let live: Arc<dyn Disk> = Arc::new(RealDisk::new(&data, Access::Read));
        let staged_disk = RealDisk::new(&staged, Access::Read);
        let Some(last) = upesi_journal::segments(&staged_disk)?.pop() else { return Ok(None) };
        let extent = upesi_journal::extent(&*live, last.first_seq)?;
        let path = staged.join(&last.file);
        copy_beginning(&data.join(&last.file), &path, extent).map_err(|source| JournalError::Io {
            operation: "copy",
            file: last.file.clone(),
            source,
        })?;
        Ok(Some(extent))
    }

    /// Truncates the free space of the last segments, which are copies, because a backup does not need it.
    pub(super) fn cut_free_room(&self) -> Result<(), Failure> {
        for below in ["", "store"] {
            let staged = self.path.join(below);
            let disk = RealDisk::new(&staged, Access::Read);
            let segments = if staged.exists() { upesi_journal::segments(&disk) } else { Ok(Vec::new()) };
            let Some(last) = segments.map_err(directory::journal_failure)?.pop() else { continue };
            let extent = upesi_journal::extent(&disk, last.first_seq).map_err(directory::journal_failure)?;
            let header = upesi_journal::header_without_free_room(&disk, last.first_seq, extent);
            let header = header.map_err(directory::journal_failure)?;
            let path = staged.join(&last.file);
            let cut = || {
                let file = File::options().write(true).open(&path)?;
                if file.metadata()?.nlink() > 1 {
                    return Err(io::Error::other("the hub uses this file, too"));
                }
                file.write_all_at(&header, 0)?;
                file.set_len(extent.bytes)
            };
            cut().map_err(|error| {
                Failure::new(Exit::InputOutput, format!("cannot write {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }

    /// Opens all files like a start. A view that was created during a change does not open.
    fn check(&mut self) -> Result<(), Failure> {
        let damaged = |text: String| Failure::new(Exit::Data, text);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&self.path, Access::Read));
        let segments = upesi_journal::segments(&*disk).map_err(directory::journal_failure)?;
        self.first_record = segments.first().map_or(0, |segment| segment.first_seq);
        let snapshots = SnapshotStore::open_for_reading(disk).list().map_err(directory::journal_failure)?;
        let snapshot = snapshots.last().map_or(0, |snapshot| snapshot.seq);
        let mut archived = 0;
        let archive = self.path.join("archive");
        if archive.exists() {
            let options = ArchiveOptions { cache_bytes: 1 << 20, ..ArchiveOptions::default() };
            let opened = FjallArchive::open(&archive, &options);
            archived = opened.map_err(|error| damaged(error.to_string()))?.watermark();
        }
        if archived < snapshot || self.last_record < archived {
            return Err(damaged(format!(
                "the journal ends at record {}, the archive at {archived}, the newest snapshot at {snapshot}",
                self.last_record
            )));
        }
        let store = self.path.join("store");
        if store.exists() {
            let opened = Store::open(&store, &StoreOptions::default());
            opened.map_err(|error| damaged(error.to_string()))?.close();
        }
        Ok(())
    }
}

fn lock(data: &Path) -> Result<File, Failure> {
    let path = data.join(LOCK);
    let failed = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", path.display()));
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let text = format!("another backup or export of {} is running", data.display());
            Err(Failure::new(Exit::Temporary, text))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Links the files of a directory with this suffix; existing links stay.
fn link_files(from: &Path, to: &Path, suffix: &str) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if file.file_name().to_string_lossy().ends_with(suffix) {
            match fs::hard_link(file.path(), to.join(file.file_name())) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The hub no longer needs this snapshot or segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// The view of an LSM store: links to its tables, copies of all other files. Lists are copied before the tables that
/// they name.
fn view_tree(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    let mut directories = Vec::new();
    for file in fs::read_dir(from)? {
        let file = file?;
        let (name, target) = (file.file_name(), to.join(file.file_name()));
        let text = name.to_string_lossy();
        if file.file_type()?.is_dir() {
            if !text.ends_with(".new") && !text.ends_with(".removed") {
                directories.push(name);
            }
        } else if text.ends_with(FILTER) {
            fs::hard_link(file.path(), target)?;
        } else {
            fs::copy(file.path(), target).map(|_| ()).or_else(|error| match error.kind() {
                // The hub has replaced this list.
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
        }
    }
    for name in directories {
        if name == TABLES {
            link_files(&from.join(&name), &to.join(&name), "")?;
        } else {
            view_tree(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Copies the written part of a segment, under a temporary name first, because `to` may be a link to `from`.
fn copy_beginning(from: &Path, to: &Path, extent: Extent) -> io::Result<()> {
    let unfinished = to.with_extension("tmp");
    let mut target = File::create(&unfinished)?;
    let copied = io::copy(&mut io::Read::take(File::open(from)?, extent.bytes), &mut target)?;
    if copied != extent.bytes {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    target.set_len(extent.length)?;
    target.sync_all()?;
    fs::rename(&unfinished, to)
}

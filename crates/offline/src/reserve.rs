//! The reserve: a file that holds space in the data directory until an operator releases it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use upesi_journal::{Access, Disk, RealDisk, durable};

const FILE: &str = "reserve";
const UNFINISHED: &str = "reserve.tmp";
/// Unit of a file's allocated space, in bytes.
const BLOCK_BYTES: u64 = 512;

/// Result of [`keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveOutcome {
    /// The reserve has the configured size.
    Whole,
    /// The volume does not have enough space. An existing reserve is not changed.
    NoRoom {
        /// Free space on the volume, including an existing reserve.
        free_bytes: u64,
        /// Free space that is required before the reserve is allocated.
        needed_bytes: u64,
    },
}

/// Size of the reserve; 0 without one.
pub fn bytes(data: &Path) -> u64 {
    fs::metadata(data.join(FILE)).map_or(0, |found| found.len())
}

/// Allocates the reserve of a data directory in the given size, if the volume then still has the same amount free, plus
/// `spare_bytes`. The caller holds the directory's lock.
///
/// # Errors
/// If the file system fails or does not allocate space for the file.
pub fn keep(data: &Path, wanted_bytes: u64, spare_bytes: u64) -> io::Result<ReserveOutcome> {
    let present_bytes = bytes(data);
    remove(&data.join(UNFINISHED))?;
    if present_bytes == wanted_bytes {
        return Ok(ReserveOutcome::Whole);
    }
    let free_bytes = room(data)?.saturating_add(present_bytes);
    let needed_bytes = wanted_bytes.saturating_mul(2).saturating_add(spare_bytes);
    if wanted_bytes > 0 && free_bytes < needed_bytes {
        return Ok(ReserveOutcome::NoRoom { free_bytes, needed_bytes });
    }
    release(data)?;
    if wanted_bytes > 0 {
        let taken = take(data, wanted_bytes);
        if taken.is_err() {
            remove(&data.join(UNFINISHED))?;
        }
        taken?;
    }
    Ok(ReserveOutcome::Whole)
}

/// Releases the space of the reserve; returns its size in bytes. The caller holds the directory's lock.
///
/// # Errors
/// If the file system fails.
pub fn release(data: &Path) -> io::Result<u64> {
    let released_bytes = bytes(data);
    remove(&data.join(FILE))?;
    durable::sync_directory(data)?;
    Ok(released_bytes)
}

/// Allocates the file under a temporary name and renames it once its space is allocated.
fn take(data: &Path, bytes: u64) -> io::Result<()> {
    let disk = RealDisk::new(data, Access::Write);
    let file = disk.create(UNFINISHED)?;
    file.allocate(bytes)?;
    file.sync()?;
    let taken_bytes = fs::metadata(data.join(UNFINISHED))?.blocks() * BLOCK_BYTES;
    if taken_bytes < bytes {
        return Err(io::Error::other(format!("of {bytes} bytes the file system takes {taken_bytes}")));
    }
    disk.rename(UNFINISHED, FILE)?;
    disk.sync_directory("")
}

/// Truncates the file first, because a full copy-on-write file system may not have enough space to remove a long file.
fn remove(path: &Path) -> io::Result<()> {
    match File::options().write(true).open(path) {
        Ok(file) => file.set_len(0)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    fs::remove_file(path)
}

fn room(data: &Path) -> io::Result<u64> {
    let volume = rustix::fs::statvfs(data)?;
    Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 3 << 20;

    fn taken(data: &Path) -> u64 {
        fs::metadata(data.join(FILE)).map_or(0, |found| found.blocks() * BLOCK_BYTES)
    }

    #[test]
    fn reserve_is_allocated_once_and_released() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!((bytes(data), release(data).unwrap()), (0, 0), "there is none yet");
        assert_eq!(keep(data, BYTES, 0).unwrap(), ReserveOutcome::Whole);
        assert_eq!(bytes(data), BYTES);
        assert!(taken(data) >= BYTES, "its blocks are taken: {}", taken(data));
        let file = fs::metadata(data.join(FILE)).unwrap().ino();
        assert_eq!(
            keep(data, BYTES, u64::MAX).unwrap(),
            ReserveOutcome::Whole,
            "an existing reserve needs no further space"
        );
        assert_eq!(fs::metadata(data.join(FILE)).unwrap().ino(), file, "and is not changed");
        assert_eq!(release(data).unwrap(), BYTES);
        assert_eq!(fs::read_dir(data).unwrap().count(), 0);
    }

    #[test]
    fn reserve_follows_the_setting_if_space_is_free() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        for wanted in [BYTES, 2 * BYTES, BYTES, 0] {
            assert_eq!(keep(data, wanted, 0).unwrap(), ReserveOutcome::Whole);
            assert_eq!((bytes(data), taken(data) >= wanted), (wanted, true));
        }
        assert!(!data.join(FILE).exists(), "0 is none");
        keep(data, BYTES, 0).unwrap();
        let ReserveOutcome::NoRoom { free_bytes, needed_bytes } =
            keep(data, 2 * BYTES, u64::MAX / 2).unwrap()
        else {
            panic!("the volume cannot have this space")
        };
        assert_eq!(needed_bytes, u64::MAX / 2 + 4 * BYTES);
        assert!(free_bytes > BYTES, "the present reserve counts as free space: {free_bytes}");
        assert_eq!(bytes(data), BYTES, "the earlier one stays");
    }

    #[test]
    fn reserve_removes_remains_of_crashes_and_failures() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        fs::write(data.join(UNFINISHED), "half").unwrap();
        keep(data, BYTES, 0).unwrap();
        assert_eq!((bytes(data), data.join(UNFINISHED).exists()), (BYTES, false));
        release(data).unwrap();
        // Larger than any file may be. A size just above the free space would take this space from other tests.
        assert!(take(data, 1 << 62).is_err());
        assert!(keep(data, u64::MAX / 4, 0).is_ok_and(|kept| kept != ReserveOutcome::Whole));
        assert_eq!(fs::read_dir(data).unwrap().count(), 0, "what a failure left was removed");
    }
}

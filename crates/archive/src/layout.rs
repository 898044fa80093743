//! How divisions lie in the archive's directory.
//!
//! ```text
//! 00000000000000000001/           a division, named by its first journal record (twenty digits)
//! 00000000000000000001.filter     its filter
//! 00000000000016777231/           the next; the last of them grows
//! ```
//!
//! An archive of an earlier version is one store in the directory itself; it becomes the first division.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use upesi_journal::durable;

use crate::ArchiveError;
use crate::division::remove_files;
use crate::keyspace::with_suffix;

const DIGITS: usize = 20;
/// A directory that every store of fjall has.
const STORE_MARK: &str = "keyspaces";

/// The ending of a settled division.
const SETTLED: &str = ".sorted";

/// Where a division is once it is settled; its own path if it is.
pub(crate) fn settled_path(division: &Path) -> PathBuf {
    if division.extension().is_some_and(|ending| ending == &SETTLED[1..]) {
        division.to_path_buf()
    } else {
        with_suffix(division, SETTLED)
    }
}

pub(crate) fn division_path(archive: &Path, first_seq: u64) -> PathBuf {
    archive.join(format!("{first_seq:020}"))
}

/// Makes the directory where there is none, finishes what a crash interrupted, and gives the divisions by their first
/// record, ascending.
pub(crate) fn prepare(archive: &Path) -> Result<BTreeMap<u64, PathBuf>, ArchiveError> {
    prepare_files(archive).map_err(|source| ArchiveError::Io { path: archive.to_path_buf(), source })
}

fn prepare_files(archive: &Path) -> std::io::Result<BTreeMap<u64, PathBuf>> {
    adopt(archive)?;
    durable::create_directory(archive)?;
    // A crash may have come between a rename and its sync, and what follows removes for good what those names replace.
    durable::sync_directory(archive)?;
    let (mut growing, mut settled) = (BTreeMap::new(), BTreeMap::new());
    for file in std::fs::read_dir(archive)? {
        let file = file?;
        let Ok(name) = file.file_name().into_string() else { continue };
        let Some((first_seq, ending)) = read_name(&name) else { continue };
        match ending {
            "" => growing.insert(first_seq, file.path()),
            SETTLED => settled.insert(first_seq, file.path()),
            // A division that was never begun, or that was being removed.
            ending
                if (ending.ends_with(".new") || ending.ends_with(".removed"))
                    && file.file_type()?.is_dir() =>
            {
                std::fs::remove_dir_all(file.path())?;
                None
            }
            _ => None,
        };
    }
    for (first_seq, path) in settled {
        // It got its name when it was whole.
        if let Some(replaced) = growing.insert(first_seq, path) {
            remove_files(&replaced)?;
        }
    }
    Ok(growing)
}

/// The first record of a division by the name of something that belongs to it, and how that name ends.
fn read_name(name: &str) -> Option<(u64, &str)> {
    let (digits, ending) = name.split_at_checked(DIGITS)?;
    Some((digits.parse().ok()?, ending))
}

/// The first record of the oldest division of the archive in a directory, by the names there: nothing is opened, finished or
/// changed. `None` where there is no division, or no archive.
pub fn first_seq_of(archive: &Path) -> Option<u64> {
    let names = std::fs::read_dir(archive).ok()?.flatten().map(|entry| entry.file_name());
    let division = |name: std::ffi::OsString| match read_name(name.to_str()?)? {
        (first_seq, "" | SETTLED) => Some(first_seq),
        _ => None,
    };
    names.filter_map(division).min()
}

/// Moves an archive of an earlier version one directory down.
fn adopt(archive: &Path) -> std::io::Result<()> {
    let beside = with_suffix(archive, ".divided");
    if archive.join(STORE_MARK).try_exists()? {
        if beside.try_exists()? {
            // Made, and not yet filled, before a crash.
            std::fs::remove_dir(&beside)?;
        }
        durable::create_directory(&beside)?;
        std::fs::rename(archive, division_path(&beside, 1))?;
    }
    if beside.try_exists()? {
        if archive.try_exists()? {
            return std::fs::remove_dir(&beside);
        }
        // Also where a crash came right after the rename.
        durable::sync_directory(&beside)?;
        durable::sync_parent(archive)?;
        std::fs::rename(&beside, archive)?;
        durable::sync_parent(archive)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_division_is_told_by_the_names_of_whole_ones() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(first_seq_of(&directory.path().join("none")), None);
        // What was being removed or written anew, filters and foreign files are no divisions.
        for name in [
            "lock",
            "00000000000000000001.removed",
            "00000000000000000002.sorted.new",
            "00000000000000000003.filter",
        ] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(first_seq_of(directory.path()), None);
        for (first_seq, oldest) in [(90, 90), (70, 70), (80, 70)] {
            std::fs::create_dir(division_path(directory.path(), first_seq)).unwrap();
            assert_eq!(first_seq_of(directory.path()), Some(oldest));
        }
        std::fs::create_dir(settled_path(&division_path(directory.path(), 60))).unwrap();
        assert_eq!(first_seq_of(directory.path()), Some(60));
    }
}

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

use crate::ArchiveError;
use crate::division::remove_files;
use crate::keyspace::{sync_parent, with_suffix};

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
    if !archive.try_exists()? {
        std::fs::create_dir_all(archive)?;
        sync_parent(archive)?;
    }
    let (mut growing, mut settled) = (BTreeMap::new(), BTreeMap::new());
    for file in std::fs::read_dir(archive)? {
        let file = file?;
        let Ok(name) = file.file_name().into_string() else { continue };
        let Some(first_seq) = name.get(..DIGITS).and_then(|digits| digits.parse::<u64>().ok()) else {
            continue;
        };
        match &name[DIGITS..] {
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

/// Moves an archive of an earlier version one directory down.
fn adopt(archive: &Path) -> std::io::Result<()> {
    let beside = with_suffix(archive, ".divided");
    if archive.join(STORE_MARK).try_exists()? {
        if beside.try_exists()? {
            // Made, and not yet filled, before a crash.
            std::fs::remove_dir(&beside)?;
        }
        std::fs::create_dir(&beside)?;
        std::fs::rename(archive, division_path(&beside, 1))?;
        std::fs::File::open(&beside)?.sync_all()?;
        sync_parent(archive)?;
    }
    if beside.try_exists()? {
        if archive.try_exists()? {
            return std::fs::remove_dir(&beside);
        }
        std::fs::rename(&beside, archive)?;
        sync_parent(archive)?;
    }
    Ok(())
}

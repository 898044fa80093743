//! Layout of the archive's directory.
//!
//! ```text
//! 00000000000000000001/           a division, named by its first journal record (twenty digits)
//! 00000000000000000001.filter     its filter
//! 00000000000016777231/           the next; the last of them grows
//! 00000000000016777231.begins     transfers that finished before this record were removed; empty
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use upesi_journal::durable;

use crate::archive::division::remove_files;
use crate::beside::with_suffix;
use crate::{DatabaseKind, TablesError};

const DIGITS: usize = 20;

/// Suffix of a settled division.
const SETTLED: &str = ".sorted";
/// Suffix of the filter of a division.
const FILTER: &str = ".filter";
/// Suffix of the file whose name is the archive's first record.
const BEGINS: &str = ".begins";

/// The divisions of an archive.
pub(crate) struct Layout {
    /// First record of the archive: transfers that finished before it were removed. 1 if none were.
    pub(crate) begins: u64,
    /// Directories of the divisions by their first record.
    pub(crate) divisions: BTreeMap<u64, PathBuf>,
}

/// Path of a division once it is settled; its own path if it is.
pub(crate) fn settled_path(division: &Path) -> PathBuf {
    if division.extension().is_some_and(|ending| ending == &SETTLED[1..]) {
        division.to_path_buf()
    } else {
        with_suffix(division, SETTLED)
    }
}

pub(crate) fn filter_path(division: &Path) -> PathBuf {
    with_suffix(division, FILTER)
}

pub(crate) fn division_path(archive: &Path, first_seq: u64) -> PathBuf {
    archive.join(format!("{first_seq:020}"))
}

/// Records durably that the archive begins with a record. Earlier transfers are then removed, although their files may
/// still exist.
pub(crate) fn set_begin(archive: &Path, first_seq: u64) -> std::io::Result<()> {
    let path = archive.join(format!("{first_seq:020}{BEGINS}"));
    std::fs::File::create(&path)?;
    durable::sync_directory(archive)?;
    forget_earlier_begins(archive, first_seq)
}

/// Removes earlier marks. Only the current one is used; if the others reappear after a crash, they do no harm.
fn forget_earlier_begins(archive: &Path, present: u64) -> std::io::Result<()> {
    for file in std::fs::read_dir(archive)? {
        let file = file?;
        let is_earlier =
            |name: &str| read_name(name).is_some_and(|(seq, ending)| ending == BEGINS && seq < present);
        if file.file_name().to_str().is_some_and(is_earlier) {
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(())
}

/// Creates the directory if necessary, finishes operations that a crash interrupted, and returns the divisions.
pub(crate) fn prepare(archive: &Path) -> Result<Layout, TablesError> {
    prepare_files(archive).map_err(|source| TablesError::io(DatabaseKind::Archive, archive, source))
}

fn prepare_files(archive: &Path) -> std::io::Result<Layout> {
    durable::create_directory(archive)?;
    // A crash may have happened between a rename and its sync. The following steps permanently remove the files that
    // the new names replace.
    durable::sync_directory(archive)?;
    let (mut growing, mut settled, mut begins) = (BTreeMap::new(), BTreeMap::new(), 1);
    let mut filters = Vec::new();
    for file in std::fs::read_dir(archive)? {
        let file = file?;
        let Ok(name) = file.file_name().into_string() else { continue };
        let Some((first_seq, ending)) = read_name(&name) else { continue };
        match ending {
            "" => growing.insert(first_seq, file.path()),
            SETTLED => settled.insert(first_seq, file.path()),
            BEGINS => {
                begins = begins.max(first_seq);
                None
            }
            // A crash interrupted the creation or the removal of this division.
            ending
                if (ending.ends_with(".new") || ending.ends_with(".removed"))
                    && file.file_type()?.is_dir() =>
            {
                std::fs::remove_dir_all(file.path())?;
                None
            }
            ending if ending.ends_with(FILTER) => {
                filters.push((first_seq, file.path()));
                None
            }
            _ => None,
        };
    }
    for (first_seq, path) in settled {
        // A settled division received its name when it was complete, so it replaces the growing division.
        if let Some(replaced) = growing.insert(first_seq, path) {
            remove_files(&replaced)?;
        }
    }
    let divisions = growing.split_off(&begins);
    for path in growing.values() {
        // Removed divisions are not opened, so remaining files do no harm.
        if let Err(error) = remove_files(path) {
            tracing::warn!(%error, path = %path.display(), "cannot remove the files of a removed archive division");
        }
    }
    // A crash during the removal of a division may have left its filter.
    for (first_seq, path) in filters {
        if divisions.get(&first_seq).is_none_or(|division| filter_path(division) != path) {
            let _ = std::fs::remove_file(path);
        }
    }
    forget_earlier_begins(archive, begins)?;
    Ok(Layout { begins, divisions })
}

/// The first record of a division and the suffix in a name.
fn read_name(name: &str) -> Option<(u64, &str)> {
    let (digits, ending) = name.split_at_checked(DIGITS)?;
    Some((digits.parse().ok()?, ending))
}

/// The first record of the oldest division of the archive in a directory. Only reads the names of files: it does not
/// open, finish or change anything. `None` without a division or archive.
pub fn first_seq_of(archive: &Path) -> Option<u64> {
    let (mut divisions, mut begins) = (BTreeSet::new(), 1);
    for name in std::fs::read_dir(archive).ok()?.flatten().map(|entry| entry.file_name()) {
        match name.to_str().and_then(read_name) {
            Some((first_seq, "" | SETTLED)) => drop(divisions.insert(first_seq)),
            Some((first_seq, BEGINS)) => begins = begins.max(first_seq),
            _ => {}
        }
    }
    divisions.range(begins..).next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_removed_with_its_division_after_any_crash() {
        let directory = tempfile::tempdir().unwrap();
        let division = |first_seq| division_path(directory.path(), first_seq);
        for directory in [division(9), settled_path(&division(20)), with_suffix(&division(1), ".removed")] {
            std::fs::create_dir(directory).unwrap();
        }
        let kept = [filter_path(&division(9)), filter_path(&settled_path(&division(20)))];
        // Filters of a removed division, of one that was settled in the meantime, and of none.
        let orphans = [1, 20, 30].map(|first_seq| filter_path(&division(first_seq)));
        for filter in kept.iter().chain(&orphans) {
            std::fs::write(filter, "bits").unwrap();
        }
        assert_eq!(prepare(directory.path()).unwrap().divisions.into_keys().collect::<Vec<_>>(), [9, 20]);
        assert!(kept.iter().all(|filter| filter.exists()), "a filter in use was removed");
        assert!(!orphans.iter().any(|filter| filter.exists()), "an orphaned filter was not removed");
    }

    #[test]
    fn first_seq_of_ignores_files_that_are_not_divisions() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(first_seq_of(&directory.path().join("none")), None);
        // Directories that are being removed or rewritten, filters, and foreign files are not divisions.
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
        let settled = settled_path(&division_path(directory.path(), 60));
        assert_eq!(settled_path(&settled), settled);
        std::fs::create_dir(settled).unwrap();
        assert_eq!(first_seq_of(directory.path()), Some(60));
        for (begins, oldest) in [(60, 60), (80, 80), (70, 80)] {
            std::fs::write(directory.path().join(format!("{begins:020}.begins")), "").unwrap();
            assert_eq!(
                first_seq_of(directory.path()),
                Some(oldest),
                "a removed division counted because its files still exist"
            );
        }
    }
}

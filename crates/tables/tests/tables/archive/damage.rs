//! Damage to a directory is reported; damaged data is never partly read without an error.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::support::{entries, small_options};
use crate::support::copy_directory;
use upesi_tables::TablesError;
use upesi_tables::archive::{Archive, FjallArchive};

const COUNT: u64 = 1_000;

/// Reads the archive in every way. `Ok` has the watermark, after a check of everything up to it. A watermark of 0 means
/// an empty archive, which makes the reader of the journal start from the beginning.
fn read_all(path: &Path) -> Result<u64, TablesError> {
    let archive = FjallArchive::open(path, &small_options(200))?;
    let watermark = archive.watermark();
    let mut seen = 0;
    archive.for_each(&mut |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(seen, watermark, "a scan finds all transfers below the watermark");
    for (id, value) in entries(0..watermark) {
        assert_eq!(archive.get(&id)?, Some(value), "a lookup finds every transfer below the watermark");
    }
    Ok(watermark)
}

fn files_below(path: &Path, files: &mut Vec<PathBuf>) {
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_dir() {
            files_below(&file.path(), files);
        } else {
            files.push(file.path());
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    /// One bit, at this many thousandths of the file.
    Flip(usize),
    Cut,
    Zero,
    Remove,
}

const DAMAGES: [Damage; 10] = [
    Damage::Flip(0),
    Damage::Flip(137),
    Damage::Flip(500),
    Damage::Flip(880),
    Damage::Flip(960),
    Damage::Flip(990),
    Damage::Flip(999),
    Damage::Cut,
    Damage::Zero,
    Damage::Remove,
];

fn inflict(damage: Damage, file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    match damage {
        Damage::Flip(thousandths) => {
            let at = bytes.len() * thousandths / 1000;
            bytes[at] ^= 0x10;
        }
        Damage::Cut => bytes.truncate(bytes.len() / 2),
        Damage::Zero => bytes.fill(0),
        Damage::Remove => return std::fs::remove_file(file).unwrap(),
    }
    std::fs::write(file, bytes).unwrap();
}

/// A closed archive of `COUNT` transfers.
fn whole_archive(path: &Path) {
    let archive = FjallArchive::open(path, &small_options(200)).unwrap();
    archive.apply(&entries(0..COUNT), COUNT).unwrap();
}

#[test]
fn damaged_file_is_harmless_or_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, hurt) = (directory.path().join("whole"), directory.path().join("hurt"));
    whole_archive(&whole);
    assert_eq!(read_all(&whole).unwrap(), COUNT);
    let mut files = Vec::new();
    files_below(&whole, &mut files);
    let mut reported = 0;
    for file in files.iter().filter(|file| file.metadata().unwrap().len() > 0) {
        let name = file.strip_prefix(&whole).unwrap();
        for damage in DAMAGES {
            copy_directory(&whole, &hurt);
            inflict(damage, &hurt.join(name));
            match read_all(&hurt) {
                Ok(COUNT | 0) => {}
                Err(TablesError::Damaged { .. } | TablesError::Format { .. }) => reported += 1,
                other => panic!("{damage:?} of {}: {other:?}", name.display()),
            }
            std::fs::remove_dir_all(&hurt).unwrap();
        }
    }
    // Most kinds of damage are reported for each of at least five tables. A flipped bit in padding is harmless.
    assert!(reported > 40, "only {reported} damages were reported");
}

#[test]
fn deleting_a_damaged_archive_repairs_it_as_the_message_states() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    whole_archive(&path);
    let mut files = Vec::new();
    files_below(&path.join("00000000000000000001/keyspaces/1/tables"), &mut files);
    inflict(Damage::Cut, &files[0]);
    let message = read_all(&path).unwrap_err().to_string();
    assert!(message.contains("derived data") && message.contains("delete that directory"), "{message}");
    let where_it_is =
        format!("the archive in {} is damaged (division 00000000000000000001: ", path.display());
    assert!(message.starts_with(&where_it_is), "{message}");
    std::fs::remove_dir_all(&path).unwrap();
    whole_archive(&path);
    assert_eq!(read_all(&path).unwrap(), COUNT);
}

#[test]
fn path_that_cannot_be_a_directory_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"in the way").unwrap();
    let error = FjallArchive::open(file.join("archive"), &small_options(200)).map(|_| ()).unwrap_err();
    assert!(matches!(error, TablesError::Io { .. }), "{error}");
    // The place where a division is made, before it moves to its final one.
    let archive = directory.path().join("unfinished");
    std::fs::create_dir(&archive).unwrap();
    std::fs::write(archive.join("00000000000000000001.new"), b"in the way").unwrap();
    let error = FjallArchive::open(&archive, &small_options(200)).map(|_| ()).unwrap_err();
    assert!(matches!(error, TablesError::Io { .. }), "{error}");
    // The place for the file of a filter.
    let archive = directory.path().join("archive");
    whole_archive(&archive);
    std::fs::create_dir(archive.join("00000000000000000001.filter")).unwrap();
    let error = read_all(&archive).unwrap_err();
    assert!(matches!(error, TablesError::Io { .. }), "{error}");
}

//! Every flipped bit of every list, and every way to lose a list: the fault is reported, and nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use upesi_tables::lsm::Fault;

const KEYS: u32 = 200;

fn open(path: &Path) -> Result<(Database, Keyspace), Fault> {
    upesi_tables::lsm::open(path, "restore it", || {
        let database = Database::builder(path).worker_threads(1).open()?;
        let keyspace = database.keyspace("numbers", KeyspaceCreateOptions::default)?;
        Ok((database, keyspace))
    })
}

/// The number of keys that are found. If there are none, all are written.
fn with_database(path: &Path) -> Result<u32, Fault> {
    let (database, keyspace) = open(path)?;
    let read = (0..KEYS).filter(|key| keyspace.get(key.to_be_bytes()).is_ok_and(|found| found.is_some()));
    let read = read.count() as u32;
    if read == 0 {
        for tables in [0..KEYS / 2, KEYS / 2..KEYS] {
            let mut table = keyspace.start_ingestion()?;
            for key in tables {
                table.write(key.to_be_bytes(), b"number")?;
            }
            table.finish()?;
        }
    }
    drop((keyspace, database));
    Ok(read)
}

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}

/// All files with their contents.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    files_below(directory, &mut files);
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn assert_refused(path: &Path, what: &str) {
    let before = contents(path);
    match with_database(path) {
        Err(Fault::Damaged(detail)) => assert!(detail.contains("keyspaces/"), "{what}: {detail}"),
        other => panic!("{what}: {other:?}"),
    }
    assert!(contents(path) == before, "{what}: something was changed");
}

fn filled() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    assert_eq!(with_database(&path).unwrap(), 0);
    assert_eq!(with_database(&path).unwrap(), KEYS);
    (directory, path)
}

/// The list in use, the file that names it, and the ends of the tables that it lists.
fn lists(path: &Path) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    for keyspace in ["keyspaces/0", "keyspaces/1"].map(|keyspace| path.join(keyspace)) {
        let current = fs::read(keyspace.join("current")).unwrap();
        let version = u64::from_le_bytes(current[..8].try_into().unwrap());
        found.extend([(keyspace.join("current"), 0), (keyspace.join(format!("v{version}")), 0)]);
        let tables = fs::read_dir(keyspace.join("tables")).unwrap().map(|table| table.unwrap().path());
        // Contents and trailer. The blocks before them have checksums.
        found.extend(tables.map(|table| {
            let length = fs::metadata(&table).unwrap().len() as usize;
            (table, length - 38 - 104)
        }));
    }
    found
}

#[test]
fn list_with_a_flipped_bit_is_rejected_and_unchanged() {
    let (_directory, path) = filled();
    let mut flips = 0;
    for (file, from) in lists(&path) {
        let whole = fs::read(&file).unwrap();
        for at in from..whole.len() {
            let mut rotten = whole.clone();
            rotten[at] ^= 1 << (at % 8);
            fs::write(&file, rotten).unwrap();
            assert_refused(&path, &format!("byte {at} of {}", file.display()));
            flips += 1;
        }
        fs::write(&file, whole).unwrap();
    }
    assert!(flips > 1_000, "only {flips}");
    assert_eq!(with_database(&path).unwrap(), KEYS);
}

#[test]
fn missing_truncated_or_empty_list_is_rejected() {
    let (_directory, path) = filled();
    for (file, _) in lists(&path) {
        let whole = fs::read(&file).unwrap();
        let is_optional = file.ends_with("keyspaces/1/current");
        for length in [0, 1, 24, whole.len() / 2, whole.len() - 1] {
            fs::write(&file, &whole[..length]).unwrap();
            assert_refused(&path, &format!("{} cut to {length}", file.display()));
        }
        fs::remove_file(&file).unwrap();
        if !is_optional {
            assert_refused(&path, &format!("{} removed", file.display()));
        }
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(with_database(&path).unwrap(), KEYS);
}

/// A sparse file of a damaged disk may have any length, and a device has no end: neither is read into memory.
#[test]
fn endless_list_is_rejected_at_a_limit() {
    let (_directory, path) = filled();
    let noted = path.join("noted");
    upesi_tables::lsm::note(&path).unwrap();
    let files: Vec<_> = lists(&path).into_iter().map(|(file, _)| file).collect();
    let is_list = |file: &Path| file.parent().is_some_and(|parent| !parent.ends_with("tables"));
    for file in files.into_iter().filter(|file| is_list(file)).chain([noted]) {
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        match with_database(&path) {
            Err(Fault::Damaged(detail)) => assert!(detail.ends_with("is too long"), "{detail}"),
            other => panic!("{}: {other:?}", file.display()),
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(with_database(&path).unwrap(), KEYS);
}

/// The embedded store would panic at these.
#[test]
fn foreign_file_in_the_directory_is_rejected() {
    for foreign in ["keyspaces/lost+found", "keyspaces/1/tables/77"] {
        let (_directory, path) = filled();
        fs::create_dir(path.join(foreign)).unwrap();
        assert_refused(&path, foreign);
        fs::remove_dir(path.join(foreign)).unwrap();
        assert_eq!(with_database(&path).unwrap(), KEYS, "{foreign}: nothing is lost");
    }
}

/// A crash during the creation of a keyspace leaves a directory without a list. fjall removes it.
#[test]
fn unfinished_keyspace_is_not_damage() {
    let (_directory, path) = filled();
    fs::create_dir_all(path.join("keyspaces/2/tables")).unwrap();
    assert_eq!(with_database(&path).unwrap(), KEYS);
    assert!(!path.join("keyspaces/2").exists());
}

/// A backup consists of files, so an empty folder is not restored.
#[test]
fn keyspace_without_tables_needs_no_directory_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    drop(open(&path).unwrap());
    let tables = path.join("keyspaces/1/tables");
    fs::remove_dir(&tables).expect("there, and empty");
    assert_eq!(with_database(&path).unwrap(), 0, "it is whole, and takes tables again");
    assert_eq!(with_database(&path).unwrap(), KEYS);
    fs::remove_dir_all(&tables).unwrap();
    assert_refused(&path, "the folder of tables that are named");
}

/// An old copy of `current`, from a time when a part of the keys was there, is restored. If the list in use was noted,
/// this is reported, and nothing is changed.
#[test]
fn old_copy_of_the_current_list_pointer_is_rejected() {
    for is_noted in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("database");
        let current = path.join("keyspaces/1/current");
        let (database, keyspace) = open(&path).unwrap();
        let mut copies = Vec::new();
        // Tables that overlap, and too few to be merged: after the second one fjall moves and removes nothing by
        // itself.
        for from in 0..3 {
            let mut table = keyspace.start_ingestion().unwrap();
            for key in (from..KEYS).step_by(3) {
                table.write(key.to_be_bytes(), b"number").unwrap();
            }
            table.finish().unwrap();
            if is_noted {
                upesi_tables::lsm::note(&path).unwrap();
            }
            copies.push(fs::read(&current).unwrap());
        }
        drop((keyspace, database));
        fs::write(&current, &copies[1]).unwrap();
        if !is_noted {
            assert_eq!(with_database(&path).unwrap(), KEYS.div_ceil(3) * 2, "fjall goes back to it");
            continue;
        }
        assert_refused(&path, "is an older version or missing");
        fs::remove_file(&current).unwrap();
        assert_refused(&path, "none");
        fs::write(&current, &copies[2]).unwrap();
        let noted = path.join("noted");
        let note = fs::read(&noted).unwrap();
        for rotten in [&note[..note.len() - 1], &[][..], &[0; 48][..]] {
            fs::write(&noted, rotten).unwrap();
            let refused = with_database(&path);
            let Err(Fault::Damaged(detail)) = &refused else { panic!("{rotten:?}: {refused:?}") };
            assert!(detail.contains("noted cannot be decoded"), "{detail}");
        }
        fs::write(&noted, &note).unwrap();
        assert_eq!(with_database(&path).unwrap(), KEYS);
        fs::remove_file(&noted).unwrap();
        assert_eq!(with_database(&path).unwrap(), KEYS, "before an owner relies on the lists there is none");
    }
}

#[test]
fn only_the_lsm_module_uses_the_library() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut files, mut beyond) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("src/lsm") {
                folders.push(path);
            } else if path.extension().is_some_and(|name| name == "rs") && !path.ends_with("src/lsm.rs") {
                files += 1;
                if fs::read_to_string(&path).unwrap().contains("fjall::") {
                    beyond.push(path);
                }
            }
        }
    }
    assert!(files > 20, "{files} files");
    assert_eq!(beyond, Vec::<PathBuf>::new());
}

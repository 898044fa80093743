//! The data directory on the real file system.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

use crate::sim_disk::script::time;
use crate::{
    Access, Batch, DataDirectory, DataDirectoryError, Disk, END, JournalError, Options, Reader, RealDisk,
    SnapshotStore, open, segments,
};

#[test]
fn appended_records_exist_after_reopening() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("new/data");
    let options = Options { segment_bytes: 8 * 1024, ..Options::default() };
    let mut last_seq = 0;
    for _ in 0..3 {
        let directory = DataDirectory::open(&path).expect("opens");
        let mut opened = open(directory.disk(), options.clone()).expect("opens");
        assert_eq!(opened.recovered.last_seq, last_seq);
        let mut batch = Batch::new(last_seq + 1);
        for _ in 0..30 {
            batch.reset(last_seq + 1);
            last_seq = batch.push(time(last_seq + 1), |buffer| buffer.extend([b'x'; 600]));
            opened.writer.append(&mut batch).expect("appends");
            opened.writer.maintain().expect("maintains");
        }
        let store = SnapshotStore::open(directory.disk()).expect("opens");
        store
            .write(last_seq, time(last_seq), |sink| std::io::Write::write_all(sink, b"state"))
            .expect("writes");
    }
    let directory = DataDirectory::open_for_reading(&path).expect("opens");
    assert_eq!((directory.path(), directory.in_use_by()), (&*path, None));
    let verified = crate::verify(directory.disk()).expect("verifies");
    assert_eq!((verified.first_seq, verified.last_seq, verified.torn), (1, 90, None));
    assert!(segments(&*directory.disk()).expect("lists").len() > 5);
    let mut reader = Reader::new(directory.disk(), 90);
    assert_eq!(reader.next_record(END).expect("reads").map(|record| record.bytes.len()), Some(600));
    let store = SnapshotStore::open_for_reading(directory.disk());
    assert_eq!(store.latest().expect("reads").snapshot.map(|found| found.bytes), Some(b"state".to_vec()));
    // With read access nothing can be changed.
    assert!(matches!(open(directory.disk(), options), Err(JournalError::Io { .. })));
    assert!(store.prune(1).is_err());
}

#[test]
fn a_torn_tail_on_a_real_disk_is_cut_off() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let directory = DataDirectory::open(root.path()).expect("opens");
    let mut writer = open(directory.disk(), Options::default()).expect("opens").writer;
    for seq in 1..=2 {
        let mut batch = Batch::new(seq);
        batch.push(time(seq), |buffer| buffer.extend([b'x'; 2_000]));
        writer.append(&mut batch).expect("appends");
    }
    let file = root.path().join("journal/00000000000000000001.seg");
    let mut bytes = fs::read(&file).expect("reads");
    // One sector of the second frame never reached the disk.
    bytes[512 + 2_560 + 1_024..][..512].fill(0);
    fs::write(&file, &bytes).expect("writes");
    let recovered = open(directory.disk(), Options::default()).expect("opens").recovered;
    assert_eq!(recovered.last_seq, 1);
    let torn = recovered.torn.expect("it was torn");
    assert_eq!((torn.offset, torn.bytes), (512 + 2_560, 2_560));
    assert!(fs::read(&file).expect("reads")[512 + 2_560..].iter().all(|byte| *byte == 0));
    assert_eq!(open(directory.disk(), Options::default()).expect("opens").recovered.torn, None);
}

#[test]
fn second_user_is_rejected_by_name() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let first = DataDirectory::open(root.path()).expect("opens");
    let error = DataDirectory::open(root.path()).map(|_| ()).expect_err("is locked");
    let own = std::process::id();
    assert!(matches!(error, DataDirectoryError::Locked { pid: Some(pid), .. } if pid == own), "{error}");
    assert!(error.to_string().contains(&format!("in use by process {own}")), "{error}");
    let watching = DataDirectory::open_for_reading(root.path()).expect("reading is possible");
    assert_eq!(watching.in_use_by(), Some(own));
    drop(first);
    DataDirectory::open(root.path()).expect("opens again");
}

#[test]
fn unusable_directories_are_rejected_and_unchanged() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let file = root.path().join("file");
    fs::write(&file, "x").expect("writes");
    for path in [file.clone(), file.join("below")] {
        let error = DataDirectory::open(&path).map(|_| ()).expect_err("is no directory");
        assert!(matches!(error, DataDirectoryError::NotADirectory(_)), "{error}");
        let error = DataDirectory::open_for_reading(&path).map(|_| ()).expect_err("is no directory");
        assert!(matches!(error, DataDirectoryError::NotADirectory(_)), "{error}");
    }
    let nowhere = root.path().join("nowhere");
    let error = DataDirectory::open_for_reading(&nowhere).map(|_| ()).expect_err("is not there");
    assert!(matches!(error, DataDirectoryError::NotFound(_)), "{error}");
    assert!(!nowhere.exists());

    let newer = root.path().join("newer");
    drop(DataDirectory::open(&newer).expect("opens"));
    fs::write(newer.join("FORMAT"), "upesi-data 3\n").expect("writes");
    for error in [DataDirectory::open(&newer).err(), DataDirectory::open_for_reading(&newer).err()] {
        let error = error.expect("the format is unknown");
        assert!(
            matches!(&error, DataDirectoryError::UnknownFormat { found, .. } if found == "upesi-data 3"),
            "{error}"
        );
    }
    fs::remove_file(newer.join("FORMAT")).expect("removes");
    for error in [DataDirectory::open(&newer).err(), DataDirectory::open_for_reading(&newer).err()] {
        let error = error.expect("the format is not stated");
        assert!(matches!(error, DataDirectoryError::NoFormat(_)), "{error}");
    }
    assert!(!newer.join("FORMAT").exists());
    fs::create_dir(newer.join("FORMAT")).expect("makes");
    for error in [DataDirectory::open(&newer).err(), DataDirectory::open_for_reading(&newer).err()] {
        let error = error.expect("the format cannot be read");
        assert!(matches!(&error, DataDirectoryError::Io { path, .. } if path.ends_with("FORMAT")), "{error}");
    }
}

#[test]
fn directory_is_empty_without_ledger_and_foreign_files() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("data");
    let is_empty = || DataDirectory::is_absent_or_empty(&path);
    assert!(is_empty().expect("may be absent"));
    fs::create_dir(&path).expect("makes");
    fs::create_dir(path.join("lost+found")).expect("makes");
    fs::write(path.join("bootstrap"), "of upesi admin").expect("writes");
    assert!(is_empty().expect("may be empty"));
    fs::write(path.join("photos"), "mine").expect("writes");
    assert!(matches!(is_empty(), Err(DataDirectoryError::Foreign { .. })));
    fs::remove_file(path.join("photos")).expect("removes");
    drop(DataDirectory::open(&path).expect("makes a data directory"));
    assert!(!is_empty().expect("has a ledger"));
    fs::remove_file(path.join("FORMAT")).expect("removes");
    assert!(matches!(is_empty(), Err(DataDirectoryError::NoFormat(_))));
    let file = path.join("bootstrap");
    assert!(matches!(DataDirectory::is_absent_or_empty(&file), Err(DataDirectoryError::NotADirectory(_))));
}

/// In a directory with other content, a hub would begin an empty ledger.
#[test]
fn foreign_directory_is_rejected_and_unchanged() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("home");
    fs::create_dir(&path).expect("makes");
    for name in ["photos", ".profile", "\u{1b}[2Kdata", "store"] {
        fs::write(path.join(name), "mine").expect("writes");
        let error = DataDirectory::open(&path).map(|_| ()).expect_err("is of something else");
        assert!(matches!(&error, DataDirectoryError::Foreign { found, .. } if found == name), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
        assert_eq!(fs::read_dir(&path).expect("reads").count(), 1, "{name}");
        fs::remove_file(path.join(name)).expect("removes");
    }
    // A hub's first start may find a new volume, and the digest of the first operator's token.
    fs::create_dir(path.join("lost+found")).expect("makes");
    fs::write(path.join("bootstrap"), "digest").expect("writes");
    fs::write(path.join("FORMAT.tmp"), "upesi").expect("writes");
    DataDirectory::open(&path).expect("opens");
    fs::write(path.join("photos"), "mine").expect("writes");
    DataDirectory::open(&path).expect("opens a directory with its format");
}

#[test]
fn directory_without_write_access_is_reported() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("data");
    fs::create_dir(&path).expect("makes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).expect("sets");
    let result = DataDirectory::open(&path);
    // The superuser can write everywhere.
    if fs::write(path.join("probe"), "x").is_err() {
        let error = result.map(|_| ()).expect_err("is not writable");
        assert!(matches!(error, DataDirectoryError::Unwritable { .. }), "{error}");
    }
    // There, not even the superuser can create directories.
    if fs::exists("/sys/kernel").expect("is known") {
        let error = DataDirectory::open("/sys/upesi").map(|_| ()).expect_err("is not writable");
        assert!(matches!(error, DataDirectoryError::Unwritable { .. }), "{error}");
    }
}

#[test]
fn read_only_disk_changes_nothing() {
    let root = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(root.path().join("directory")).expect("makes");
    for name in ["b", "a"] {
        fs::write(root.path().join(name), name).expect("writes");
    }
    let disk = RealDisk::new(root.path(), Access::Read);
    for (what, result) in [
        ("create_directory", disk.create_directory("directory")),
        ("create", disk.create("new").map(|_| ())),
        ("open", disk.open("a", Access::Write).map(|_| ())),
        ("rename", disk.rename("a", "b")),
        ("remove", disk.remove("a")),
        ("sync_directory", disk.sync_directory("")),
    ] {
        let kind = result.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::ReadOnlyFilesystem), "{what}");
    }
    assert_eq!(disk.list("").expect("lists"), ["a", "b"], "directories are left out");
    let file = disk.open("a", Access::Read).expect("opens");
    file.write_at(0, b"x").expect_err("is open for reading");
    assert_eq!(fs::read(root.path().join("a")).expect("reads"), b"a");
}

#[test]
fn real_disk_reports_missing_and_existing_files() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let disk = RealDisk::new(root.path(), Access::Write);
    disk.create_directory("directory").expect("makes");
    disk.create_directory("directory").expect("it is there already");
    assert_eq!(disk.create_directory("none/below").map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    disk.sync_directory("directory").expect("syncs");
    disk.create("file").expect("creates").allocate(5_000).expect("allocates");
    assert_eq!(disk.create("file").map(|_| ()).map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
    disk.rename("file", "directory/file").expect("renames");
    assert_eq!((disk.list("").expect("lists").len(), disk.list("directory").expect("lists").len()), (0, 1));
    let file = disk.open("directory/file", Access::ReadOnce).expect("opens");
    assert_eq!(file.length().expect("is known"), 5_000);
    let mut found = [1; 100];
    assert_eq!(file.read_at(4_950, &mut found).expect("reads"), 50);
    assert_eq!((&found[..50], &found[50..]), (&[0; 50][..], &[1; 50][..]));
    // Other errors are not treated as the end of a file.
    let directory = disk.open("directory", Access::Read).expect("opens");
    assert_eq!(directory.read_at(0, &mut found).map_err(|error| error.kind()), Err(ErrorKind::IsADirectory));
    disk.remove("directory/file").expect("removes");
    assert_eq!(disk.list("directory").expect("lists"), [""; 0]);
}

#[test]
fn direct_and_cached_writes_can_be_mixed() {
    let root = tempfile::tempdir().expect("a directory");
    let disk = RealDisk::new(root.path(), Access::Write);
    let file = disk.create("file").expect("creates");
    file.allocate(64 * 1024).expect("allocates");
    let mut expected = vec![0; 64 * 1024];
    // Space for an aligned range in the middle.
    let source: Vec<u8> = (0..32 * 1024_usize).map(|at| (at % 251) as u8 + 1).collect();
    let aligned = source.as_ptr().align_offset(4096);
    for (offset, length, from) in [
        (0, 512, aligned + 1),
        (512, 4096, aligned),
        (4608, 1000, aligned + 3),
        (8192, 512, aligned),
        (8704, 512, aligned + 512),
        (4096, 1024, aligned + 4096),
        (7, 8, aligned),
        (20 * 1024, 16 * 1024, aligned),
        (30 * 1024, 512, aligned + 100),
    ] {
        let bytes = &source[from..from + length];
        file.write_at(offset as u64, bytes).expect("writes");
        expected[offset..offset + length].copy_from_slice(bytes);
        for access in [Access::Read, Access::ReadOnce] {
            let reader = disk.open("file", access).expect("opens");
            let mut found = vec![0xff; expected.len() + 8192];
            let start = found.as_ptr().align_offset(4096);
            let found = &mut found[start..start + expected.len()];
            assert_eq!(reader.read_at(0, found).expect("reads"), found.len());
            assert!(found == expected, "{access:?} after {length} bytes at {offset}");
        }
    }
    file.sync().expect("syncs");
}

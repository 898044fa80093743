//! The journal's file names, the modes of opening files, and names in error messages.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use crate::segment::{list, number_of, path};
use crate::sim_disk::SimDisk;
use crate::sim_disk::script::{Script, dynamic};
use crate::{Access, Disk, DiskFile, END, EmbeddedLog, JournalError, SnapshotStore};

#[test]
fn file_names_have_twenty_digits_and_the_suffix() {
    for (name, number) in [
        ("00000000000000000001.seg", Some(1)),
        ("18446744073709551615.seg", Some(u64::MAX)),
        ("18446744073709551616.seg", None),
        ("+0000000000000000001.seg", None),
        ("0000000000000000000a.seg", None),
        ("0000000000000000001.seg", None),
        ("000000000000000000001.seg", None),
        ("00000000000000000001.snap", None),
        ("00000000000000000001", None),
        ("prepared.tmp", None),
        ("", None),
    ] {
        assert_eq!(number_of(name, ".seg"), number, "{name:?}");
    }
    let disk = SimDisk::new(0);
    disk.create_directory("journal").expect("makes");
    for name in [&path(20), "journal/1.seg", &path(3), "journal/notes"] {
        disk.create(name).expect("creates");
    }
    assert_eq!(list(&disk).expect("lists"), [3, 20]);
}

/// Records how files are opened. If there is an error for it, lists one file that cannot be opened.
#[derive(Debug)]
struct Watched {
    disk: SimDisk,
    error: Option<ErrorKind>,
    opened: Mutex<Vec<Access>>,
}

impl Watched {
    fn new(disk: SimDisk, error: Option<ErrorKind>) -> Arc<Self> {
        Arc::new(Self { disk, error, opened: Mutex::default() })
    }
}

const VANISHED: &str = "00000000000000000007.snap";

impl Disk for Watched {
    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.disk.create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = self.disk.list(directory)?;
        names.extend(self.error.map(|_| VANISHED.to_owned()));
        Ok(names)
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.opened.lock().expect("no panic").push(access);
        match self.error.filter(|_| path.ends_with(VANISHED)) {
            Some(error) => Err(error.into()),
            None => self.disk.open(path, access),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }
}

#[test]
fn snapshot_removed_during_listing_is_left_out() {
    let list = |error: ErrorKind| {
        let store = SnapshotStore::open(Watched::new(SimDisk::new(0), Some(error))).expect("opens");
        store.write(3, 3, |_| Ok(())).expect("writes");
        store.list().map(|infos| infos.iter().map(|info| (info.seq, info.bytes)).collect::<Vec<_>>())
    };
    assert_eq!(list(ErrorKind::NotFound).expect("lists"), [(3, 64)]);
    assert!(matches!(list(ErrorKind::PermissionDenied), Err(JournalError::Io { operation: "open", .. })));
}

#[test]
fn single_pass_readers_bypass_the_page_cache() {
    let script = Script::new(8);
    let disk = Watched::new(SimDisk::new(8), None);
    assert!(script.run(&disk.disk).error.is_none());
    let segments = list(&*disk).expect("lists").len();
    let log = EmbeddedLog::for_reading(&(Arc::clone(&disk) as Arc<dyn Disk>));
    for (mut reader, access) in [(log.read_from(1), Access::Read), (log.read_once_from(1), Access::ReadOnce)]
    {
        while reader.next_record(END).expect("reads").is_some() {}
        let opened = std::mem::take(&mut *disk.opened.lock().expect("no panic"));
        let is_as_said = opened.iter().all(|found| *found == access);
        assert!(opened.len() >= segments && is_as_said, "{opened:?}");
    }
}

#[test]
fn full_disk_and_missing_file_differ_from_other_errors() {
    for (kind, is_full, is_not_found) in [
        (ErrorKind::StorageFull, true, false),
        (ErrorKind::QuotaExceeded, true, false),
        (ErrorKind::NotFound, false, true),
        (ErrorKind::Other, false, false),
    ] {
        let error = JournalError::io("write", "file", kind.into());
        assert_eq!(matches!(error, JournalError::DiskFull { .. }), is_full, "{kind}");
        assert_eq!(error.is_not_found(), is_not_found, "{kind}");
        let failed_sync = JournalError::sync("file", kind.into());
        assert!(matches!(failed_sync, JournalError::Io { operation: "sync", .. }), "{kind}");
    }
    assert!(!JournalError::Poisoned.is_not_found());
}

#[test]
fn missing_journal_is_not_found() {
    let error = list(&*dynamic(&SimDisk::new(0))).expect_err("the directory does not exist");
    assert!(error.is_not_found(), "{error}");
}

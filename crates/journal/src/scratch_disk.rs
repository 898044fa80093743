//! A disk that keeps changes in memory, for trying a start without changing the data directory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Access, Disk, DiskFile};

const PAGE_BYTES: u64 = 4096;

/// Reads come from another disk; writes stay in memory. Space that holds only zeros uses no memory.
#[derive(Debug)]
pub struct ScratchDisk {
    below: Arc<dyn Disk>,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    /// Files created or changed here.
    files: BTreeMap<String, Arc<ScratchFile>>,
    /// Files of the disk below that were removed here.
    removed: BTreeSet<String>,
}

#[derive(Debug)]
struct ScratchFile {
    below: Option<Arc<dyn DiskFile>>,
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    length: u64,
    /// Written pages by page number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl ScratchDisk {
    /// Creates a scratch disk over `below`, which is never changed.
    pub fn new(below: Arc<dyn Disk>) -> Self {
        Self { below, names: Mutex::default() }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file for changing: the file of this disk, or a new overlay over the file below.
    fn own(&self, names: &mut Names, path: &str) -> io::Result<Arc<ScratchFile>> {
        if let Some(file) = names.files.get(path) {
            return Ok(Arc::clone(file));
        }
        if names.removed.contains(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let below = self.below.open(path, Access::Read)?;
        let content = Content { length: below.length()?, pages: BTreeMap::new() };
        let file = Arc::new(ScratchFile { below: Some(below), content: Mutex::new(content) });
        names.files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}

fn directory_of(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Disk for ScratchDisk {
    fn create_directory(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let names = self.names();
        let join =
            |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        let mut found: BTreeSet<String> = match self.below.list(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            listed => listed?.into_iter().filter(|name| !names.removed.contains(&join(name))).collect(),
        };
        let own = names.files.keys().map(|path| directory_of(path));
        found.extend(own.filter(|(of, _)| *of == directory).map(|(_, name)| name.to_owned()));
        Ok(found.into_iter().collect())
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut names = self.names();
        if self.own(&mut names, path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let content = Content { length: 0, pages: BTreeMap::new() };
        let file = Arc::new(ScratchFile { below: None, content: Mutex::new(content) });
        names.files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut names = self.names();
        if access != Access::Write && !names.files.contains_key(path) && !names.removed.contains(path) {
            return self.below.open(path, access);
        }
        Ok(self.own(&mut names, path)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names();
        let file = self.own(&mut names, from)?;
        names.files.remove(from);
        names.removed.insert(from.to_owned());
        names.removed.remove(to);
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut names = self.names();
        self.own(&mut names, path)?;
        names.files.remove(path);
        names.removed.insert(path.to_owned());
        Ok(())
    }

    fn sync_directory(&self, _directory: &str) -> io::Result<()> {
        Ok(())
    }
}

impl ScratchFile {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page of the disk below. Bytes after the end of the file are zeros.
    fn page_below(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE_BYTES as usize];
        if let Some(below) = &self.below {
            below.read_at(number * PAGE_BYTES, &mut page)?;
        }
        Ok(page)
    }
}

impl DiskFile for ScratchFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.content().length)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut content = self.content();
        content.length = content.length.max(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.content();
        let count = content.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let part = (count - done).min(PAGE_BYTES as usize - within);
            let number = at / PAGE_BYTES;
            let fresh;
            let page = match content.pages.get(&number) {
                Some(page) => page,
                None => {
                    fresh = self.page_below(number)?;
                    &fresh
                }
            };
            buffer[done..done + part].copy_from_slice(&page[within..within + part]);
            done += part;
        }
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.content();
        content.length = content.length.max(offset + bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (number, within) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
            let part = &bytes[done..bytes.len().min(done + PAGE_BYTES as usize - within)];
            done += part.len();
            let page = match content.pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(place) => {
                    let below = self.page_below(number)?;
                    // The bytes are unchanged, for example zeros that are written ahead.
                    if below[within..within + part.len()] == *part {
                        continue;
                    }
                    place.insert(below)
                }
            };
            page[within..within + part.len()].copy_from_slice(part);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn changes_in_scratch_are_invisible_outside() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("journal")).unwrap();
        let path = |name: &str| directory.path().join("journal").join(name);
        let old: Vec<u8> = (0..10_000_u32).map(|index| index as u8).collect();
        std::fs::write(path("old"), &old).unwrap();
        std::fs::write(path("gone"), "gone").unwrap();
        let disk = ScratchDisk::new(Arc::new(RealDisk::new(directory.path(), Access::Read)));
        let read = |name: &str| {
            let file = disk.open(&format!("journal/{name}"), Access::Read).unwrap();
            let mut bytes = vec![1; file.length().unwrap() as usize + 10];
            let count = file.read_at(0, &mut bytes).unwrap();
            bytes.truncate(count);
            bytes
        };
        assert_eq!(read("old"), old);
        let file = disk.open("journal/old", Access::Write).unwrap();
        file.write_at(4_090, &[0; 12]).unwrap();
        file.write_at(9_998, b"beyond").unwrap();
        file.allocate(20_000).unwrap();
        let mut expected = old.clone();
        expected[4_090..4_102].fill(0);
        expected.resize(20_000, 0);
        expected[9_998..10_004].copy_from_slice(b"beyond");
        assert_eq!(read("old"), expected);

        assert_eq!(disk.create("journal/old").unwrap_err().kind(), ErrorKind::AlreadyExists);
        disk.create("journal/new").unwrap().write_at(3, b"new").unwrap();
        disk.rename("journal/new", "journal/newer").unwrap();
        disk.remove("journal/gone").unwrap();
        assert_eq!(disk.list("journal").unwrap(), ["newer", "old"]);
        assert_eq!(read("newer"), *b"\0\0\0new");
        for name in ["new", "gone", "never"] {
            let missing = disk.open(&format!("journal/{name}"), Access::Read).unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{name}");
        }
        disk.create("journal/gone").unwrap();
        assert_eq!(read("gone"), b"");
        assert_eq!(
            (std::fs::read(path("old")).unwrap(), std::fs::read(path("gone")).unwrap()),
            (old, b"gone".to_vec())
        );
        assert!(!path("newer").exists());
    }
}

//! Checks fjall's lists of tables without fjall.
//!
//! ```text
//! keyspaces/ID/current     25 bytes: version N (u64), XXH3-128 of the file vN, 0
//! keyspaces/ID/vN          the list: sections, their contents, a trailer; names the tables by level and run
//! keyspaces/ID/tables/T    a table: blocks with checksums of their own, then contents and trailer like the list's
//! ```
//!
//! All numbers are little-endian. Keyspace 0 is fjall's own and names the others.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::lsm::Fault;

pub(crate) const CURRENT: &str = "current";
/// The directory of all keyspaces.
pub(crate) const KEYSPACES: &str = "keyspaces";
const TABLES: &str = "tables";
const FIRST_KEYSPACE: &str = "0";
const MAGIC: &[u8; 4] = b"SFA!";
const CONTENTS_MAGIC: &[u8; 4] = b"TOC!";
/// Magic, version, kind of checksum, checksum of the contents, their position and length.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;
/// `current` has 25 bytes.
pub(crate) const CURRENT_BYTES_MAX: u64 = 64;
/// A list has 33 bytes for each table, so this is for half a million tables.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// The contents of a table take 128 bytes.
const CONTENTS_BYTES_MAX: u64 = 64 << 10;
/// Number of attempts to read a list that its writer changes meanwhile.
const ATTEMPTS_MAX: usize = 16;

/// Checks the lists of the database in `path`. A database that does not exist yet is valid.
pub(crate) fn check(path: &Path) -> Result<(), Fault> {
    let keyspaces = path.join(KEYSPACES);
    let entries = match fs::read_dir(&keyspaces) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Fault::Io)?,
    };
    for entry in entries {
        let entry = entry.map_err(Fault::Io)?;
        if entry.file_type().map_err(Fault::Io)?.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let checked = match name.parse::<u64>() {
                Ok(_) => check_keyspace(&entry.path(), name == FIRST_KEYSPACE),
                Err(_) => Err(ListError::Damaged("does not belong there".to_owned())),
            };
            checked.map_err(|flaw| flaw.in_directory(&format!("{KEYSPACES}/{name}")))?;
        }
    }
    Ok(())
}

/// The bytes of a file, or [`ErrorKind::FileTooLarge`]. On a damaged disk a file may appear to have any length.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

#[derive(Debug)]
enum ListError {
    Io(io::Error),
    Damaged(String),
}

impl ListError {
    fn in_directory(self, directory: &str) -> Fault {
        match self {
            Self::Io(error) => Fault::Io(error),
            Self::Damaged(what) => Fault::Damaged(format!("{directory}: {what}")),
        }
    }

    fn of_file(error: io::Error, name: &str) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Damaged(format!("{name} is missing")),
            ErrorKind::UnexpectedEof => Self::Damaged(format!("{name} is too short")),
            ErrorKind::FileTooLarge => Self::Damaged(format!("{name} is too long")),
            _ => Self::Io(error),
        }
    }
}

fn check_keyspace(keyspace: &Path, is_first: bool) -> Result<(), ListError> {
    let mut before = None;
    for _ in 0..ATTEMPTS_MAX {
        let current = match read(&keyspace.join(CURRENT), CURRENT_BYTES_MAX) {
            // A crash during its creation; fjall removes it. The first keyspace cannot be missing: the others would be
            // missing, too.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_first => return Ok(()),
            current => current.map_err(|error| ListError::of_file(error, CURRENT))?,
        };
        let flaw = match check_list(keyspace, &current) {
            Err(flaw @ ListError::Damaged(_)) => flaw,
            outcome => return outcome,
        };
        // Another process may be writing. fjall's lock, which is taken later, reports that.
        if before.as_ref() == Some(&current) {
            return Err(flaw);
        }
        before = Some(current);
    }
    Ok(())
}

fn check_list(keyspace: &Path, current: &[u8]) -> Result<(), ListError> {
    let malformed = || ListError::Damaged(format!("{CURRENT} is malformed"));
    let mut fields = Fields(current);
    let version = fields.u64().ok_or_else(malformed)?;
    let checksum = fields.u128().ok_or_else(malformed)?;
    if fields.0 != [0] {
        return Err(malformed());
    }
    let name = format!("v{version}");
    let list =
        read(&keyspace.join(&name), LIST_BYTES_MAX).map_err(|error| ListError::of_file(error, &name))?;
    if xxh3_128(&list) != checksum {
        return Err(ListError::Damaged(format!("{name} does not match its checksum in {CURRENT}")));
    }
    let tables = tables(&list).ok_or_else(|| ListError::Damaged(format!("{name} cannot be decoded")))?;
    check_places(&keyspace.join(TABLES))?;
    for table in tables {
        let name = format!("{TABLES}/{table}");
        let is_whole =
            has_contents(&keyspace.join(&name)).map_err(|error| ListError::of_file(error, &name))?;
        if !is_whole {
            return Err(ListError::Damaged(format!("{name}: its contents are damaged")));
        }
    }
    Ok(())
}

/// The directory of tables may contain files that a list does not name yet, or no longer names, but nothing else.
fn check_places(tables: &Path) -> Result<(), ListError> {
    let entries = match fs::read_dir(tables) {
        // A copy of a data directory may omit an empty directory. If the list names tables, each missing table is
        // reported by name.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| ListError::of_file(error, TABLES))?,
    };
    for entry in entries {
        let entry = entry.map_err(ListError::Io)?;
        if entry.file_type().map_err(ListError::Io)?.is_dir() {
            let name = entry.file_name();
            return Err(ListError::Damaged(format!(
                "{TABLES}/{} does not belong there",
                name.to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// Reads numbers one after the other.
struct Fields<'bytes>(&'bytes [u8]);

impl<'bytes> Fields<'bytes> {
    fn take(&mut self, count: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}

/// Position of the contents of a file.
struct Trailer {
    checksum: u128,
    position: u64,
    length: u64,
}

impl Trailer {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let is_known = fields.take(MAGIC.len())? == MAGIC && fields.u8()? == 1 && fields.u8()? == 0;
        let (checksum, position, length) = (fields.u128()?, fields.u64()?, fields.u64()?);
        is_known.then_some(Self { checksum, position, length })
    }
}

/// The tables that a list names; `None` if it is not a list.
fn tables(list: &[u8]) -> Option<Vec<u64>> {
    let trailer = Trailer::read(list.get(list.len().checked_sub(TRAILER_BYTES)?..)?)?;
    let from = usize::try_from(trailer.position).ok()?;
    let mut fields = Fields(list.get(from..)?);
    if fields.take(CONTENTS_MAGIC.len())? != CONTENTS_MAGIC {
        return None;
    }
    for _ in 0..fields.u32()? {
        let (position, length, name_bytes) = (fields.u64()?, fields.u64()?, fields.u16()?);
        if fields.take(usize::from(name_bytes))? == b"tables" {
            let (from, length) = (usize::try_from(position).ok()?, usize::try_from(length).ok()?);
            return named(list.get(from..from.checked_add(length)?)?);
        }
    }
    None
}

fn named(section: &[u8]) -> Option<Vec<u64>> {
    let (mut fields, mut tables) = (Fields(section), Vec::new());
    for _level in 0..fields.u8()? {
        for _run in 0..fields.u8()? {
            for _table in 0..fields.u32()? {
                tables.push(fields.u64()?);
                // Kind of checksum, checksum, sequence number.
                fields.take(1 + 16 + 8)?;
            }
        }
    }
    Some(tables)
}

/// Whether the contents of a table match its trailer. Its blocks are checked when they are read.
fn has_contents(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let Some(end) = file.metadata()?.len().checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, end)?;
    let Some(trailer) = Trailer::read(&trailer) else { return Ok(false) };
    let is_at_end = trailer.position.checked_add(trailer.length) == Some(end);
    if !is_at_end || trailer.length > CONTENTS_BYTES_MAX {
        return Ok(false);
    }
    let mut contents = vec![0; trailer.length as usize];
    file.read_exact_at(&mut contents, trailer.position)?;
    Ok(contents.starts_with(CONTENTS_MAGIC) && xxh3_128(&contents) == trailer.checksum)
}

//! Power losses, with the shipped binary. A library logs the hub's changes of files. After the hub's end, every change
//! that no sync has made durable is undone.
//!
//! The model is described in `crates/journal/README.md`, "What is assumed of the disk". A sync of a file makes its
//! contents and its length durable; a sync of a directory makes its names durable. Nothing else makes anything durable:
//! not the name of a synced file, and no other order of changes. A rename is done or not done. The model does not
//! include data that a disk stores by itself.

mod disk;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::support_crash::compile;
use crate::support_crash::Chance;

pub use disk::Lost;

/// The part of non-durable changes that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    Everything,
    /// The last changes of each file and directory, from some moment on.
    Latest,
    /// Each sector and each name may have the state of a different moment, and a sector may be torn.
    AnyOrder,
}

impl Loss {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(4) {
            0 => Self::Everything,
            1 => Self::Latest,
            _ => Self::AnyOrder,
        }
    }
}

/// The library and its log.
pub struct Power {
    library: PathBuf,
    data: PathBuf,
    log: PathBuf,
    kept: PathBuf,
}

impl Power {
    /// Builds the library for an existing data directory. `directory` is a place beside the data directory. `None` if
    /// there is no C compiler and the test may be skipped.
    pub fn build(directory: &Path, data: &Path) -> Option<Self> {
        let real = data.canonicalize().unwrap();
        assert_eq!(real, data, "the library knows files by their real paths");
        let library = compile(directory, "power", include_str!("power.c"))?;
        let (log, kept) = (directory.join("power.log"), directory.join("kept"));
        fs::create_dir(&kept).unwrap();
        Some(Self { library, data: real, log, kept })
    }

    /// Environment variables that make the library observe a process.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let variables = [
            ("LD_PRELOAD", &self.library),
            ("POWER_BELOW", &self.data),
            ("POWER_LOG", &self.log),
            ("POWER_KEPT", &self.kept),
        ];
        Vec::from(variables.map(|(name, path)| (OsString::from(name), OsString::from(path))))
    }

    /// The process was killed without a power loss: the next process sees unsynced data.
    pub fn stays(&self) {
        let log = self.read();
        let whole = log.rfind('\n').map_or(0, |end| end + 1);
        // If the last line is not complete, its change was not begun.
        let file = File::options().write(true).create(true).truncate(false).open(&self.log).unwrap();
        file.set_len(whole as u64).unwrap();
    }

    /// The process was killed and the power is lost: non-durable changes are lost according to `loss` and the seed.
    pub fn goes(&self, loss: Loss, seed: u64) -> Lost {
        let lost = disk::cut(&self.read(), &self.data, &self.kept, loss, seed);
        fs::remove_dir_all(&self.kept).unwrap();
        fs::create_dir(&self.kept).unwrap();
        File::create(&self.log).unwrap();
        lost
    }

    /// The log; empty if no process was observed yet, or if it was killed before it could begin one.
    fn read(&self) -> String {
        match fs::read_to_string(&self.log) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            log => log.unwrap(),
        }
    }
}

// The library's log. `power.c` describes its lines.

/// A name in a directory, which is identified by its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    pub directory: u64,
    pub name: String,
}

/// A change of a file's contents or length, as the previous state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// The file's length.
    pub size: u64,
    /// Bytes with their offsets. Beyond the file's length they are zeros.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NameChange {
    /// A file or a directory was created.
    Created(Name),
    /// The file that had the new name before is kept.
    Renamed { inode: u64, from: Name, to: Name, kept: Option<String> },
    /// The file lost its name and is kept.
    Removed { name: Name, kept: String },
}

impl NameChange {
    pub fn names(&self) -> Vec<&Name> {
        match self {
            Self::Created(name) | Self::Removed { name, .. } => vec![name],
            Self::Renamed { from, to, .. } => vec![from, to],
        }
    }

    /// The directory whose sync makes the change durable.
    fn directory(&self) -> u64 {
        match self {
            Self::Created(name) | Self::Removed { name, .. } => name.directory,
            Self::Renamed { to, .. } => to.directory,
        }
    }
}

/// Changes that no sync has made durable, in their order.
#[derive(Debug, Default)]
struct Pending {
    /// Changes by the file's inode.
    pub changes: BTreeMap<u64, Vec<Change>>,
    pub names: Vec<NameChange>,
    /// Number of durable changes.
    pub durable: usize,
}

impl Pending {
    /// Reads a log. If the last line is not complete, its change was never begun.
    pub fn read(log: &str) -> Self {
        let lines: Vec<&str> = log.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).collect();
        let durable = durable(&lines);
        let is_durable = |at: usize, inode: u64| durable.get(&inode).is_some_and(|until| at < *until);
        let mut pending = Self::default();
        for (at, line) in lines.iter().enumerate() {
            let mut words = Words(line.split(' '));
            match words.word() {
                kind @ ("write" | "resize") => {
                    let inode = words.number();
                    if is_durable(at, inode) {
                        pending.durable += 1;
                    } else {
                        let change = if kind == "write" { words.write() } else { words.resize() };
                        pending.changes.entry(inode).or_default().push(change);
                    }
                }
                "sync" | "synced" => {}
                kind => {
                    let change = words.name_change(kind);
                    if is_durable(at, change.directory()) {
                        pending.durable += 1;
                    } else {
                        pending.names.push(change);
                    }
                }
            }
        }
        pending
    }
}

/// For each file and directory, the start line of its last successful sync: earlier changes are durable.
fn durable(lines: &[&str]) -> HashMap<u64, usize> {
    let mut begun: HashMap<u64, (u64, usize)> = HashMap::new();
    let mut durable: HashMap<u64, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let mut words = Words(line.split(' '));
        match words.word() {
            "sync" => {
                let number = words.number();
                begun.insert(number, (words.number(), at));
            }
            "synced" => {
                let (inode, from) = begun[&words.number()];
                let until = durable.entry(inode).or_insert(from);
                *until = from.max(*until);
            }
            _ => {}
        }
    }
    durable
}

struct Words<'line>(std::str::Split<'line, char>);

impl<'line> Words<'line> {
    fn word(&mut self) -> &'line str {
        self.0.next().expect("a line with one more word")
    }

    fn number(&mut self) -> u64 {
        let word = self.word();
        word.parse().unwrap_or_else(|_| panic!("{word:?} is not a number"))
    }

    fn name(&mut self) -> Name {
        Name { directory: self.number(), name: self.word().to_owned() }
    }

    /// OFFSET LENGTH SIZE BYTES
    fn write(&mut self) -> Change {
        let (offset, length, size) = (self.number(), self.number(), self.number());
        let mut bytes = match self.word() {
            "-" | "0" => Vec::new(),
            digits => bytes_of(digits),
        };
        bytes.resize(length as usize, 0);
        Change { size, pieces: vec![(offset, bytes)] }
    }

    /// SIZE AFTER PIECES
    fn resize(&mut self) -> Change {
        let (size, _after) = (self.number(), self.number());
        let pieces = match self.word() {
            "-" => Vec::new(),
            pieces => pieces.split(',').map(piece).collect(),
        };
        Change { size, pieces }
    }

    fn name_change(&mut self, kind: &str) -> NameChange {
        match kind {
            "create" => NameChange::Created(self.name()),
            "rename" => {
                let (inode, from, to) = (self.number(), self.name(), self.name());
                let kept = Some(self.word()).filter(|kept| *kept != "-").map(str::to_owned);
                NameChange::Renamed { inode, from, to, kept }
            }
            "unlink" | "rmdir" => NameChange::Removed { name: self.name(), kept: self.word().to_owned() },
            _ => panic!("{kind:?} is not a change"),
        }
    }
}

fn piece(text: &str) -> (u64, Vec<u8>) {
    let (offset, digits) = text.split_once(':').expect("a place and bytes");
    (offset.parse().expect("a place"), bytes_of(digits))
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).expect("a hexadecimal digit") as u8;
        digit(0) * 16 + digit(1)
    };
    assert!(digits.len().is_multiple_of(2), "half a byte");
    digits.as_bytes().chunks_exact(2).map(byte).collect()
}

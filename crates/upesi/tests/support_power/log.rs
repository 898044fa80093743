//! The log that the library writes; `power.c` says what its lines mean.

use std::collections::{BTreeMap, HashMap};

/// A name in a directory, which is known by its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub directory: u64,
    pub name: String,
}

/// A change of a file's contents or length, as what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file's length.
    pub size: u64,
    /// Bytes, by where they were. Behind the file's length they are zeros.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

/// A change of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// A file or a directory was made.
    Created(Name),
    /// What had the new name before is kept.
    Renamed { inode: u64, from: Name, to: Name, kept: Option<String> },
    /// It lost its name and is kept.
    Removed { name: Name, kept: String },
}

impl NameChange {
    /// The names that it changes.
    pub fn names(&self) -> Vec<&Name> {
        match self {
            Self::Created(name) | Self::Removed { name, .. } => vec![name],
            Self::Renamed { from, to, .. } => vec![from, to],
        }
    }

    /// The directory whose sync makes it durable.
    fn directory(&self) -> u64 {
        match self {
            Self::Created(name) | Self::Removed { name, .. } => name.directory,
            Self::Renamed { to, .. } => to.directory,
        }
    }
}

/// What no sync has made durable, in the order in which it was done.
#[derive(Debug, Default)]
pub struct Pending {
    /// By the file's inode.
    pub changes: BTreeMap<u64, Vec<Change>>,
    pub names: Vec<NameChange>,
    /// How much is durable.
    pub durable: usize,
}

impl Pending {
    /// Reads a log. Where its last line is not whole, what that tells of was never begun.
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

/// For each file and directory the line with which its last good sync began: what stands before is durable.
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

/// The words of a line.
struct Words<'line>(std::str::Split<'line, char>);

impl<'line> Words<'line> {
    fn word(&mut self) -> &'line str {
        self.0.next().expect("a line with one more word")
    }

    fn number(&mut self) -> u64 {
        let word = self.word();
        word.parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
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
            _ => panic!("{kind:?} is no change"),
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

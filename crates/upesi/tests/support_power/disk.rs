//! The content of a disk after a power loss: file contents by sector, names by directory.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use upesi_sim::mix;

use super::{Change, Loss, Name, NameChange, Pending};
use crate::support_crash::Chance;

const SECTOR_BYTES: u64 = 512;
/// The last bytes of a sector are stored completely or not at all.
const WHOLE_BYTES: u64 = 8;
/// One in this many undone sectors is torn.
const TORN_ONE_IN: u64 = 4;

/// Fates of a process's changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    /// Durable changes of contents and names.
    pub durable: usize,
    /// Changes of contents that were not durable, whatever their fate.
    pub unsynced: usize,
    /// Parts of files, at most a sector each, that were set back to an earlier state.
    pub sectors: usize,
    /// Undone changes of names.
    pub names: usize,
}

/// Undoes changes of a log below the data directory, as far as they are to be lost. Removed files are in `kept`.
pub fn cut(log: &str, data: &Path, kept: &Path, loss: Loss, seed: u64) -> Lost {
    let pending = Pending::read(log);
    let mut tree = Tree { roots: [data.to_owned(), kept.to_owned()], places: HashMap::new(), moved: 0 };
    let mut lost = Lost { durable: pending.durable, ..Lost::default() };
    for (number, (inode, changes)) in (0..).zip(&pending.changes) {
        let file = File::options().write(true).open(tree.find(*inode)).unwrap();
        lost.unsynced += changes.len();
        lost.sectors += undo_changes(&file, changes, loss, mix(seed ^ mix(number)));
    }
    let is_lost = lost_names(&pending.names, loss, &mut Chance::new(mix(seed)));
    for (change, _) in pending.names.iter().zip(is_lost).rev().filter(|(_, is_lost)| *is_lost) {
        tree.undo(change);
        lost.names += 1;
    }
    lost
}

/// The part of a sector's changes, or of a length's changes, that survives.
struct Fate {
    /// This many changes, the oldest ones, survive completely.
    kept: usize,
    /// This many bytes from the sector's beginning have the content of the next change.
    torn_bytes: u64,
}

impl Loss {
    /// `place` distinguishes the sectors of a file and its length.
    fn fate(self, seed: u64, place: u64, changes: usize) -> Fate {
        let draw = |chance: &mut Chance| chance.below(changes as u64 + 1) as usize;
        match self {
            Self::Everything => Fate { kept: 0, torn_bytes: 0 },
            Self::Latest => Fate { kept: draw(&mut Chance::new(seed)), torn_bytes: 0 },
            Self::AnyOrder => {
                let mut chance = Chance::new(mix(seed ^ mix(place)));
                let kept = draw(&mut chance);
                let is_torn = chance.below(TORN_ONE_IN) == 0;
                let torn_bytes = chance.below(SECTOR_BYTES - WHOLE_BYTES + 1);
                Fate { kept, torn_bytes: if is_torn { torn_bytes } else { 0 } }
            }
        }
    }
}

/// Undoes changes of a file, the newest first, according to the fates of each sector and of the length. Returns the
/// number of parts that were written.
fn undo_changes(file: &File, changes: &[Change], loss: Loss, seed: u64) -> usize {
    let mut size = file.metadata().unwrap().len();
    let size_fate = loss.fate(seed, u64::MAX, changes.len());
    let mut stretches = 0;
    for (number, change) in changes.iter().enumerate().rev() {
        for (offset, bytes) in &change.pieces {
            let end = offset + bytes.len() as u64;
            let mut at = *offset;
            while at < end {
                let sector = at / SECTOR_BYTES;
                let until = end.min((sector + 1) * SECTOR_BYTES);
                let fate = loss.fate(seed, sector, changes.len());
                let torn_bytes = if number == fate.kept { fate.torn_bytes } else { 0 };
                let from = at.max(sector * SECTOR_BYTES + torn_bytes);
                if number >= fate.kept && from < until {
                    let part = &bytes[(from - offset) as usize..(until - offset) as usize];
                    file.write_all_at(part, from).unwrap();
                    stretches += 1;
                }
                at = until;
            }
        }
        if number >= size_fate.kept {
            size = change.size;
        }
    }
    file.set_len(size).unwrap();
    stretches
}

/// The changes of names that are lost: the last ones of each chain.
fn lost_names(names: &[NameChange], loss: Loss, chance: &mut Chance) -> Vec<bool> {
    let mut is_lost = vec![true; names.len()];
    if loss == Loss::Everything {
        return is_lost;
    }
    let chains = chains(names, loss);
    for chain in chains.iter().collect::<BTreeSet<_>>() {
        let members: Vec<usize> = (0..names.len()).filter(|at| chains[*at] == *chain).collect();
        let kept = chance.below(members.len() as u64 + 1) as usize;
        for at in &members[..kept] {
            is_lost[*at] = false;
        }
    }
    is_lost
}

/// The chain of each change of names: the chain of its directory or, if any order is possible, of its name.
fn chains(names: &[NameChange], loss: Loss) -> Vec<usize> {
    let mut chains: Vec<usize> = Vec::with_capacity(names.len());
    let mut members: HashMap<(u64, &str), usize> = HashMap::new();
    for (at, change) in names.iter().enumerate() {
        chains.push(at);
        for name in change.names() {
            let within = if loss == Loss::AnyOrder { name.name.as_str() } else { "" };
            let member = *members.entry((name.directory, within)).or_insert(at);
            let (own, other) = (chains[at], chains[member]);
            // Everything that a rename touches belongs to the same chain.
            for chain in chains.iter_mut().filter(|chain| **chain == own) {
                *chain = other;
            }
        }
    }
    chains
}

/// Files and directories by inode, wherever they are now.
struct Tree {
    /// The data directory, and the directory for removed files.
    roots: [PathBuf; 2],
    places: HashMap<u64, PathBuf>,
    moved: usize,
}

impl Tree {
    fn find(&mut self, inode: u64) -> PathBuf {
        if self.places.get(&inode).is_none_or(|path| inode_of(path) != Some(inode)) {
            self.walk();
        }
        let place = self.places.get(&inode).cloned();
        place.unwrap_or_else(|| panic!("nothing below {:?} has inode {inode}", self.roots))
    }

    fn walk(&mut self) {
        self.places.clear();
        let mut open = self.roots.to_vec();
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            if let Some(inode) = inode_of(&path) {
                self.places.insert(inode, path);
            }
        }
    }

    fn path(&mut self, name: &Name) -> PathBuf {
        self.find(name.directory).join(&name.name)
    }

    fn undo(&mut self, change: &NameChange) {
        let kept_in = self.roots[1].clone();
        match change {
            NameChange::Created(name) => {
                // Not removed, because its files may still be looked up by inode.
                let path = self.path(name);
                self.moved += 1;
                move_what_is_there(&path, &kept_in.join(format!("lost-{}", self.moved)));
            }
            NameChange::Renamed { inode, from, to, kept } => {
                let (from, to) = (self.path(from), self.path(to));
                // Otherwise it was not begun.
                if inode_of(&to) == Some(*inode) {
                    fs::rename(&to, &from).unwrap();
                    if let Some(kept) = kept {
                        fs::rename(kept_in.join(kept), &to).unwrap();
                    }
                }
            }
            NameChange::Removed { name, kept } => {
                let path = self.path(name);
                move_what_is_there(&kept_in.join(kept), &path);
            }
        }
    }
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|about| about.ino())
}

/// Moves a file, unless it does not exist because its logged change was not begun.
fn move_what_is_there(from: &Path, to: &Path) {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        other => other.unwrap(),
    }
}

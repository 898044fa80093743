//! The state of the simulated disk: the page cache, the medium, and what lies between them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::random::Random;
use super::{Fault, Kept, Operation};
use crate::frame::SECTOR_BYTES;

const TEAR_UNIT_BYTES: usize = 8;

/// A change of a file that is not synced yet.
#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write { offset: usize, bytes: Vec<u8> },
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// What a process sees.
    cached: Vec<u8>,
    /// What is on the medium for certain.
    durable: Vec<u8>,
    pending: Vec<Change>,
}

/// Names that change together: what each stands for afterwards.
type Renaming = Vec<(String, Option<usize>)>;

#[derive(Clone, Debug)]
pub(super) struct State {
    nodes: Vec<Node>,
    directories: BTreeSet<String>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<Renaming>,
    random: Random,
    pub crashed: bool,
    pub reads: u64,
    pub operations: Vec<Operation>,
    pub faults: BTreeMap<u64, Fault>,
    pub read_faults: BTreeSet<u64>,
    pub capacity_bytes: u64,
}

fn broken() -> io::Error {
    io::Error::other("simulated input/output error")
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn crashed() -> io::Error {
    io::Error::other("simulated crash")
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl State {
    pub fn new(seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            directories: BTreeSet::from([String::new()]),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            random: Random::new(seed),
            crashed: false,
            reads: 0,
            operations: Vec::new(),
            faults: BTreeMap::new(),
            read_faults: BTreeSet::new(),
            capacity_bytes: u64::MAX,
        }
    }

    /// Counts an operation; the fault that befalls it, unless the machine stands still already.
    fn begin(&mut self, operation: Operation) -> io::Result<Option<Fault>> {
        if self.crashed {
            return Err(crashed());
        }
        let fault = self.faults.get(&(self.operations.len() as u64)).copied();
        self.operations.push(operation);
        self.crashed = fault == Some(Fault::Crash);
        Ok(fault)
    }

    /// For operations that are done or not: fails before doing anything.
    fn begin_atomic(&mut self, operation: Operation) -> io::Result<()> {
        match self.begin(operation)? {
            Some(Fault::Broken) => Err(broken()),
            Some(Fault::Full) => Err(full()),
            _ => Ok(()),
        }
    }

    /// An operation that was issued when the process stopped never returns.
    fn finish(&self) -> io::Result<()> {
        if self.crashed { Err(crashed()) } else { Ok(()) }
    }

    pub fn create_directory(&mut self, path: &str) -> io::Result<()> {
        self.begin_atomic(Operation::CreateDirectory)?;
        self.directories.insert(path.to_owned());
        self.finish()
    }

    pub fn list(&mut self, directory: &str) -> io::Result<Vec<String>> {
        self.begin_read()?;
        if !self.directories.contains(directory) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let inside = self.names.keys().filter(|path| directory_of(path) == directory);
        Ok(inside.map(|path| path[directory.len()..].trim_start_matches('/').to_owned()).collect())
    }

    pub fn create(&mut self, path: &str) -> io::Result<usize> {
        self.begin_atomic(Operation::Create)?;
        if self.names.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        if !self.directories.contains(directory_of(path)) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        self.nodes.push(Node::default());
        let node = self.nodes.len() - 1;
        self.change_names(vec![(path.to_owned(), Some(node))]);
        self.finish()?;
        Ok(node)
    }

    pub fn open(&self, path: &str) -> io::Result<usize> {
        if self.crashed {
            return Err(crashed());
        }
        self.names.get(path).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.begin_atomic(Operation::Rename)?;
        let node = self.open_even_crashed(from)?;
        self.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(node))]);
        self.finish()
    }

    pub fn remove(&mut self, path: &str) -> io::Result<()> {
        self.begin_atomic(Operation::Remove)?;
        self.open_even_crashed(path)?;
        self.change_names(vec![(path.to_owned(), None)]);
        self.finish()
    }

    fn open_even_crashed(&self, path: &str) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn change_names(&mut self, renaming: Renaming) {
        apply_names(&mut self.names, &renaming);
        self.pending_names.push(renaming);
    }

    pub fn sync_directory(&mut self, directory: &str) -> io::Result<()> {
        match self.begin(Operation::SyncDirectory)? {
            Some(Fault::Broken | Fault::Full) => return Err(broken()),
            Some(Fault::Crash) => return Err(crashed()),
            _ => {}
        }
        let (synced, other): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending_names)
            .into_iter()
            .partition(|renaming| directory_of(&renaming[0].0) == directory);
        for renaming in &synced {
            apply_names(&mut self.durable_names, renaming);
        }
        self.pending_names = other;
        Ok(())
    }

    pub fn length(&self, node: usize) -> io::Result<u64> {
        if self.crashed { Err(crashed()) } else { Ok(self.nodes[node].cached.len() as u64) }
    }

    fn begin_read(&mut self) -> io::Result<()> {
        if self.crashed {
            return Err(crashed());
        }
        let fails = self.read_faults.contains(&self.reads);
        self.reads += 1;
        if fails { Err(broken()) } else { Ok(()) }
    }

    pub fn read(&mut self, node: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin_read()?;
        let cached = &self.nodes[node].cached;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(cached.len());
        let length = buffer.len().min(cached.len() - start);
        buffer[..length].copy_from_slice(&cached[start..start + length]);
        Ok(length)
    }

    fn room_for(&self, node: usize, length: usize) -> bool {
        let growth = length.saturating_sub(self.nodes[node].cached.len());
        growth == 0 || self.used_bytes() + growth as u64 <= self.capacity_bytes
    }

    pub fn used_bytes(&self) -> u64 {
        self.names.values().map(|node| self.nodes[*node].cached.len() as u64).sum()
    }

    pub fn allocate(&mut self, node: usize, bytes: u64) -> io::Result<()> {
        self.begin_atomic(Operation::Allocate)?;
        if !self.room_for(node, bytes as usize) {
            return Err(full());
        }
        self.nodes[node].extend(bytes as usize);
        self.finish()
    }

    pub fn write(&mut self, node: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let fault = self.begin(Operation::Write)?;
        let offset = offset as usize;
        if !self.room_for(node, offset + bytes.len()) {
            return Err(full());
        }
        let done = match fault {
            Some(Fault::Broken | Fault::Full) => {
                self.random.below(bytes.len() as u64 + 1) as usize / TEAR_UNIT_BYTES * TEAR_UNIT_BYTES
            }
            _ => bytes.len(),
        };
        let target = &mut self.nodes[node];
        match fault {
            Some(Fault::LostWrite) => target.write(offset, bytes, None),
            Some(Fault::MisdirectedWrite { sectors }) => {
                target.write(offset, bytes, Some(offset + sectors as usize * SECTOR_BYTES));
            }
            _ => target.write(offset, &bytes[..done], Some(offset)),
        }
        match fault {
            Some(Fault::Broken) => Err(broken()),
            Some(Fault::Full) => Err(full()),
            _ => self.finish(),
        }
    }

    pub fn sync(&mut self, node: usize) -> io::Result<()> {
        let fault = self.begin(Operation::Sync)?;
        if fault == Some(Fault::Crash) {
            return Err(crashed());
        }
        let failed = matches!(fault, Some(Fault::Broken | Fault::Full));
        let kept = if failed { Kept::Some(self.random.bits()) } else { Kept::Everything };
        self.nodes[node].store(&mut Keeper::new(kept));
        match fault {
            Some(Fault::Full) => Err(full()),
            _ if failed => Err(broken()),
            _ => Ok(()),
        }
    }

    pub fn after_power_loss(&self, kept: Kept) -> Self {
        let mut next = self.after_kill();
        let mut keeper = Keeper::new(kept);
        for renaming in std::mem::take(&mut next.pending_names) {
            if keeper.keeps_half() {
                apply_names(&mut next.durable_names, &renaming);
            }
        }
        next.names = next.durable_names.clone();
        for node in &mut next.nodes {
            node.store(&mut keeper);
            node.cached = node.durable.clone();
        }
        next
    }

    pub fn after_kill(&self) -> Self {
        let mut next = self.clone();
        next.crashed = false;
        next.operations.clear();
        next.faults.clear();
        next.reads = 0;
        next.read_faults.clear();
        next
    }

    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.names.get(path).map(|node| self.nodes[*node].cached.clone())
    }

    pub fn corrupt(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let node = *self.names.get(path).unwrap_or_else(|| panic!("there is no file {path}"));
        let node = &mut self.nodes[node];
        node.store(&mut Keeper::new(Kept::Everything));
        change(&mut node.cached);
        node.durable = node.cached.clone();
    }

    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        for (names, durable) in [(&self.names, false), (&self.durable_names, true)] {
            for (name, node) in names {
                let node = &self.nodes[*node];
                hash.add(name.as_bytes());
                hash.add(if durable { &node.durable } else { &node.cached });
            }
        }
        hash.0
    }
}

fn apply_names(names: &mut BTreeMap<String, usize>, renaming: &Renaming) {
    for (name, node) in renaming {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

impl Node {
    fn extend(&mut self, length: usize) {
        if length > self.cached.len() {
            self.cached.resize(length, 0);
            self.pending.push(Change::Length(length));
        }
    }

    /// Writes to the page cache; `medium` is where it will be stored.
    fn write(&mut self, offset: usize, bytes: &[u8], medium: Option<usize>) {
        self.extend(offset + bytes.len());
        self.cached[offset..offset + bytes.len()].copy_from_slice(bytes);
        if let Some(offset) = medium {
            self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
        }
    }

    /// Moves to the medium what the keeper lets through; the rest is forgotten.
    fn store(&mut self, keeper: &mut Keeper) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(length) => {
                    if length > self.durable.len() && keeper.keeps_half() {
                        self.durable.resize(length, 0);
                    }
                }
                Change::Write { offset, bytes } => keeper.store(&mut self.durable, offset, &bytes),
            }
        }
    }
}

/// Decides what of the unsynced reaches the medium.
struct Keeper {
    kept: Kept,
    random: Random,
}

impl Keeper {
    fn new(kept: Kept) -> Self {
        let seed = if let Kept::Some(seed) = kept { seed } else { 0 };
        Self { kept, random: Random::new(seed) }
    }

    fn keeps_half(&mut self) -> bool {
        match self.kept {
            Kept::Everything => true,
            Kept::Nothing => false,
            Kept::Some(_) => self.random.one_in(2),
        }
    }

    fn store(&mut self, medium: &mut [u8], offset: usize, bytes: &[u8]) {
        // A manner for the whole write: all, nothing, a beginning, or each sector by itself.
        let manner = match self.kept {
            Kept::Everything => 0,
            Kept::Nothing => 1,
            Kept::Some(_) => self.random.below(5),
        };
        let sectors = bytes.len().div_ceil(SECTOR_BYTES) as u64 + 1;
        let beginning = if manner == 2 { self.random.below(sectors) as usize * SECTOR_BYTES } else { 0 };
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes.len().min((offset + at + 1).next_multiple_of(SECTOR_BYTES) - offset);
            let stored = match manner {
                0 => end - at,
                1 => 0,
                2 => beginning.saturating_sub(at).min(end - at),
                _ => match self.random.below(5) {
                    0 | 1 => end - at,
                    2 | 3 => 0,
                    _ => self.random.below((end - at) as u64) as usize / TEAR_UNIT_BYTES * TEAR_UNIT_BYTES,
                },
            };
            let from = offset + at;
            if from < medium.len() {
                let stored = stored.min(medium.len() - from);
                medium[from..from + stored].copy_from_slice(&bytes[at..at + stored]);
            }
            at = end;
        }
    }
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

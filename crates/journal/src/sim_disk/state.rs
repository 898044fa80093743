//! The state of the simulated disk: the page cache, the medium, and unsynced changes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::random::Random;
use super::{DiskFault, FaultedOperation, Operation, SurvivingData};
use crate::frame::{SECTOR_BYTES, TAIL_BYTES};

mod view;

pub use view::{ArmedWrite, DiskView, FileView};

/// Returns where a write really ends if it is cut at this byte of a file. A sector tears at any byte, but its last
/// eight bytes are stored completely or not at all.
const fn torn_at(end: usize) -> usize {
    let within = end % SECTOR_BYTES;
    let beyond = within.saturating_sub(SECTOR_BYTES - TAIL_BYTES);
    end - beyond
}

/// A change of a file that is not synced yet.
#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write { offset: usize, bytes: Vec<u8> },
}

/// A file. Copies of a disk share the content until it changes: most files of a disk never change again.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Content as a process sees it.
    cached: Arc<Vec<u8>>,
    /// Content that is certainly on the medium.
    durable: Arc<Vec<u8>>,
    pending: Vec<Change>,
    lies: Vec<FalseWrite>,
}

/// A write that reported success although the medium does not hold its bytes as reported.
#[derive(Clone, Debug)]
struct FalseWrite {
    offset: usize,
    bytes: Vec<u8>,
    /// The bytes were written again, and the next sync will store them.
    is_rewritten: bool,
}

/// An armed fault: it affects a write to a file whose path contains `part`, after `skip` other such writes.
#[derive(Clone, Debug)]
struct ArmedFault {
    part: String,
    skip: u64,
    fault: DiskFault,
}

/// Names that change together, with the file of each name afterwards.
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
    pub faults: BTreeMap<u64, DiskFault>,
    pub read_faults: BTreeSet<u64>,
    pub capacity_bytes: u64,
    traps: Vec<ArmedFault>,
    /// Writes that falsely reported success, since the disk was created.
    pub deceptions: Vec<DiskFault>,
    /// Number of operations and reads that were affected by a fault or met a full disk, since the disk was created.
    pub befallen: u64,
    /// Operations and reads that failed because of an injected fault, since the disk was created.
    pub strikes: Vec<FaultedOperation>,
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
            traps: Vec::new(),
            deceptions: Vec::new(),
            befallen: 0,
            strikes: Vec::new(),
        }
    }

    /// Counts an operation and returns its injected fault. Fails if the machine has already crashed.
    fn begin(&mut self, operation: Operation) -> io::Result<Option<DiskFault>> {
        if self.crashed {
            return Err(crashed());
        }
        let ordinal = self.operations.len() as u64;
        let fault = self.faults.get(&ordinal).copied();
        self.operations.push(operation);
        self.crashed = fault == Some(DiskFault::Crash);
        if let Some(fault @ (DiskFault::Broken | DiskFault::Full | DiskFault::Crash)) = fault {
            self.befallen += 1;
            self.strikes.push(FaultedOperation::Operation { ordinal, fault });
        }
        Ok(fault)
    }

    /// Begins an operation that is done completely or not at all. It fails before it changes anything.
    fn begin_atomic(&mut self, operation: Operation) -> io::Result<()> {
        match self.begin(operation)? {
            Some(DiskFault::Broken) => Err(broken()),
            Some(DiskFault::Full) => Err(full()),
            _ => Ok(()),
        }
    }

    /// Fails after a crash: an operation that was issued when the process stopped never returns.
    fn finish(&self) -> io::Result<()> {
        if self.crashed { Err(crashed()) } else { Ok(()) }
    }

    /// Creates a directory, if it does not exist.
    pub fn create_directory(&mut self, path: &str) -> io::Result<()> {
        self.begin_atomic(Operation::CreateDirectory)?;
        self.directories.insert(path.to_owned());
        self.finish()
    }

    /// The names of the files in a directory.
    pub fn list(&mut self, directory: &str) -> io::Result<Vec<String>> {
        self.begin_read()?;
        if !self.directories.contains(directory) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let inside = self.names.keys().filter(|path| directory_of(path) == directory);
        Ok(inside.map(|path| path[directory.len()..].trim_start_matches('/').to_owned()).collect())
    }

    /// Creates an empty file. Returns its node.
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

    /// The node of an existing file.
    pub fn open(&self, path: &str) -> io::Result<usize> {
        if self.crashed {
            return Err(crashed());
        }
        self.names.get(path).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Renames a file, replacing another one of the new name.
    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.begin_atomic(Operation::Rename)?;
        let node = self.open_even_crashed(from)?;
        self.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(node))]);
        self.finish()
    }

    /// Removes a file.
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

    /// Makes the names in a directory durable. After a fault, some or none of them are.
    pub fn sync_directory(&mut self, directory: &str) -> io::Result<()> {
        match self.begin(Operation::SyncDirectory)? {
            Some(DiskFault::Broken | DiskFault::Full) => return Err(broken()),
            Some(DiskFault::Crash) => return Err(crashed()),
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
        let ordinal = self.reads;
        self.reads += 1;
        if !self.read_faults.contains(&ordinal) {
            return Ok(());
        }
        self.befallen += 1;
        self.strikes.push(FaultedOperation::Read { ordinal });
        Err(broken())
    }

    /// Reads a file from an offset. Returns the number of bytes, which may be smaller than the buffer.
    pub fn read(&mut self, node: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin_read()?;
        let cached = &self.nodes[node].cached;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(cached.len());
        let length = buffer.len().min(cached.len() - start);
        buffer[..length].copy_from_slice(&cached[start..start + length]);
        Ok(length)
    }

    fn make_room(&mut self, node: usize, length: usize) -> io::Result<()> {
        let growth = length.saturating_sub(self.nodes[node].cached.len());
        if growth == 0 || self.used_bytes() + growth as u64 <= self.capacity_bytes {
            return Ok(());
        }
        self.befallen += 1;
        Err(full())
    }

    pub fn used_bytes(&self) -> u64 {
        self.names.values().map(|node| self.nodes[*node].cached.len() as u64).sum()
    }

    /// Extends a file by zeros, if the disk has space for them.
    pub fn allocate(&mut self, node: usize, bytes: u64) -> io::Result<()> {
        self.begin_atomic(Operation::Allocate)?;
        self.make_room(node, bytes as usize)?;
        self.nodes[node].extend(bytes as usize);
        self.finish()
    }

    /// Writes at an offset. After a fault, a part of the bytes may be written.
    pub fn write(&mut self, node: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let fault = self.begin(Operation::Write)?.or_else(|| self.spring(node));
        let offset = offset as usize;
        self.make_room(node, offset + bytes.len())?;
        let done = match fault {
            Some(DiskFault::Broken | DiskFault::Full) => {
                let end = offset + self.random.below(bytes.len() as u64 + 1) as usize;
                torn_at(end).saturating_sub(offset)
            }
            _ => bytes.len(),
        };
        let target = &mut self.nodes[node];
        match fault {
            Some(DiskFault::LostWrite) => target.pretend(offset, bytes, &[]),
            Some(DiskFault::MisdirectedWrite { sectors }) => {
                target.pretend(offset, bytes, &[(offset + sectors as usize * SECTOR_BYTES, bytes)]);
            }
            Some(DiskFault::StaleWrite { sector }) => {
                let sectors = bytes.len().div_ceil(SECTOR_BYTES).max(1);
                let (before, rest) = bytes.split_at(sector as usize % sectors * SECTOR_BYTES);
                let after = &rest[rest.len().min(SECTOR_BYTES)..];
                let parts = [(offset, before), (offset + bytes.len() - after.len(), after)];
                target.pretend(offset, bytes, &parts);
            }
            _ => target.write(offset, &bytes[..done]),
        }
        match fault {
            Some(DiskFault::Broken) => Err(broken()),
            Some(DiskFault::Full) => Err(full()),
            Some(
                lie @ (DiskFault::LostWrite
                | DiskFault::MisdirectedWrite { .. }
                | DiskFault::StaleWrite { .. }),
            ) => {
                self.deceptions.push(lie);
                self.befallen += 1;
                self.finish()
            }
            _ => self.finish(),
        }
    }

    /// Arms a fault for a later write to a file whose path contains `part`.
    pub fn set_trap(&mut self, part: &str, skip: u64, fault: DiskFault) {
        self.traps.push(ArmedFault { part: part.to_owned(), skip, fault });
    }

    /// Removes all armed faults.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
        self.read_faults.clear();
        self.traps.clear();
    }

    /// The armed fault that this write triggers, if any.
    fn spring(&mut self, node: usize) -> Option<DiskFault> {
        if self.traps.is_empty() {
            return None;
        }
        let (path, _) = self.names.iter().find(|(_, named)| **named == node)?;
        let place = self.traps.iter().position(|trap| path.contains(&trap.part))?;
        if self.traps[place].skip > 0 {
            self.traps[place].skip -= 1;
            return None;
        }
        Some(self.traps.remove(place).fault)
    }

    /// Makes a file durable. After a fault, some or none of its unsynced data are.
    pub fn sync(&mut self, node: usize) -> io::Result<()> {
        let fault = self.begin(Operation::Sync)?;
        if fault == Some(DiskFault::Crash) {
            return Err(crashed());
        }
        let failed = matches!(fault, Some(DiskFault::Broken | DiskFault::Full));
        let kept = if failed { SurvivingData::Some(self.random.bits()) } else { SurvivingData::Everything };
        self.nodes[node].store(&mut SurvivalChoice::new(kept));
        match fault {
            Some(DiskFault::Full) => Err(full()),
            _ if failed => Err(broken()),
            _ => Ok(()),
        }
    }

    /// The disk after a power loss that kept some unsynced data.
    pub fn after_power_loss(&self, kept: SurvivingData) -> Self {
        let mut next = self.after_kill();
        let mut keeper = SurvivalChoice::new(kept);
        for renaming in std::mem::take(&mut next.pending_names) {
            if keeper.keeps_half() {
                apply_names(&mut next.durable_names, &renaming);
            }
        }
        next.names = next.durable_names.clone();
        for node in &mut next.nodes {
            node.store(&mut keeper);
            node.cached = Arc::clone(&node.durable);
        }
        next
    }

    /// The disk after its process was killed: the operating system keeps all data.
    pub fn after_kill(&self) -> Self {
        let mut next = self.clone();
        next.crashed = false;
        next.operations.clear();
        next.faults.clear();
        next.reads = 0;
        next.read_faults.clear();
        next
    }

    /// The bytes of writes to named files that the medium does not hold as reported.
    pub fn lies(&self) -> Vec<Vec<u8>> {
        let named: BTreeSet<usize> = self.names.values().copied().collect();
        let lies = named.into_iter().flat_map(|node| &self.nodes[node].lies);
        lies.map(|lie| lie.bytes.clone()).collect()
    }

    /// Empties the cache: reads then return the data of the medium.
    pub fn evict(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.pending.is_empty()) {
            node.cached = Arc::clone(&node.durable);
        }
    }

    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.names.get(path).map(|node| self.nodes[*node].cached.to_vec())
    }

    /// Changes a file, both in the cache and on the medium.
    pub fn corrupt(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let node = *self.names.get(path).unwrap_or_else(|| panic!("the file {path} does not exist"));
        let node = &mut self.nodes[node];
        node.store(&mut SurvivalChoice::new(SurvivingData::Everything));
        change(Arc::make_mut(&mut node.cached));
        node.durable = Arc::clone(&node.cached);
    }

    /// A hash of all names and contents, in the cache and on the medium.
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
            grow(&mut self.cached, length);
            self.pending.push(Change::Length(length));
        }
    }

    /// Writes to the page cache. The bytes reach the medium later.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.cache(offset, bytes);
        let end = offset + bytes.len();
        for lie in &mut self.lies {
            lie.is_rewritten |= offset <= lie.offset && lie.offset + lie.bytes.len() <= end;
        }
        self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    /// Writes to the page cache, but only `stored` will reach the medium.
    fn pretend(&mut self, offset: usize, bytes: &[u8], stored: &[(usize, &[u8])]) {
        self.cache(offset, bytes);
        let stored = stored.iter().filter(|(_, bytes)| !bytes.is_empty());
        self.pending
            .extend(stored.map(|(offset, bytes)| Change::Write { offset: *offset, bytes: bytes.to_vec() }));
        self.lies.push(FalseWrite { offset, bytes: bytes.to_vec(), is_rewritten: false });
    }

    fn cache(&mut self, offset: usize, bytes: &[u8]) {
        self.extend(offset + bytes.len());
        Arc::make_mut(&mut self.cached)[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Stores the changes that the keeper selects on the medium; the others are lost.
    fn store(&mut self, keeper: &mut SurvivalChoice) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(length) => {
                    if length > self.durable.len() && keeper.keeps_half() {
                        grow(&mut self.durable, length);
                    }
                }
                Change::Write { offset, bytes } => {
                    keeper.store(Arc::make_mut(&mut self.durable).as_mut_slice(), offset, &bytes)
                }
            }
        }
        let is_true_now = keeper.kept == SurvivingData::Everything;
        self.lies.retain_mut(|lie| !std::mem::take(&mut lie.is_rewritten) || !is_true_now);
    }
}

/// Appends zeros. Without optimisation, `resize` would write them one by one.
fn grow(content: &mut Arc<Vec<u8>>, length: usize) {
    let zeros = vec![0; length - content.len()];
    Arc::make_mut(content).extend_from_slice(&zeros);
}

/// Decides which unsynced changes reach the medium.
struct SurvivalChoice {
    kept: SurvivingData,
    random: Random,
}

impl SurvivalChoice {
    fn new(kept: SurvivingData) -> Self {
        let seed = if let SurvivingData::Some(seed) = kept { seed } else { 0 };
        Self { kept, random: Random::new(seed) }
    }

    fn keeps_half(&mut self) -> bool {
        match self.kept {
            SurvivingData::Everything => true,
            SurvivingData::Nothing => false,
            SurvivingData::Some(_) => self.random.one_in(2),
        }
    }

    fn store(&mut self, medium: &mut [u8], offset: usize, bytes: &[u8]) {
        // One choice for the whole write: all of it, nothing, a beginning, or a separate choice for each sector.
        let manner = match self.kept {
            SurvivingData::Everything => 0,
            SurvivingData::Nothing => 1,
            SurvivingData::Some(_) => self.random.below(5),
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
                    _ => {
                        let torn = offset + at + self.random.below((end - at) as u64) as usize;
                        torn_at(torn).saturating_sub(offset + at)
                    }
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

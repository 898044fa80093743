//! A disk in memory that crashes, tears, fails and rots on command, each time in the same way for the same seed.
//!
//! It keeps apart what a process sees (the page cache) and what a power loss leaves. Until a file is synced, each
//! sector that was written to it may or may not be on the medium; until a directory is synced, each change of a name
//! may or may not. Directories themselves are durable at once.

mod random;
pub mod script;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use random::Random;
use state::State;
pub use state::{ArmedWrite, DiskView, FileView};

use crate::disk::{Access, Disk, DiskFile};

/// What an operation does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with an input/output error. A write may have been done in part; a sync may have stored some sectors,
    /// and the others will never be stored by a later one, although the process goes on seeing them.
    Broken,
    /// It fails for lack of room. A write may have been done in part. A sync behaves as if broken.
    Full,
    /// The process stops in the middle of it: the operation is issued but not completed, and all later ones fail.
    Crash,
    /// A write that reports success and never reaches the medium.
    LostWrite,
    /// A write that reports success and reaches the medium so many sectors further on.
    MisdirectedWrite {
        /// How far off, in sectors.
        sectors: u32,
    },
    /// A write that reports success, while one of its sectors stays on the medium as it was.
    StaleWrite {
        /// Which one; beyond the last it begins again with the first.
        sector: u32,
    },
}

/// The operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A directory is made.
    CreateDirectory,
    /// A file is made.
    Create,
    /// Room is reserved.
    Allocate,
    /// Bytes are written.
    Write,
    /// A file is synced.
    Sync,
    /// A file is renamed.
    Rename,
    /// A file is removed.
    Remove,
    /// A directory is synced.
    SyncDirectory,
}

/// An operation or a read that an injected fault befell; lies of the disk are told by [`SimDisk::deceptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// An operation failed, or the process stopped in the middle of it.
    Operation {
        /// Which one of its life.
        ordinal: u64,
        /// What it did instead of its work.
        fault: Fault,
    },
    /// A read failed.
    Read {
        /// Which one of its life.
        ordinal: u64,
    },
}

/// What a power loss leaves of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    Everything,
    /// None of it.
    Nothing,
    /// Some writes, some sectors of a write, some beginnings of a sector, as the seed decides. A sector tears at any
    /// byte, but its last eight are there whole or not at all.
    Some(u64),
}

/// The simulated disk. Clones share the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    is_observer: bool,
}

impl SimDisk {
    /// An empty disk. The seed decides what failing operations leave behind.
    pub fn new(seed: u64) -> Self {
        Self::with(State::new(seed))
    }

    fn with(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), is_observer: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same disk for an auditor: its reads are not counted, no fault befalls them, and it reads on after a crash.
    pub fn observer(&self) -> Self {
        Self { is_observer: true, ..self.clone() }
    }

    /// A read, with faults or without.
    fn reading<T>(&self, read: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        if !self.is_observer {
            return read(&mut state);
        }
        let (reads, crashed) = (state.reads, std::mem::take(&mut state.crashed));
        let faults = std::mem::take(&mut state.read_faults);
        let result = read(&mut state);
        (state.reads, state.crashed, state.read_faults) = (reads, crashed, faults);
        result
    }

    /// Lets the operation with this ordinal (from 0, reads not counted) go wrong.
    pub fn inject(&self, ordinal: u64, fault: Fault) {
        self.state().faults.insert(ordinal, fault);
    }

    /// Takes back all faults that have not befallen anything yet.
    pub fn clear_faults(&self) {
        self.state().clear_faults();
    }

    /// Lets a write to a file whose path contains `part` go wrong, after `skip` others. It waits across power losses,
    /// too, until its write comes or faults are cleared.
    pub fn inject_into(&self, part: &str, skip: u64, fault: Fault) {
        self.state().set_trap(part, skip, fault);
    }

    /// How many operations and reads a fault has befallen, those without room included, in all lives.
    pub fn befallen(&self) -> u64 {
        self.state().befallen
    }

    /// The operations and reads that an injected fault befell, in the order of their befalling, in all lives.
    pub fn strikes(&self) -> Vec<Strike> {
        self.state().strikes.clone()
    }

    /// What it holds and what waits for it, for people.
    pub fn view(&self) -> DiskView {
        self.state().view()
    }

    /// The writes that were lost, stale or misdirected although they reported success, in all lives.
    pub fn deceptions(&self) -> Vec<Fault> {
        self.state().deceptions.clone()
    }

    /// The bytes of those that the medium still does not hold as it was reported: no later write has put them right.
    pub fn lies(&self) -> Vec<Vec<u8>> {
        self.state().lies()
    }

    /// The page cache forgets what it holds of files without unsynced changes: readers see the medium from now on.
    pub fn evict(&self) {
        self.state().evict();
    }

    /// Lets the read with this ordinal (from 0) fail with an input/output error.
    pub fn inject_read_error(&self, ordinal: u64) {
        self.state().read_faults.insert(ordinal);
    }

    /// The operations so far, reads not counted; the length is the next ordinal.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    /// How many reads there were.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Limits the bytes that all files may take together.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// The bytes that all files take together.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// The disk after a power loss at this moment. This one is left as it is, so several outcomes can be tried.
    pub fn after_power_loss(&self, kept: Kept) -> Self {
        Self::with(self.state().after_power_loss(kept))
    }

    /// The disk after the process was killed at this moment: what it wrote is visible, but not more durable than
    /// before.
    pub fn after_kill(&self) -> Self {
        Self::with(self.state().after_kill())
    }

    /// What a process sees in a file; `None` when there is no such file.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.state().contents(path)
    }

    /// Changes a file behind everybody's back, on the medium too, as rot does. A file that does not exist is an error
    /// of the test.
    pub fn corrupt(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.state().corrupt(path, change);
    }

    /// A hash of all that a process sees and of all that is durable.
    pub fn fingerprint(&self) -> u64 {
        self.state().fingerprint()
    }
}

impl Disk for SimDisk {
    fn create_directory(&self, path: &str) -> io::Result<()> {
        self.state().create_directory(path)
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        self.reading(|state| state.list(directory))
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let node = self.state().create(path)?;
        Ok(Arc::new(SimFile { disk: self.clone(), node, access: Access::Write }))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let node = self.reading(|state| state.open(path))?;
        Ok(Arc::new(SimFile { disk: self.clone(), node, access }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.state().remove(path)
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.state().sync_directory(directory)
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    node: usize,
    access: Access,
}

impl SimFile {
    fn writable(&self) -> io::Result<MutexGuard<'_, State>> {
        match self.access {
            Access::Write => Ok(self.disk.state()),
            Access::Read | Access::ReadOnce => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        }
    }
}

impl DiskFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.disk.reading(|state| state.length(self.node))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.writable()?.allocate(self.node, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.reading(|state| state.read(self.node, offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?.write(self.node, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.node)
    }
}

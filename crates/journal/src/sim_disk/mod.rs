//! A disk in memory that crashes, tears, fails and rots on command, in the same way for the same seed.
//!
//! The disk separates the page cache, which a process sees, from the medium, which survives a power loss. Until a file
//! is synced, each sector that was written to it may or may not be on the medium. Until a directory is synced, each
//! change of a name may or may not be on the medium. Directories themselves are durable immediately.

mod random;
pub mod script;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use random::Random;
use state::State;
pub use state::{ArmedWrite, DiskView, FileView};

use crate::disk::{Access, Disk, DiskFile};

/// An injected fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The operation fails with an input/output error. A write may have been done in part. A sync may have stored some
    /// sectors; the others are never stored by a later sync, although the process still sees them.
    Broken,
    /// The operation fails because the disk is full. A write may have been done in part. A sync behaves as if broken.
    Full,
    /// The process stops during the operation: the operation is issued but not completed, and all later operations
    /// fail.
    Crash,
    /// A write that reports success and never reaches the medium.
    LostWrite,
    /// A write that reports success and reaches the medium at a wrong offset.
    MisdirectedWrite {
        /// Distance from the correct offset, in sectors.
        sectors: u32,
    },
    /// A write that reports success, although one of its sectors on the medium remains unchanged.
    StaleWrite {
        /// Number of the unchanged sector, modulo the number of sectors of the write.
        sector: u32,
    },
}

/// The operations that a fault can be injected into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    CreateDirectory,
    /// Creation of a file.
    Create,
    /// Reservation of space.
    Allocate,
    /// A write to a file.
    Write,
    /// A sync of a file.
    Sync,
    /// A rename of a file.
    Rename,
    /// Removal of a file.
    Remove,
    SyncDirectory,
}

/// An operation or a read that failed because of an injected fault. Writes that falsely reported success are in
/// [`SimDisk::deceptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultedOperation {
    /// An operation failed, or the process stopped during it.
    Operation {
        /// Number of the operation in this life of the disk, from 0.
        ordinal: u64,
        /// The injected fault.
        fault: DiskFault,
    },
    /// A read failed.
    Read {
        /// Number of the read in this life of the disk, from 0.
        ordinal: u64,
    },
}

/// The part of unsynced data that survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurvivingData {
    /// All of it.
    Everything,
    /// None of it.
    Nothing,
    /// Some writes, some sectors of a write, and some beginnings of sectors, as the seed decides. A sector tears at any
    /// byte, but its last eight bytes are stored completely or not at all.
    Some(u64),
}

/// The simulated disk. Clones share the same state.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    is_observer: bool,
}

impl SimDisk {
    /// Creates an empty disk. The seed decides what failed operations leave behind.
    pub fn new(seed: u64) -> Self {
        Self::with(State::new(seed))
    }

    fn with(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), is_observer: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle of the same disk for an auditor. Its reads are not counted, no fault affects them, and it can still
    /// read after a crash.
    pub fn observer(&self) -> Self {
        Self { is_observer: true, ..self.clone() }
    }

    /// Performs a read. Only the reads of an observer are exempt from faults.
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

    /// Injects a fault into the operation with this ordinal (from 0, reads not counted).
    pub fn inject(&self, ordinal: u64, fault: DiskFault) {
        self.state().faults.insert(ordinal, fault);
    }

    /// Removes all injected faults that have not occurred yet.
    pub fn clear_faults(&self) {
        self.state().clear_faults();
    }

    /// Injects a fault into a write to a file whose path contains `part`, after `skip` other such writes. The fault
    /// stays armed across power losses until its write occurs or faults are cleared.
    pub fn inject_into(&self, part: &str, skip: u64, fault: DiskFault) {
        self.state().set_trap(part, skip, fault);
    }

    /// Number of operations and reads that were affected by a fault or met a full disk, in all lives of the disk.
    pub fn befallen(&self) -> u64 {
        self.state().befallen
    }

    /// The operations and reads that failed because of an injected fault, in order of occurrence, in all lives of the
    /// disk.
    pub fn strikes(&self) -> Vec<FaultedOperation> {
        self.state().strikes.clone()
    }

    /// The content of the disk and the faults that are armed, for display to users.
    pub fn view(&self) -> DiskView {
        self.state().view()
    }

    /// The writes that were lost, stale or misdirected although they reported success, in all lives of the disk.
    pub fn deceptions(&self) -> Vec<DiskFault> {
        self.state().deceptions.clone()
    }

    /// The bytes of those writes that the medium still does not hold as reported, because no later write has corrected
    /// them.
    pub fn lies(&self) -> Vec<Vec<u8>> {
        self.state().lies()
    }

    /// Drops cached data of files without unsynced changes, so that readers see the medium.
    pub fn evict(&self) {
        self.state().evict();
    }

    /// Makes the read with this ordinal (from 0) fail with an input/output error.
    pub fn inject_read_error(&self, ordinal: u64) {
        self.state().read_faults.insert(ordinal);
    }

    /// All operations so far, reads not counted. The length is the next ordinal.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    /// Number of reads so far.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Limits the total bytes of all files.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Total bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// The disk after a power loss at this moment. The original disk is unchanged, so several outcomes can be tried.
    pub fn after_power_loss(&self, kept: SurvivingData) -> Self {
        Self::with(self.state().after_power_loss(kept))
    }

    /// The disk after the process was killed at this moment. The process's writes are visible, and as durable as
    /// before.
    pub fn after_kill(&self) -> Self {
        Self::with(self.state().after_kill())
    }

    /// The content of a file as a process sees it; `None` if the file does not exist.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        self.state().contents(path)
    }

    /// Changes a file in the page cache and on the medium, without any operation, as bit rot does. Panics if the file
    /// does not exist.
    pub fn corrupt(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.state().corrupt(path, change);
    }

    /// A hash of everything that a process sees and everything that is durable.
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

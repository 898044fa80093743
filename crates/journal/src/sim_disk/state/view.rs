//! What can be seen of the simulated disk from outside, for people who step through what happens to it.

use std::collections::BTreeSet;

use super::{Change, State};
use crate::sim_disk::Fault;

/// A disk at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// Its files by path, with names that are gone but not yet on the medium.
    pub files: Vec<FileView>,
    /// The bytes that all files take together.
    pub used_bytes: u64,
    /// The bytes that they may take together; `u64::MAX` where nothing limits them.
    pub capacity_bytes: u64,
    /// Operations in this life, which is the ordinal of the next one.
    pub operations: u64,
    /// Reads in this life, which is the ordinal of the next one.
    pub reads: u64,
    /// Whether the process has stopped in the middle of an operation.
    pub is_crashed: bool,
    /// Faults that wait for an operation to come, by its ordinal.
    pub armed_operations: Vec<(u64, Fault)>,
    /// Reads to come that will fail, by ordinal.
    pub armed_reads: Vec<u64>,
    /// Faults that wait for a write to a certain file.
    pub armed_writes: Vec<ArmedWrite>,
}

/// A file or a name at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// Its path.
    pub path: String,
    /// How many bytes a process sees; `None` where it sees no such file any more.
    pub bytes: Option<u64>,
    /// Bytes written since the last sync.
    pub unsynced_bytes: u64,
    /// Changes since the last sync: writes, and lengths that were reserved.
    pub unsynced_changes: usize,
    /// Whether the medium holds what a process sees. After a failed sync it may not, with nothing left to be synced.
    pub is_on_medium: bool,
    /// Whether a loss of power cannot bring back what the name stood for before.
    pub is_name_synced: bool,
    /// Writes that reported success, and that the medium does not hold as it was reported.
    pub lies: usize,
}

/// A fault that waits for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmedWrite {
    /// What the path of the file contains.
    pub part: String,
    /// Such writes that come before it.
    pub skip: u64,
    /// What it will do.
    pub fault: Fault,
}

impl State {
    pub fn view(&self) -> DiskView {
        let paths: BTreeSet<&String> = self.names.keys().chain(self.durable_names.keys()).collect();
        let operations = self.operations.len() as u64;
        let armed = |(ordinal, fault): (&u64, &Fault)| (*ordinal, *fault);
        let traps = self.traps.iter();
        DiskView {
            files: paths.into_iter().map(|path| self.file_view(path)).collect(),
            used_bytes: self.used_bytes(),
            capacity_bytes: self.capacity_bytes,
            operations,
            reads: self.reads,
            is_crashed: self.crashed,
            armed_operations: self.faults.range(operations..).map(armed).collect(),
            armed_reads: self.read_faults.range(self.reads..).copied().collect(),
            armed_writes: traps
                .map(|trap| ArmedWrite { part: trap.part.clone(), skip: trap.skip, fault: trap.fault })
                .collect(),
        }
    }

    fn file_view(&self, path: &str) -> FileView {
        let (seen, synced) = (self.names.get(path), self.durable_names.get(path));
        let node = seen.map(|node| &self.nodes[*node]);
        let pending = node.map(|node| node.pending.as_slice()).unwrap_or_default();
        let written = pending.iter().map(|change| match change {
            Change::Length(_) => 0,
            Change::Write { bytes, .. } => bytes.len() as u64,
        });
        FileView {
            path: path.to_owned(),
            bytes: node.map(|node| node.cached.len() as u64),
            unsynced_bytes: written.sum(),
            unsynced_changes: pending.len(),
            is_on_medium: node.is_none_or(|node| node.cached == node.durable),
            is_name_synced: seen == synced,
            lies: node.map_or(0, |node| node.lies.len()),
        }
    }
}

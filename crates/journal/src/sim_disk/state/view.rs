//! A view of the simulated disk for users who step through its operations.

use std::collections::BTreeSet;

use super::{Change, State};
use crate::sim_disk::DiskFault;

/// A disk at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// Files by path, including names that are removed but whose removal is not yet on the medium.
    pub files: Vec<FileView>,
    /// Total bytes of all files.
    pub used_bytes: u64,
    /// Limit of the total bytes; `u64::MAX` if unlimited.
    pub capacity_bytes: u64,
    /// Number of operations in this life of the disk, which is the ordinal of the next one.
    pub operations: u64,
    /// Number of reads in this life of the disk, which is the ordinal of the next one.
    pub reads: u64,
    /// Whether the process has stopped during an operation.
    pub is_crashed: bool,
    /// Faults armed for later operations, by ordinal.
    pub armed_operations: Vec<(u64, DiskFault)>,
    /// Ordinals of later reads that will fail.
    pub armed_reads: Vec<u64>,
    /// Faults armed for writes to particular files.
    pub armed_writes: Vec<ArmedWrite>,
}

/// A file or a name at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    pub path: String,
    /// The file's length as a process sees it, in bytes; `None` if the process no longer sees the file.
    pub bytes: Option<u64>,
    /// Bytes written since the last sync.
    pub unsynced_bytes: u64,
    /// Changes since the last sync: writes and reserved lengths.
    pub unsynced_changes: usize,
    /// Whether the medium holds the content that a process sees. After a failed sync it may not, with nothing left to
    /// sync.
    pub is_on_medium: bool,
    /// Whether the current meaning of the name survives a power loss.
    pub is_name_synced: bool,
    /// Number of writes that reported success although the medium does not hold their bytes as reported.
    pub lies: usize,
}

/// A fault armed for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmedWrite {
    /// A part of the file's path.
    pub part: String,
    /// Number of such writes that come first.
    pub skip: u64,
    pub fault: DiskFault,
}

impl State {
    /// The files, and the armed faults.
    pub fn view(&self) -> DiskView {
        let paths: BTreeSet<&String> = self.names.keys().chain(self.durable_names.keys()).collect();
        let operations = self.operations.len() as u64;
        let armed = |(ordinal, fault): (&u64, &DiskFault)| (*ordinal, *fault);
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

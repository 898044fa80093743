//! Writes and reads snapshots of the state, so that a restart does not need to read the whole journal.

use std::io::{self, Write};
use std::sync::Arc;

use crate::aligned::AlignedBytes;
use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Damage, JournalError};
use crate::frame::{u32_at, u64_at};
use crate::segment::number_of;

/// The directory of the snapshots, relative to the data directory.
pub(crate) const DIRECTORY: &str = "snapshots";

const SUFFIX: &str = ".snap";
const TEMPORARY: &str = "snapshots/writing.tmp";
const MAGIC: &[u8; 8] = b"UPESISNP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const BUFFER_BYTES: usize = 1024 * 1024;

/// The state of the ledger after a record, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that the state contains.
    pub seq: u64,
    /// The time of that record, in nanoseconds since 1970.
    pub time_ns: i64,
    pub bytes: Vec<u8>,
}

/// The result of a search for a snapshot to start from.
#[derive(Debug, Default)]
pub struct Latest {
    /// The newest sound snapshot, if any.
    pub snapshot: Option<Snapshot>,
    /// Newer snapshots that were skipped because they are damaged.
    pub damaged: Vec<JournalError>,
}

/// A snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The file, relative to the data directory.
    pub file: String,
    /// The last record that the state contains.
    pub seq: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// The snapshots of a data directory.
///
/// A failure here never loses data: the journal is authoritative, and a snapshot only shortens recovery.
#[derive(Clone, Debug)]
pub struct SnapshotStore {
    disk: Arc<dyn Disk>,
}

impl SnapshotStore {
    /// Opens the snapshots on a disk. Creates their directory if it is missing.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, JournalError> {
        disk.create_directory(DIRECTORY).map_err(|source| JournalError::io("create", DIRECTORY, source))?;
        disk.sync_directory("").map_err(|source| JournalError::sync("the data directory", source))?;
        Ok(Self { disk })
    }

    pub fn open_for_reading(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Writes a snapshot. When this returns `Ok`, the snapshot is complete and durable; otherwise it does not exist.
    /// The record `seq` must already be durable. `write` produces the state piece by piece, so a large state need not
    /// be in memory twice.
    pub fn write(
        &self,
        seq: u64,
        time_ns: i64,
        write: impl FnOnce(&mut SnapshotSink) -> io::Result<()>,
    ) -> Result<SnapshotInfo, JournalError> {
        let result = self.write_file(seq, time_ns, write);
        if result.is_err() {
            // Best effort: the next attempt removes the remains, and no reader uses them.
            let _ = self.disk.remove(TEMPORARY);
        }
        result
    }

    fn write_file(
        &self,
        seq: u64,
        time_ns: i64,
        write: impl FnOnce(&mut SnapshotSink) -> io::Result<()>,
    ) -> Result<SnapshotInfo, JournalError> {
        let failed = |operation| move |source| JournalError::io(operation, TEMPORARY, source);
        match self.disk.remove(TEMPORARY) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove")(error)),
            _ => {}
        }
        let file = self.disk.create(TEMPORARY).map_err(failed("create"))?;
        let mut sink = SnapshotSink::new(file);
        write(&mut sink).and_then(|()| sink.flush()).map_err(failed("write"))?;
        let body_bytes = sink.body_bytes;
        let header = Header { seq, time_ns, body_bytes, body_crc: sink.crc };
        sink.file.write_at(0, &header.encode()).map_err(failed("write"))?;
        sink.file.sync().map_err(|source| JournalError::sync(TEMPORARY, source))?;
        let path = path(seq);
        self.disk.rename(TEMPORARY, &path).map_err(|source| JournalError::io("rename to", &path, source))?;
        self.disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
        Ok(SnapshotInfo { file: path, seq, bytes: HEADER_BYTES as u64 + body_bytes })
    }

    /// Returns the newest sound snapshot. Damaged snapshots are skipped and reported. A disk that cannot be read is an
    /// error.
    pub fn latest(&self) -> Result<Latest, JournalError> {
        let mut latest = Latest::default();
        for seq in self.sequence_numbers()?.into_iter().rev() {
            match self.read(seq) {
                Ok(snapshot) => {
                    latest.snapshot = Some(snapshot);
                    break;
                }
                Err(error @ JournalError::Damaged { .. }) => latest.damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(latest)
    }

    /// The snapshot files, oldest first. Their content is not verified. A file that is deleted meanwhile is left out.
    pub fn list(&self) -> Result<Vec<SnapshotInfo>, JournalError> {
        let mut infos = Vec::new();
        for seq in self.sequence_numbers()? {
            let file = path(seq);
            let opened = match self.open_file(&file) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let bytes = opened.length().map_err(|source| JournalError::io("stat", &file, source))?;
            infos.push(SnapshotInfo { file, seq, bytes });
        }
        Ok(infos)
    }

    /// Deletes all but the newest `keep` snapshots (at least one stays). Returns the number of deleted snapshots.
    pub fn prune(&self, keep: usize) -> Result<usize, JournalError> {
        let all = self.sequence_numbers()?;
        let surplus = &all[..all.len().saturating_sub(keep.max(1))];
        for seq in surplus {
            let path = path(*seq);
            self.disk.remove(&path).map_err(|source| JournalError::io("remove", &path, source))?;
        }
        if !surplus.is_empty() {
            self.disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
        }
        Ok(surplus.len())
    }

    /// Reads and verifies one snapshot.
    pub fn read(&self, seq: u64) -> Result<Snapshot, JournalError> {
        let path = path(seq);
        let file = self.open_file(&path)?;
        let failed = |source| JournalError::io("read", &path, source);
        let damaged = |reason| Err(JournalError::damaged(&path, 0, reason));
        let mut header = [0; HEADER_BYTES];
        file.read_at(0, &mut header).map_err(failed)?;
        let header = match Header::decode(&header) {
            Ok(header) if header.seq == seq => header,
            Ok(_) => return damaged(Damage::FileHeader),
            Err(reason) => return damaged(reason),
        };
        let found = file.length().map_err(|source| JournalError::io("stat", &path, source))?;
        let expected = (HEADER_BYTES as u64).saturating_add(header.body_bytes);
        if found != expected {
            return damaged(Damage::Length { expected, found });
        }
        let mut bytes = vec![0; header.body_bytes as usize];
        file.read_at(HEADER_BYTES as u64, &mut bytes).map_err(failed)?;
        if crc32c::crc32c(&bytes) != header.body_crc {
            return damaged(Damage::Checksum);
        }
        Ok(Snapshot { seq, time_ns: header.time_ns, bytes })
    }

    fn open_file(&self, path: &str) -> Result<Arc<dyn DiskFile>, JournalError> {
        self.disk.open(path, Access::Read).map_err(|source| JournalError::io("open", path, source))
    }

    fn sequence_numbers(&self) -> Result<Vec<u64>, JournalError> {
        let names = match self.disk.list(DIRECTORY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|source| JournalError::io("list", DIRECTORY, source))?,
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name, SUFFIX)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn path(seq: u64) -> String {
    format!("{DIRECTORY}/{seq:020}{SUFFIX}")
}

/// Receives the bytes of a snapshot that is being written.
///
/// The bytes are written to the disk in aligned pieces, past the page cache, because a snapshot is read once or never.
#[derive(Debug)]
pub struct SnapshotSink {
    file: Arc<dyn DiskFile>,
    buffer: AlignedBytes,
    /// Offset of the buffer in the file.
    offset: u64,
    /// The buffer contains bytes of the body from `begin` to `end`. In the first piece, the space for the header comes
    /// before them.
    begin: usize,
    end: usize,
    body_bytes: u64,
    crc: u32,
}

impl SnapshotSink {
    fn new(file: Arc<dyn DiskFile>) -> Self {
        let mut buffer = AlignedBytes::default();
        buffer.grow(BUFFER_BYTES);
        Self { file, buffer, offset: 0, begin: HEADER_BYTES, end: HEADER_BYTES, body_bytes: 0, crc: 0 }
    }
}

impl Write for SnapshotSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.end == BUFFER_BYTES {
            self.flush()?;
        }
        let taken = bytes.len().min(BUFFER_BYTES - self.end);
        self.buffer[self.end..self.end + taken].copy_from_slice(&bytes[..taken]);
        self.end += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let body = &self.buffer[self.begin..self.end];
        if !body.is_empty() {
            self.crc = crc32c::crc32c_append(self.crc, body);
            self.file.write_at(self.offset, &self.buffer[..self.end])?;
            self.body_bytes += body.len() as u64;
            self.offset += self.end as u64;
            (self.begin, self.end) = (0, 0);
        }
        Ok(())
    }
}

struct Header {
    seq: u64,
    time_ns: i64,
    body_bytes: u64,
    body_crc: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Damage> {
        if &bytes[0..8] != MAGIC || crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(Damage::FileHeader);
        }
        match u32_at(bytes, 8) {
            VERSION => Ok(Self {
                seq: u64_at(bytes, 16),
                time_ns: u64_at(bytes, 24) as i64,
                body_bytes: u64_at(bytes, 32),
                body_crc: u32_at(bytes, 40),
            }),
            version => Err(Damage::UnknownVersion(version)),
        }
    }
}

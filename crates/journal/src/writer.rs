//! Appends batches to the journal with one write and one sync each.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::batch::Batch;
use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::frame::{HEADER_BYTES, SECTOR_BYTES, TAIL_BYTES, frame_bytes};
use crate::segment::{self, DIRECTORY, PREPARED, SegmentHeader};

/// Bytes of the next segment that are filled with zeros in one write.
const ZERO_CHUNK_BYTES: usize = 256 * 1024;
/// Largest step of zero-filling, in bytes. Steps are short because an append may be waiting.
const ZERO_STEP_BYTES_MAX: u64 = 1024 * 1024;
/// While frames are larger than this, the next segment is not filled with zeros. For such frames, unwritten extents
/// cost less than writing every byte twice.
const ZERO_AHEAD_FRAME_BYTES_MAX: u64 = 256 * 1024;

/// Aligned zeros, so that they can be written past the page cache.
#[repr(align(4096))]
struct AlignedZeros([u8; ZERO_CHUNK_BYTES]);
static ZEROS: AlignedZeros = AlignedZeros([0; ZERO_CHUNK_BYTES]);

/// Whether an appended batch is on disk when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every append ends with a sync of the file.
    Synced,
    /// The writer does not sync. Appended data survives the end of the process, but not a power loss. This is for
    /// measurements only.
    Volatile,
}

/// Options for opening a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of a segment in bytes, rounded up to whole sectors. A batch that does not fit gets a longer segment of
    /// its own.
    pub segment_bytes: u64,
    /// Whether appends are synced.
    pub durability: Durability,
    /// Whether [`Writer::maintain`] fills the next segment with zeros, so that appends do not change file-system
    /// metadata.
    pub zero_ahead: bool,
    /// Distinguishes this journal's frames from all other data. Used once, when the first segment is created. The
    /// creation time in nanoseconds is suitable.
    pub identity: u64,
    /// A sequence number that is known to have been durable, from a snapshot or an archive. A journal that ends before
    /// it is damaged.
    pub known_durable_seq: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            durability: Durability::Synced,
            zero_ahead: true,
            identity: 0,
            known_durable_seq: 0,
        }
    }
}

/// A batch that is durable (unless the writer is volatile).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    /// The first record's sequence number.
    pub first_seq: u64,
    /// The last record's sequence number.
    pub last_seq: u64,
    /// Bytes written, including padding.
    pub bytes: u64,
    /// Time that a replicated log took to accept the batch, in nanoseconds; 0 for a log of one node.
    pub accepted_ns: u64,
    /// Duration of the write, in nanoseconds.
    pub write_ns: u64,
    /// Duration of the sync, in nanoseconds.
    pub sync_ns: u64,
    /// Whether the batch began a new segment.
    pub rolled: bool,
}

/// The result of [`Writer::maintain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// There was nothing to do.
    Idle,
    /// A step was done. More steps may follow when the journal has grown.
    Advanced,
    /// The disk has no space for the next segment. Appends work until the current segment is full.
    DiskFull,
}

/// The end of the record sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalEnd {
    pub last_seq: u64,
    pub last_time_ns: i64,
    pub chain: u64,
    /// The journal's identity; see [`Options::identity`].
    pub identity: u64,
}

/// The segment that is being filled.
#[derive(Debug)]
pub(crate) struct Current {
    pub first_seq: u64,
    pub path: String,
    pub file: Arc<dyn DiskFile>,
    pub offset: u64,
    pub length: u64,
    /// End of the bytes that a failed write may have left after `offset`; equal to `offset` if there are none.
    pub soiled_end: u64,
}

impl Current {
    fn has_room(&self, frame: &[u8]) -> bool {
        self.offset + frame.len() as u64 <= self.length
    }

    /// Writes the frame after its predecessor.
    fn extend(&mut self, frame: &[u8], durability: Durability) -> Result<AppendedBatch, JournalError> {
        let end = self.offset + frame.len() as u64;
        let started = Instant::now();
        // The space is allocated, so only a copy-on-write file system can report a full disk.
        self.soiled_end = end;
        self.file
            .write_at(self.offset, frame)
            .map_err(|source| JournalError::io("write", &self.path, source))?;
        let written = Instant::now();
        if durability == Durability::Synced {
            self.file.sync().map_err(|source| JournalError::sync(&self.path, source))?;
        }
        self.offset = end;
        Ok(appended(frame.len(), started, written, false))
    }
}

/// The next segment, created in advance.
#[derive(Debug)]
struct PreparedSegment {
    file: Arc<dyn DiskFile>,
    length: u64,
    zeroed: u64,
}

/// Appends to the journal. There is one writer per journal, and it belongs on its own thread.
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    options: Options,
    end: JournalEnd,
    current: Option<Current>,
    prepared: Option<PreparedSegment>,
    /// Length of the last frame, in bytes.
    last_frame_bytes: u64,
    /// After a full disk: how full the current segment must be before preparing the next segment is tried again.
    prepare_again_at: u64,
    poisoned: bool,
}

impl Writer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        mut options: Options,
        end: JournalEnd,
        current: Option<Current>,
    ) -> Self {
        options.segment_bytes = options.segment_bytes.next_multiple_of(SECTOR_BYTES as u64);
        Self {
            disk,
            options,
            end,
            current,
            prepared: None,
            last_frame_bytes: 0,
            prepare_again_at: 0,
            poisoned: false,
        }
    }

    /// Appends a batch. When this returns `Ok`, the whole batch is durable. The batch keeps its content;
    /// [`Batch::reset`] prepares it for reuse.
    ///
    /// After [`JournalError::DiskFull`], nothing of the batch is valid and the same batch can be appended again. After
    /// any other error the writer is poisoned: every later call returns [`JournalError::Poisoned`] without accessing
    /// the disk. Whether the batch is in the journal is then known only after the journal is opened again.
    ///
    /// Panics if the batch is empty, does not continue the sequence, or has a time that is not later than the last
    /// record. These are programmer errors.
    pub fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        assert!(!batch.is_empty(), "an empty batch is not appended");
        assert_eq!(batch.first_seq(), self.next_seq(), "a batch must continue the sequence");
        assert!(batch.first_time_ns() > self.end.last_time_ns, "record times must strictly increase");
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let header = batch.seal(self.end.chain, self.end.identity);
        let result = self.place(batch.frame());
        let appended = self.poison_unless_full(result)?;
        self.last_frame_bytes = header.frame_bytes();
        self.end.last_seq = header.next_seq() - 1;
        self.end.last_time_ns = header.last_time_ns;
        self.end.chain = header.chain();
        Ok(AppendedBatch { first_seq: header.first_seq, last_seq: self.end.last_seq, ..appended })
    }

    /// Prepares the next segment step by step and in advance, so that starting it does not delay an append. Call it
    /// after every append, once its acknowledgement has been sent, and once after opening.
    ///
    /// An error other than a full disk poisons the writer.
    pub fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let (used, length) = self.current.as_ref().map_or((1, 1), |current| (current.offset, current.length));
        let result = if self.prepared.is_some() {
            self.zero_ahead(used, length)
        } else if used * 2 < length || used < self.prepare_again_at {
            Ok(Maintenance::Idle)
        } else {
            self.prepare_and_sync()
        };
        match self.poison_unless_full(result) {
            Err(JournalError::DiskFull { .. }) => {
                self.prepare_again_at = used + length / 16;
                Ok(Maintenance::DiskFull)
            }
            other => other,
        }
    }

    /// Reserves space for a frame of up to `body_bytes` of records. A full disk is then detected before anything is
    /// decided, rather than at [`append`](Self::append).
    ///
    /// Returns [`JournalError::DiskFull`] while the disk is full. Any other error poisons the writer.
    pub fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        if self.has_room_for(body_bytes) {
            return Ok(());
        }
        let needed = frame_bytes(body_bytes as usize) as u64 + SECTOR_BYTES as u64;
        let result = self.replace_prepared(needed.max(self.options.segment_bytes));
        self.poison_unless_full(result)
    }

    /// Whether frames with a total of up to `body_bytes` of records fit without allocating anything.
    pub fn has_room_for(&self, body_bytes: u64) -> bool {
        let needed = frame_bytes(body_bytes as usize) as u64;
        let fits_current = |current: &Current| current.offset + needed <= current.length;
        // A segment begins with a header of one sector.
        let fits_prepared = |prepared: &PreparedSegment| needed + SECTOR_BYTES as u64 <= prepared.length;
        self.current.as_ref().is_some_and(fits_current) || self.prepared.as_ref().is_some_and(fits_prepared)
    }

    fn replace_prepared(&mut self, length: u64) -> Result<(), JournalError> {
        if self.prepared.take().is_some() {
            self.discard()?;
        }
        let prepared = self.prepare(length)?;
        prepared.file.sync().map_err(|source| JournalError::sync(PREPARED, source))?;
        self.prepared = Some(prepared);
        Ok(())
    }

    /// The sequence number that the next record must have.
    pub fn next_seq(&self) -> u64 {
        self.end.last_seq + 1
    }

    /// The time of the last record; 1970 if there is none. The next record must be later.
    pub fn last_time_ns(&self) -> i64 {
        self.end.last_time_ns
    }

    /// Whether appends are synced.
    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Whether a disk failure stopped this writer.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn poison_unless_full<T>(&mut self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        if let Err(error) = &result {
            self.poisoned = !matches!(error, JournalError::DiskFull { .. });
        }
        result
    }

    fn place(&mut self, frame: &[u8]) -> Result<AppendedBatch, JournalError> {
        debug_assert!(frame.len() > HEADER_BYTES && frame.len().is_multiple_of(SECTOR_BYTES));
        self.scrub()?;
        let durability = self.options.durability;
        match &mut self.current {
            Some(current) if current.has_room(frame) => current.extend(frame, durability),
            _ => self.roll(frame),
        }
    }

    /// Restores the zeros after an earlier write that met a full disk, so that its remains cannot be mistaken for
    /// anything else.
    fn scrub(&mut self) -> Result<(), JournalError> {
        match &mut self.current {
            Some(current) if current.soiled_end > current.offset => {
                scrub(&*current.file, &current.path, current.offset, current.soiled_end)?;
                current.soiled_end = current.offset;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins a new segment with the frame. The segment gets its name when header and frame are durable, so a named
    /// segment is never empty.
    fn roll(&mut self, frame: &[u8]) -> Result<AppendedBatch, JournalError> {
        let needed = (SECTOR_BYTES + frame.len()) as u64;
        let prepared = match self.prepared.take() {
            Some(prepared) if prepared.length >= needed => prepared,
            too_short => {
                if too_short.is_some() {
                    self.discard()?;
                }
                self.prepare(needed.max(self.options.segment_bytes))?
            }
        };
        let result = self.fill_and_name(&prepared, frame);
        if let Err(JournalError::DiskFull { .. }) = result {
            self.discard()?;
        }
        result
    }

    fn fill_and_name(
        &mut self,
        prepared: &PreparedSegment,
        frame: &[u8],
    ) -> Result<AppendedBatch, JournalError> {
        let first_seq = self.next_seq();
        let path = segment::path(first_seq);
        let header = SegmentHeader {
            identity: self.end.identity,
            first_seq,
            previous_chain: self.end.chain,
            previous_time_ns: self.end.last_time_ns,
            length_bytes: prepared.length,
            previous_first_seq: self.current.as_ref().map_or(0, |current| current.first_seq),
        };
        let started = Instant::now();
        let write = |offset, bytes: &[u8]| {
            prepared
                .file
                .write_at(offset, bytes)
                .map_err(|source| JournalError::io("write", PREPARED, source))
        };
        write(0, &header.encode())?;
        write(SECTOR_BYTES as u64, frame)?;
        let written = Instant::now();
        let synced = self.options.durability == Durability::Synced;
        if synced {
            prepared.file.sync().map_err(|source| JournalError::sync(PREPARED, source))?;
        }
        self.disk.rename(PREPARED, &path).map_err(|source| JournalError::io("rename to", &path, source))?;
        if synced {
            self.disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
        }
        let offset = (SECTOR_BYTES + frame.len()) as u64;
        let file = Arc::clone(&prepared.file);
        self.current =
            Some(Current { first_seq, path, file, offset, length: prepared.length, soiled_end: offset });
        self.prepare_again_at = 0;
        Ok(appended(frame.len() + SECTOR_BYTES, started, written, true))
    }

    fn prepare_and_sync(&mut self) -> Result<Maintenance, JournalError> {
        self.replace_prepared(self.options.segment_bytes)?;
        Ok(Maintenance::Advanced)
    }

    fn prepare(&self, length: u64) -> Result<PreparedSegment, JournalError> {
        let created = match self.disk.create(PREPARED) {
            // The file remains from a process that stopped, or could not even be removed because the disk was full. It
            // may contain the remains of a batch.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.discard()?;
                self.disk.create(PREPARED)
            }
            other => other,
        };
        let file = created.map_err(|source| JournalError::io("create", PREPARED, source))?;
        if let Err(source) = file.allocate(length) {
            self.discard()?;
            return Err(JournalError::io("allocate", PREPARED, source));
        }
        Ok(PreparedSegment { file, length, zeroed: 0 })
    }

    fn discard(&self) -> Result<(), JournalError> {
        self.disk.remove(PREPARED).map_err(|source| JournalError::io("remove", PREPARED, source))
    }

    /// Writes the next step of zeros, so that the next segment is filled when the current one is full. While frames are
    /// large, nothing is zero-filled.
    fn zero_ahead(&mut self, used: u64, length: u64) -> Result<Maintenance, JournalError> {
        let Some(prepared) = &mut self.prepared else { return Ok(Maintenance::Idle) };
        let are_frames_large = self.last_frame_bytes > ZERO_AHEAD_FRAME_BYTES_MAX;
        if !self.options.zero_ahead || are_frames_large || prepared.zeroed == prepared.length {
            return Ok(Maintenance::Idle);
        }
        // Once the current segment is half full, zero-filling proceeds at twice the pace of the appends.
        let due =
            (used * 2).saturating_sub(length) as u128 * u128::from(prepared.length) / u128::from(length);
        let due = (due as u64).next_multiple_of(ZERO_CHUNK_BYTES as u64).min(prepared.length);
        if prepared.zeroed >= due {
            return Ok(Maintenance::Idle);
        }
        let due = due.min(prepared.zeroed + ZERO_STEP_BYTES_MAX);
        write_zeros(&*prepared.file, PREPARED, prepared.zeroed, due)?;
        prepared.zeroed = due;
        Ok(Maintenance::Advanced)
    }
}

/// Durably turns the remains of a frame into free space again.
///
/// A crash during this must leave data that is recognised as the remains of a frame. So the end of the frame's first
/// sector is cleared first. This marks the frame as incomplete whatever else remains. Then everything is cleared.
pub(crate) fn scrub(file: &dyn DiskFile, path: &str, from: u64, to: u64) -> Result<(), JournalError> {
    let second_sector = from + SECTOR_BYTES as u64;
    write_zeros(file, path, second_sector - TAIL_BYTES as u64, second_sector)?;
    write_zeros(file, path, from, to)
}

/// Durably writes zeros to a range of a file.
pub(crate) fn write_zeros(file: &dyn DiskFile, path: &str, from: u64, to: u64) -> Result<(), JournalError> {
    let mut at = from;
    while at < to {
        let length = (to - at).min(ZERO_CHUNK_BYTES as u64);
        file.write_at(at, &ZEROS.0[..length as usize])
            .map_err(|source| JournalError::io("write zeros to", path, source))?;
        at += length;
    }
    file.sync().map_err(|source| JournalError::sync(path, source))
}

fn appended(bytes: usize, started: Instant, written: Instant, rolled: bool) -> AppendedBatch {
    let nanoseconds = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    AppendedBatch {
        first_seq: 0,
        last_seq: 0,
        bytes: bytes as u64,
        accepted_ns: 0,
        write_ns: nanoseconds(written - started),
        sync_ns: nanoseconds(written.elapsed()),
        rolled,
    }
}

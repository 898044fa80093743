//! Appends batches: one write and one sync each.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::batch::Batch;
use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::frame::{HEADER_BYTES, SECTOR_BYTES, TAIL_BYTES, frame_bytes};
use crate::segment::{self, DIRECTORY, PREPARED, SegmentHeader};

/// How much of the next segment is written with zeros at once, in bytes.
const ZERO_CHUNK_BYTES: usize = 256 * 1024;
/// Zeros that are due are written in steps of at most this, in bytes: an append may be waiting.
const ZERO_STEP_BYTES_MAX: u64 = 1024 * 1024;
/// Larger frames pay less for extents that were never written than a second write of every byte costs.
const ZERO_AHEAD_FRAME_BYTES_MAX: u64 = 256 * 1024;

/// In a place from which they can be written past the page cache.
#[repr(align(4096))]
struct Zeros([u8; ZERO_CHUNK_BYTES]);
static ZEROS: Zeros = Zeros([0; ZERO_CHUNK_BYTES]);

/// Whether an appended batch is on disk when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every append ends with a sync of the file.
    Synced,
    /// Nothing is synced: what was appended survives the process, not the machine. For measurements only.
    Volatile,
}

/// How a journal is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Length of a segment in bytes, rounded up to whole sectors. A batch that does not fit gets a longer segment
    /// of its own.
    pub segment_bytes: u64,
    /// Whether appends are synced.
    pub durability: Durability,
    /// Whether [`Writer::maintain`] writes the next segment full of zeros, so that appends change no file-system
    /// metadata.
    pub zero_ahead: bool,
    /// Tells this journal's frames from everything else; used once, when the first segment is made. The time of
    /// creation in nanoseconds will do.
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
pub struct Appended {
    /// The first record's sequence number.
    pub first_seq: u64,
    /// The last record's sequence number.
    pub last_seq: u64,
    /// What was written, in bytes, padding included.
    pub bytes: u64,
    /// How long a log of several nodes took to accept the batch, in nanoseconds; 0 without one.
    pub accepted_ns: u64,
    /// Duration of the write, in nanoseconds.
    pub write_ns: u64,
    /// Duration of the sync, in nanoseconds.
    pub sync_ns: u64,
    /// Whether the batch began a new segment.
    pub rolled: bool,
}

/// What [`Writer::maintain`] found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// Nothing.
    Idle,
    /// A step was done; there may be more to do when the journal has grown.
    Advanced,
    /// There is no room for the next segment. Appends work until the present one is full.
    DiskFull,
}

/// The end of the sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub last_seq: u64,
    pub last_time_ns: i64,
    pub chain: u64,
    /// Of the journal; see [`Options::identity`].
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
    /// The end of what a failed write may have left behind `offset`; equal to `offset` when there is nothing.
    pub soiled_end: u64,
}

impl Current {
    fn has_room(&self, frame: &[u8]) -> bool {
        self.offset + frame.len() as u64 <= self.length
    }

    /// Writes the frame behind its predecessor.
    fn extend(&mut self, frame: &[u8], durability: Durability) -> Result<Appended, JournalError> {
        let end = self.offset + frame.len() as u64;
        let started = Instant::now();
        // The room is allocated, so only a file system that writes elsewhere can say that there is none.
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

/// The next segment, made ahead of time.
#[derive(Debug)]
struct Prepared {
    file: Arc<dyn DiskFile>,
    length: u64,
    zeroed: u64,
}

/// Appends to the journal. There is one writer per journal; it belongs on a thread of its own.
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    options: Options,
    end: End,
    current: Option<Current>,
    prepared: Option<Prepared>,
    /// Length of the last frame, in bytes.
    last_frame_bytes: u64,
    /// After a lack of room: how full the present segment must be before the next one is tried again.
    prepare_again_at: u64,
    poisoned: bool,
}

impl Writer {
    pub(crate) fn new(disk: Arc<dyn Disk>, mut options: Options, end: End, current: Option<Current>) -> Self {
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

    /// Appends a batch: when this returns `Ok`, all of it is durable. The batch stays as it is; [`Batch::reset`] makes
    /// it ready for reuse.
    ///
    /// After [`JournalError::DiskFull`] nothing of the batch counts and the same batch can be appended again. After any
    /// other error the writer is poisoned: every later call answers [`JournalError::Poisoned`] without touching the
    /// disk, and whether the batch is in the journal is known only when it is opened again.
    ///
    /// Panics when the batch is empty or does not continue the sequence, or when its time is not later than that of the
    /// last record: these are mistakes of the program.
    pub fn append(&mut self, batch: &mut Batch) -> Result<Appended, JournalError> {
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
        Ok(Appended { first_seq: header.first_seq, last_seq: self.end.last_seq, ..appended })
    }

    /// Prepares the next segment, step by step and in good time, so that beginning it does not delay an append. To be
    /// called after every append, when its acknowledgement has left, and once after opening.
    ///
    /// An error other than lack of room poisons the writer.
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

    /// Makes sure that a frame of up to `body_bytes` of records will find its place without allocating anything, so
    /// that lack of room shows before anything is decided rather than at [`append`](Self::append).
    ///
    /// Answers [`JournalError::DiskFull`] as long as there is no room; any other error poisons the writer.
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

    /// Whether frames of together up to `body_bytes` of records will find their place without allocating anything.
    pub fn has_room_for(&self, body_bytes: u64) -> bool {
        let needed = frame_bytes(body_bytes as usize) as u64;
        let fits_current = |current: &Current| current.offset + needed <= current.length;
        // A segment begins with a header of one sector.
        let fits_prepared = |prepared: &Prepared| needed + SECTOR_BYTES as u64 <= prepared.length;
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

    /// The time of the last record; 1970 when there is none. The next record must be later.
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

    fn place(&mut self, frame: &[u8]) -> Result<Appended, JournalError> {
        debug_assert!(frame.len() > HEADER_BYTES && frame.len().is_multiple_of(SECTOR_BYTES));
        self.scrub()?;
        let durability = self.options.durability;
        match &mut self.current {
            Some(current) if current.has_room(frame) => current.extend(frame, durability),
            _ => self.roll(frame),
        }
    }

    /// Restores the zeros where an earlier write ran out of room, so that its remains cannot be taken for something
    /// else.
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

    /// Begins a new segment with the frame. The segment gets its name when header and frame are durable, so that a
    /// named segment is never empty.
    fn roll(&mut self, frame: &[u8]) -> Result<Appended, JournalError> {
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

    fn fill_and_name(&mut self, prepared: &Prepared, frame: &[u8]) -> Result<Appended, JournalError> {
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

    fn prepare(&self, length: u64) -> Result<Prepared, JournalError> {
        let created = match self.disk.create(PREPARED) {
            // Left by a process that stopped; or there was no room even for removing it. It may hold the remains of a
            // batch.
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
        Ok(Prepared { file, length, zeroed: 0 })
    }

    fn discard(&self) -> Result<(), JournalError> {
        self.disk.remove(PREPARED).map_err(|source| JournalError::io("remove", PREPARED, source))
    }

    /// Writes the next stretch of zeros, so that the next segment is all written when the present one is full. In times
    /// of large frames there is no use in it.
    fn zero_ahead(&mut self, used: u64, length: u64) -> Result<Maintenance, JournalError> {
        let Some(prepared) = &mut self.prepared else { return Ok(Maintenance::Idle) };
        let are_frames_large = self.last_frame_bytes > ZERO_AHEAD_FRAME_BYTES_MAX;
        if !self.options.zero_ahead || are_frames_large || prepared.zeroed == prepared.length {
            return Ok(Maintenance::Idle);
        }
        // From half full on, twice the pace of the appends.
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

/// Turns the remains of a frame into free room again, durably.
///
/// A crash in between must leave what is known for the remains of a frame. So first the end of its first sector goes,
/// which marks it as incomplete whatever else is left, then everything.
pub(crate) fn scrub(file: &dyn DiskFile, path: &str, from: u64, to: u64) -> Result<(), JournalError> {
    let second_sector = from + SECTOR_BYTES as u64;
    write_zeros(file, path, second_sector - TAIL_BYTES as u64, second_sector)?;
    write_zeros(file, path, from, to)
}

/// Writes zeros over a stretch of a file, durably.
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

fn appended(bytes: usize, started: Instant, written: Instant, rolled: bool) -> Appended {
    let nanoseconds = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Appended {
        first_seq: 0,
        last_seq: 0,
        bytes: bytes as u64,
        accepted_ns: 0,
        write_ns: nanoseconds(written - started),
        sync_ns: nanoseconds(written.elapsed()),
        rolled,
    }
}

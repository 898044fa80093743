//! Opens a journal and recovers it after any interruption.

use std::sync::Arc;

use crate::cursor::{Cursor, CursorContent};
use crate::disk::{Access, Disk};
use crate::error::{Damage, JournalError};
use crate::frame::SECTOR_BYTES;
use crate::reader::{END, Reader};
use crate::segment::{self, DIRECTORY, SegmentHeader};
use crate::tail::{self, TornTail};
use crate::writer::{Current, JournalEnd, Options, Writer, scrub};

/// The content of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredJournal {
    /// The oldest record's sequence number; 0 if there is none.
    pub first_seq: u64,
    /// The newest record's sequence number; 0 if there is none.
    pub last_seq: u64,
    /// The newest record's time; 1970 if there is none.
    pub last_time_ns: i64,
    /// The chain value of the newest frame. Two journals with the same value have the same content.
    pub chain: u64,
    pub segments: usize,
    /// The remains of a batch that was never acknowledged.
    pub torn: Option<TornTail>,
}

/// An open journal.
#[derive(Debug)]
pub struct OpenedJournal {
    pub recovered: RecoveredJournal,
    /// Appends after that content.
    pub writer: Writer,
}

/// Opens the journal of a data directory for writing. Creates an empty journal if there is none.
///
/// Verifies all segment headers and every frame of the last segment, and removes a torn tail. Frames of earlier
/// segments are verified when they are read. The recovered records are made durable before this returns, so the caller
/// can act on them. If the journal is damaged, nothing is changed.
pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<OpenedJournal, JournalError> {
    disk.create_directory(DIRECTORY).map_err(|source| JournalError::io("create", DIRECTORY, source))?;
    disk.sync_directory("").map_err(|source| JournalError::sync("the data directory", source))?;
    let starts = segment::list(&*disk)?;
    expect_all_segments(&*disk, &starts)?;
    let found = match starts.last() {
        None => FoundEnd::nothing(options.identity),
        Some(start) => FoundEnd::read(&*disk, *start, Access::Write)?,
    };
    if found.end.last_seq < options.known_durable_seq {
        let (file, offset) =
            found.last.as_ref().map_or((DIRECTORY, 0), |last| (&*last.current.path, last.current.offset));
        return Err(JournalError::damaged(file, offset, Damage::Missing(found.end.last_seq + 1)));
    }
    if let Some(last) = &found.last {
        last.settle(found.torn.as_ref())?;
    }
    disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
    let recovered = found.recovered(&starts);
    let current = found.last.map(|last| last.current);
    Ok(OpenedJournal { recovered, writer: Writer::new(disk, options, found.end, current) })
}

/// Reads and verifies every record of a journal without a writer. Changes nothing.
pub fn verify(disk: Arc<dyn Disk>) -> Result<RecoveredJournal, JournalError> {
    let starts = segment::list(&*disk)?;
    expect_all_segments(&*disk, &starts)?;
    let found = match starts.last() {
        None => FoundEnd::nothing(0),
        Some(start) => FoundEnd::read(&*disk, *start, Access::Read)?,
    };
    let recovered = found.recovered(&starts);
    let mut reader = Reader::new(disk, recovered.first_seq.max(1));
    while reader.next_record(END)?.is_some() {}
    if reader.next_seq() != recovered.last_seq + 1 {
        let file = segment::path(reader.next_seq());
        return Err(JournalError::damaged(&file, 0, Damage::Missing(reader.next_seq())));
    }
    Ok(recovered)
}

/// The written part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// End of the valid content, in bytes from the segment's start. From there to the segment's length there are zeros
    /// or a batch in flight.
    pub bytes: u64,
    /// Length of the segment, in bytes.
    pub length: u64,
    /// The last record in the segment.
    pub last_seq: u64,
    /// The time of that record.
    pub last_time_ns: i64,
}

/// Returns the written part of the segment that begins with `first_seq`, after verifying every frame. Data within the
/// extent never changes, so the extent and a copy of that many bytes form a backup of a journal that is being written.
/// A batch that is being written at the same time may be included or not, as after a crash.
pub fn extent(disk: &dyn Disk, first_seq: u64) -> Result<Extent, JournalError> {
    let FoundEnd { end, last, .. } = FoundEnd::read(disk, first_seq, Access::Read)?;
    let (bytes, length) = last.map_or((0, 0), |last| (last.current.offset, last.current.length));
    Ok(Extent { bytes, length, last_seq: end.last_seq, last_time_ns: end.last_time_ns })
}

/// The header for a copy of a segment without its free space, which is half a segment on average. Backups contain such
/// copies.
pub fn header_without_free_room(
    disk: &dyn Disk,
    first_seq: u64,
    extent: Extent,
) -> Result<[u8; SECTOR_BYTES], JournalError> {
    let (_, header) = segment::open(disk, first_seq, Access::Read)?;
    Ok(SegmentHeader { length_bytes: extent.bytes, ..header }.encode())
}

/// Verifies every segment's header, that no segment is foreign, and that none is missing between two others.
fn expect_all_segments(disk: &dyn Disk, starts: &[u64]) -> Result<(), JournalError> {
    let mut previous = None;
    for start in starts {
        let (_, header) = segment::open(disk, *start, Access::Read)?;
        if let Some((previous, identity)) = previous {
            if header.identity != identity {
                return Err(JournalError::damaged(&segment::path(*start), 0, Damage::Foreign));
            }
            if header.previous_first_seq != previous {
                let reason = Damage::Missing(header.previous_first_seq);
                return Err(JournalError::damaged(&segment::path(header.previous_first_seq), 0, reason));
            }
        }
        previous = Some((*start, header.identity));
    }
    Ok(())
}

/// The end of a journal as found on the disk.
struct FoundEnd {
    end: JournalEnd,
    last: Option<LastSegment>,
    torn: Option<TornTail>,
}

struct LastSegment {
    current: Current,
    /// Offset of the last valid frame.
    last_frame: u64,
}

impl FoundEnd {
    fn nothing(identity: u64) -> Self {
        Self { end: JournalEnd { last_seq: 0, last_time_ns: 0, chain: 0, identity }, last: None, torn: None }
    }

    fn read(disk: &dyn Disk, first_seq: u64, access: Access) -> Result<Self, JournalError> {
        let mut cursor = Cursor::open(disk, first_seq, access)?;
        let mut last_frame = cursor.offset();
        let ending = loop {
            let header = match cursor.peek()? {
                CursorContent::Frame(header) => header,
                CursorContent::Nothing => break None,
                CursorContent::Invalid(damage) => break Some(damage),
            };
            let offset = cursor.offset();
            if let Some(damage) = cursor.load(&header)? {
                break Some(damage);
            }
            last_frame = offset;
        };
        let torn = tail::judge(&cursor, ending)?;
        let end = JournalEnd {
            last_seq: cursor.next_seq() - 1,
            last_time_ns: cursor.last_time_ns(),
            chain: cursor.chain(),
            identity: cursor.header.identity,
        };
        let current = Current {
            first_seq,
            offset: cursor.offset(),
            length: cursor.header.length_bytes,
            soiled_end: cursor.offset(),
            file: cursor.file,
            path: cursor.path,
        };
        Ok(Self { end, last: Some(LastSegment { current, last_frame }), torn })
    }

    fn recovered(&self, starts: &[u64]) -> RecoveredJournal {
        RecoveredJournal {
            first_seq: starts.first().copied().unwrap_or(0),
            last_seq: self.end.last_seq,
            last_time_ns: self.end.last_time_ns,
            chain: self.end.chain,
            segments: starts.len(),
            torn: self.torn.clone(),
        }
    }
}

impl LastSegment {
    /// Makes the recovered records durable and removes a torn tail.
    ///
    /// The last frame may be only in the page cache: its process was killed before the sync, or the sync failed. After
    /// a failed sync the system may treat the pages as clean although they never reached the disk. The frame is
    /// therefore written again, with the same bytes, and synced.
    fn settle(&self, torn: Option<&TornTail>) -> Result<(), JournalError> {
        let Current { path, file, offset, .. } = &self.current;
        let mut frame = vec![0; (offset - self.last_frame) as usize];
        file.read_at(self.last_frame, &mut frame).map_err(|source| JournalError::io("read", path, source))?;
        file.write_at(self.last_frame, &frame).map_err(|source| JournalError::io("write", path, source))?;
        match torn {
            Some(tail) => scrub(&**file, path, tail.offset, tail.offset + tail.bytes),
            None => file.sync().map_err(|source| JournalError::sync(path, source)),
        }
    }
}

//! Opens a journal after whatever happened to it.

use std::sync::Arc;

use crate::cursor::{Cursor, Peek};
use crate::disk::{Access, Disk};
use crate::error::{Damage, JournalError};
use crate::frame::SECTOR_BYTES;
use crate::reader::{END, Reader};
use crate::segment::{self, DIRECTORY, SegmentHeader};
use crate::tail::{self, TornTail};
use crate::writer::{Current, End, Options, Writer, scrub};

/// What a journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The oldest record's sequence number; 0 when there is none.
    pub first_seq: u64,
    /// The newest record's sequence number; 0 when there is none.
    pub last_seq: u64,
    /// The newest record's time; 1970 when there is none.
    pub last_time_ns: i64,
    /// The chain value of the newest frame: two journals with the same value have the same content.
    pub chain: u64,
    /// How many segments there are.
    pub segments: usize,
    /// What was left of a batch that was never acknowledged.
    pub torn: Option<TornTail>,
}

/// An open journal.
#[derive(Debug)]
pub struct Opened {
    /// What was found.
    pub recovered: Recovered,
    /// Continues behind it.
    pub writer: Writer,
}

/// Opens the journal of a data directory for writing, making an empty one if there is none.
///
/// All segment headers and every frame of the last segment are verified, a torn tail is removed; the frames of earlier
/// segments are verified when they are read. What was found is made durable before this returns, so that it can be
/// acted upon. On damage nothing is changed.
pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Opened, JournalError> {
    disk.create_directory(DIRECTORY).map_err(|source| JournalError::io("create", DIRECTORY, source))?;
    disk.sync_directory("").map_err(|source| JournalError::sync("the data directory", source))?;
    let starts = segment::list(&*disk)?;
    expect_all_segments(&*disk, &starts)?;
    let found = match starts.last() {
        None => Found::nothing(options.identity),
        Some(start) => Found::read(&*disk, *start, Access::Write)?,
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
    Ok(Opened { recovered, writer: Writer::new(disk, options, found.end, current) })
}

/// Reads and verifies every record of a journal that nobody writes to, changing nothing.
pub fn verify(disk: Arc<dyn Disk>) -> Result<Recovered, JournalError> {
    let starts = segment::list(&*disk)?;
    expect_all_segments(&*disk, &starts)?;
    let found = match starts.last() {
        None => Found::nothing(0),
        Some(start) => Found::read(&*disk, *start, Access::Read)?,
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

/// How much of a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// What counts ends here, in bytes from the segment's beginning; up to its length there are zeros, or a batch in
    /// flight.
    pub bytes: u64,
    /// Its length, in bytes.
    pub length: u64,
    /// The last record in it.
    pub last_seq: u64,
    /// That record's time.
    pub last_time_ns: i64,
}

/// How far the segment that begins with `first_seq` is written, every frame verified. What lies within the extent never
/// changes again, so this and a copy of so many bytes make a backup of a journal that is being written. A batch that is
/// being written meanwhile may be within it or not, as after a crash.
pub fn extent(disk: &dyn Disk, first_seq: u64) -> Result<Extent, JournalError> {
    let Found { end, last, .. } = Found::read(disk, first_seq, Access::Read)?;
    let (bytes, length) = last.map_or((0, 0), |last| (last.current.offset, last.current.length));
    Ok(Extent { bytes, length, last_seq: end.last_seq, last_time_ns: end.last_time_ns })
}

/// The header of a copy of a segment without its free room, which is half a segment on average. Backups have such
/// copies.
pub fn header_without_free_room(
    disk: &dyn Disk,
    first_seq: u64,
    extent: Extent,
) -> Result<[u8; SECTOR_BYTES], JournalError> {
    let (_, header) = segment::open(disk, first_seq, Access::Read)?;
    Ok(SegmentHeader { length_bytes: extent.bytes, ..header }.encode())
}

/// Verifies every segment's header, and that no segment is foreign, or missing between two others.
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

/// The end of a journal as it lies on the disk.
struct Found {
    end: End,
    last: Option<LastSegment>,
    torn: Option<TornTail>,
}

struct LastSegment {
    current: Current,
    /// Where the last valid frame begins.
    last_frame: u64,
}

impl Found {
    fn nothing(identity: u64) -> Self {
        Self { end: End { last_seq: 0, last_time_ns: 0, chain: 0, identity }, last: None, torn: None }
    }

    fn read(disk: &dyn Disk, first_seq: u64, access: Access) -> Result<Self, JournalError> {
        let mut cursor = Cursor::open(disk, first_seq, access)?;
        let mut last_frame = cursor.offset();
        let ending = loop {
            let header = match cursor.peek()? {
                Peek::Frame(header) => header,
                Peek::Nothing => break None,
                Peek::Invalid(damage) => break Some(damage),
            };
            let offset = cursor.offset();
            if let Some(damage) = cursor.load(&header)? {
                break Some(damage);
            }
            last_frame = offset;
        };
        let torn = tail::judge(&cursor, ending)?;
        let end = End {
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

    fn recovered(&self, starts: &[u64]) -> Recovered {
        Recovered {
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
    /// Makes what was found durable, and removes a torn tail.
    ///
    /// The last frame may be in the page cache only: its process was killed before the sync, or the sync failed and the
    /// system now takes the pages for clean although they never reached the disk. So it is written again, with the
    /// bytes that are there, and synced.
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

//! Walks the frames of one segment and verifies each frame against its predecessor.

use std::sync::Arc;

use crate::aligned::AlignedBytes;
use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Damage, JournalError};
use crate::frame::{self, FrameHeader, HEADER_BYTES, RECORD_HEADER_BYTES, SECTOR_BYTES};
use crate::segment::{self, SegmentHeader};

/// Bytes per read. A larger frame needs a longer read.
const READ_BYTES: usize = 256 * 1024;
/// A window larger than this is freed after a huge frame.
const WINDOW_BYTES_KEPT_MAX: usize = 8 * 1024 * 1024;
/// Distance in bytes between the remembered positions where a walk can restart.
const MARK_DISTANCE_BYTES: u64 = 256 * 1024;

/// The content at the cursor.
pub(crate) enum CursorContent {
    /// A valid frame header that continues the sequence.
    Frame(FrameHeader),
    /// Free space, or the end of the segment.
    Nothing,
    /// Content that is neither a valid frame nor free space.
    Invalid(Damage),
}

/// The position of a record in the loaded frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub time_ns: i64,
    start: usize,
    end: usize,
}

/// A position between two frames.
#[derive(Clone, Copy, Debug)]
struct FrameBoundary {
    offset: u64,
    next_seq: u64,
    chain: u64,
    last_time_ns: i64,
}

/// A position in a segment, with the most recently loaded frame.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub path: String,
    pub file: Arc<dyn DiskFile>,
    pub header: SegmentHeader,
    access: Access,
    at: FrameBoundary,
    marks: Vec<FrameBoundary>,
    /// Bytes of the file from `window_start` on. The loaded frame is unmasked in place.
    window: AlignedBytes,
    window_start: u64,
    window_filled: usize,
    loaded_first_seq: u64,
    entries: Vec<Entry>,
}

impl Cursor {
    /// Opens the segment that begins with `first_seq` and positions the cursor before its first frame.
    pub fn open(disk: &dyn Disk, first_seq: u64, access: Access) -> Result<Self, JournalError> {
        let (file, header) = segment::open(disk, first_seq, access)?;
        let start = FrameBoundary {
            offset: SECTOR_BYTES as u64,
            next_seq: header.first_seq,
            chain: header.previous_chain,
            last_time_ns: header.previous_time_ns,
        };
        Ok(Self {
            path: segment::path(first_seq),
            file,
            header,
            access,
            at: start,
            marks: vec![start],
            window: AlignedBytes::default(),
            window_start: 0,
            window_filled: 0,
            loaded_first_seq: 0,
            entries: Vec::new(),
        })
    }

    /// Opens another segment with the same access. The new cursor takes over this cursor's memory; this cursor must
    /// reload its frame before further use.
    pub fn open_another(&mut self, disk: &dyn Disk, first_seq: u64) -> Result<Self, JournalError> {
        let mut next = Self::open(disk, first_seq, self.access)?;
        self.entries.clear();
        self.forget_window();
        if self.window.len() <= WINDOW_BYTES_KEPT_MAX {
            std::mem::swap(&mut self.window, &mut next.window);
        }
        std::mem::swap(&mut self.entries, &mut next.entries);
        Ok(next)
    }

    /// Offset of the next frame, in bytes.
    pub fn offset(&self) -> u64 {
        self.at.offset
    }

    /// The sequence number after the last frame that the cursor passed.
    pub fn next_seq(&self) -> u64 {
        self.at.next_seq
    }

    /// The chain value of the last frame that the cursor passed.
    pub fn chain(&self) -> u64 {
        self.at.chain
    }

    /// The time of the last record that the cursor passed.
    pub fn last_time_ns(&self) -> i64 {
        self.at.last_time_ns
    }

    /// Discards bytes that were read ahead, because the file may have changed since.
    pub fn forget_window(&mut self) {
        self.window_filled = 0;
    }

    /// Reads the next frame's header without moving.
    pub fn peek(&mut self) -> Result<CursorContent, JournalError> {
        let room = self.header.length_bytes.saturating_sub(self.at.offset);
        if room < SECTOR_BYTES as u64 {
            return Ok(CursorContent::Nothing);
        }
        let identity = self.header.identity;
        let sector = self.bytes(SECTOR_BYTES)?;
        if frame::is_zero(sector) {
            return Ok(CursorContent::Nothing);
        }
        let header = match FrameHeader::decode(sector, identity) {
            Ok(header) => header,
            Err(damage) => return Ok(CursorContent::Invalid(damage)),
        };
        Ok(match self.check(&header, room) {
            None => CursorContent::Frame(header),
            Some(damage) => CursorContent::Invalid(damage),
        })
    }

    fn check(&self, header: &FrameHeader, room: u64) -> Option<Damage> {
        if header.first_seq != self.at.next_seq {
            Some(Damage::Sequence { expected: self.at.next_seq, found: header.first_seq })
        } else if header.previous_chain != self.at.chain {
            Some(Damage::Chain)
        } else if header.first_time_ns <= self.at.last_time_ns || header.last_time_ns < header.first_time_ns {
            Some(Damage::Time)
        } else if header.record_count == 0 || header.frame_bytes() > room {
            Some(Damage::Malformed)
        } else {
            None
        }
    }

    /// Moves past the frame without reading its body.
    pub fn skip(&mut self, header: &FrameHeader) {
        self.at = FrameBoundary {
            offset: self.at.offset + header.frame_bytes(),
            next_seq: header.next_seq(),
            chain: header.chain(),
            last_time_ns: header.last_time_ns,
        };
        let last = self.marks.last().map_or(0, |mark| mark.offset);
        if self.at.offset >= last + MARK_DISTANCE_BYTES {
            self.marks.push(self.at);
        }
    }

    /// Reads and verifies the frame and moves past it; its records are then available. If the frame is damaged, the
    /// cursor does not move.
    pub fn load(&mut self, header: &FrameHeader) -> Result<Option<Damage>, JournalError> {
        self.entries.clear();
        let length = header.frame_bytes() as usize;
        self.bytes(length)?;
        let base = (self.at.offset - self.window_start) as usize;
        let stored = &mut self.window[base + HEADER_BYTES..base + length];
        if frame::unmask(stored, header.mask) != header.body_crc {
            self.forget_window();
            return Ok(Some(Damage::Checksum));
        }
        if !self.index(header, base + HEADER_BYTES) {
            self.entries.clear();
            self.forget_window();
            return Ok(Some(Damage::Malformed));
        }
        self.loaded_first_seq = header.first_seq;
        self.skip(header);
        Ok(None)
    }

    /// Records the position of each record. Returns false if the body does not consist of the records that the header
    /// states.
    fn index(&mut self, header: &FrameHeader, start: usize) -> bool {
        let end = start + header.body_bytes as usize;
        let mut at = start;
        let mut last_time_ns = None;
        while at < end {
            if end - at < RECORD_HEADER_BYTES {
                return false;
            }
            let length = frame::u32_at(&self.window, at) as usize;
            let time_ns = frame::u64_at(&self.window, at + 4) as i64;
            at += RECORD_HEADER_BYTES;
            if length > end - at || last_time_ns.is_some_and(|last| time_ns <= last) {
                return false;
            }
            self.entries.push(Entry { time_ns, start: at, end: at + length });
            at += length;
            last_time_ns = Some(time_ns);
        }
        self.entries.len() == header.record_count as usize
            && self.entries.first().is_some_and(|entry| entry.time_ns == header.first_time_ns)
            && last_time_ns == Some(header.last_time_ns)
    }

    /// The record's position in the loaded frame, if the frame contains it.
    pub fn entry(&self, seq: u64) -> Option<Entry> {
        let index = usize::try_from(seq.checked_sub(self.loaded_first_seq)?).ok()?;
        self.entries.get(index).copied()
    }

    /// The bytes of a record in the loaded frame.
    pub fn record(&self, entry: Entry) -> &[u8] {
        &self.window[entry.start..entry.end]
    }

    /// Goes back, if necessary, to the nearest remembered position whose forward walk reaches `seq`.
    pub fn rewind(&mut self, seq: u64) {
        if self.at.next_seq <= seq {
            return;
        }
        let place = self.marks.partition_point(|mark| mark.next_seq <= seq).max(1) - 1;
        self.at = self.marks[place];
        self.entries.clear();
        self.forget_window();
    }

    /// Returns `length` bytes from the cursor on. Bytes beyond the end of the file read as zeros.
    fn bytes(&mut self, length: usize) -> Result<&[u8], JournalError> {
        let offset = self.at.offset;
        let filled_end = self.window_start + self.window_filled as u64;
        let kept = if offset >= self.window_start { filled_end.saturating_sub(offset) as usize } else { 0 };
        if kept < length {
            self.fill(offset, kept, length)?;
        }
        let base = (offset - self.window_start) as usize;
        Ok(&self.window[base..base + length])
    }

    fn fill(&mut self, offset: u64, kept: usize, length: usize) -> Result<(), JournalError> {
        // Moving the window invalidates the loaded frame.
        self.entries.clear();
        let wanted = length.max(READ_BYTES.min((self.header.length_bytes - offset) as usize));
        if kept > 0 {
            let base = (offset - self.window_start) as usize;
            self.window.copy_within(base..base + kept, 0);
        }
        self.window.grow(wanted);
        self.window_start = offset;
        self.window_filled = 0;
        let read = self
            .file
            .read_at(offset + kept as u64, &mut self.window[kept..wanted])
            .map_err(|source| JournalError::io("read", &self.path, source))?;
        self.window[kept + read..wanted].fill(0);
        self.window_filled = wanted;
        Ok(())
    }
}

//! Distinguishes a torn tail, which a crash leaves, from damage, which must stop the hub.

use crate::cursor::Cursor;
use crate::error::{Damage, JournalError};
use crate::frame::{self, FrameHeader, SECTOR_BYTES};

const CHUNK_BYTES: usize = 64 * 1024;

/// The remains of a batch that was being written when the process or the machine stopped. It was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment, relative to the data directory.
    pub file: String,
    /// Offset of the remains, in bytes.
    pub offset: u64,
    /// Length of the remains, in bytes.
    pub bytes: u64,
}

/// Judges the data after the last valid frame of the last segment. `ending` is the damage found there, or `None` if the
/// space is free.
///
/// Only one frame is in flight at a time, and it is written into zeroed space. The data is therefore a torn write
/// exactly if at least one of its sectors was not completely written and no valid frame follows. All other data was
/// once complete.
pub(crate) fn judge(cursor: &Cursor, ending: Option<Damage>) -> Result<Option<TornTail>, JournalError> {
    let at = cursor.offset();
    let damaged = |offset: u64, reason| Err(JournalError::damaged(&cursor.path, offset, reason));
    if cursor.next_seq() == cursor.header.first_seq {
        // A segment gets its name only after its first frame is durable.
        return damaged(at, ending.unwrap_or(Damage::Missing(cursor.next_seq())));
    }
    let remains = TailContent::read(cursor)?;
    let Some(used_end) = remains.used_end else { return Ok(None) };
    if let Some(offset) = remains.later_frame {
        return damaged(offset, Damage::FrameLost);
    }
    match (ending, remains.header) {
        (Some(Damage::Checksum), Some(header)) => {
            let end = at + header.frame_bytes();
            if used_end > end {
                return damaged(end, Damage::DataAfterEnd);
            }
            if remains.first_unwritten.is_none_or(|offset| offset >= end) {
                return damaged(at, Damage::Checksum);
            }
        }
        (Some(_), None) if remains.first_unwritten == Some(at) => {}
        (None, _) => {}
        (Some(reason), _) => return damaged(at, reason),
    }
    Ok(Some(TornTail { file: cursor.path.clone(), offset: at, bytes: used_end - at }))
}

/// The data between the cursor and the end of the file.
struct TailContent {
    /// The header at the cursor, if its checksum is correct.
    header: Option<FrameHeader>,
    /// The end of the last sector that is not all zeros.
    used_end: Option<u64>,
    /// The first sector whose end is zero.
    first_unwritten: Option<u64>,
    /// Offset of a frame header further on.
    later_frame: Option<u64>,
}

impl TailContent {
    fn read(cursor: &Cursor) -> Result<Self, JournalError> {
        let mut remains = Self { header: None, used_end: None, first_unwritten: None, later_frame: None };
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = cursor.offset();
        while offset < cursor.header.length_bytes {
            let length = (cursor.header.length_bytes - offset).min(CHUNK_BYTES as u64) as usize;
            chunk.fill(0);
            cursor
                .file
                .read_at(offset, &mut chunk[..length])
                .map_err(|source| JournalError::io("read", &cursor.path, source))?;
            for sector in chunk[..length].chunks_exact(SECTOR_BYTES) {
                remains.note(cursor, offset, sector);
                offset += SECTOR_BYTES as u64;
            }
            if !length.is_multiple_of(SECTOR_BYTES) {
                break;
            }
        }
        Ok(remains)
    }

    fn note(&mut self, cursor: &Cursor, offset: u64, sector: &[u8]) {
        if frame::is_unwritten(sector) && self.first_unwritten.is_none() {
            self.first_unwritten = Some(offset);
        }
        if frame::is_zero(sector) {
            return;
        }
        self.used_end = Some(offset + SECTOR_BYTES as u64);
        let Ok(header) = FrameHeader::decode(sector, cursor.header.identity) else { return };
        if offset == cursor.offset() {
            self.header = Some(header);
        } else if header.first_seq >= cursor.next_seq() && self.later_frame.is_none() {
            self.later_frame = Some(offset);
        }
    }
}

/// Verifies that the free space after the last frame of a closed segment was never written.
pub(crate) fn expect_zeros(cursor: &Cursor) -> Result<(), JournalError> {
    match TailContent::read(cursor)?.used_end {
        None => Ok(()),
        Some(end) => {
            let offset = end - SECTOR_BYTES as u64;
            Err(JournalError::damaged(&cursor.path, offset, Damage::DataAfterEnd))
        }
    }
}

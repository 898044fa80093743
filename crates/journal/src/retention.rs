//! Lists segments and deletes those that nobody needs any more; which these are is decided above.

use crate::disk::{Access, Disk};
use crate::error::JournalError;
use crate::segment::{self, DIRECTORY};

/// A segment of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The file, relative to the data directory.
    pub file: String,
    /// Its first record's sequence number.
    pub first_seq: u64,
    /// Its last record's; `None` for the segment that is being written.
    pub last_seq: Option<u64>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The segments, oldest first.
pub fn segments(disk: &dyn Disk) -> Result<Vec<SegmentInfo>, JournalError> {
    let starts = segment::list(disk)?;
    let mut infos = Vec::with_capacity(starts.len());
    for (index, first_seq) in starts.iter().copied().enumerate() {
        let (_, header) = segment::open(disk, first_seq, Access::Read)?;
        infos.push(SegmentInfo {
            file: segment::path(first_seq),
            first_seq,
            last_seq: starts.get(index + 1).map(|next| next - 1),
            bytes: header.length_bytes,
        });
    }
    Ok(infos)
}

/// Deletes the segments that hold only records before `seq`, oldest first; the last segment always stays. Returns how
/// many were deleted. A failure leaves a journal without a gap.
pub fn delete_segments_below(disk: &dyn Disk, seq: u64) -> Result<usize, JournalError> {
    let starts = segment::list(disk)?;
    let mut deleted = 0;
    for pair in starts.windows(2).take_while(|pair| pair[1] <= seq) {
        let path = segment::path(pair[0]);
        disk.remove(&path).map_err(|source| JournalError::io("remove", &path, source))?;
        // One by one, so that no power loss can keep an older segment and lose a newer.
        disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
        deleted += 1;
    }
    Ok(deleted)
}

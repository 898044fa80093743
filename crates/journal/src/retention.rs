//! Lists segments, and deletes old ones. The caller decides which segments are still needed.

use crate::disk::{Access, Disk};
use crate::error::JournalError;
use crate::segment::{self, DIRECTORY};

/// A segment of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The file, relative to the data directory.
    pub file: String,
    /// The sequence number of its first record.
    pub first_seq: u64,
    /// The sequence number of its last record; `None` for the segment that is being written.
    pub last_seq: Option<u64>,
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

/// Deletes the segments that contain only records before `seq`, oldest first. The last segment is never deleted.
/// Returns the number of deleted segments. A failure leaves a journal without a gap.
pub fn delete_segments_below(disk: &dyn Disk, seq: u64) -> Result<usize, JournalError> {
    let starts = segment::list(disk)?;
    let mut deleted = 0;
    for pair in starts.windows(2).take_while(|pair| pair[1] <= seq) {
        let path = segment::path(pair[0]);
        disk.remove(&path).map_err(|source| JournalError::io("remove", &path, source))?;
        // Synced one by one, so that a power loss cannot keep an older segment and lose a newer one.
        disk.sync_directory(DIRECTORY).map_err(|source| JournalError::sync(DIRECTORY, source))?;
        deleted += 1;
    }
    Ok(deleted)
}

//! The segment: a file of fixed length that contains consecutive frames after a header of one sector.

use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile};
use crate::error::{Damage, JournalError};
use crate::frame::{SECTOR_BYTES, u32_at, u64_at};

/// The directory of the segments, relative to the data directory.
pub(crate) const DIRECTORY: &str = "journal";
/// The prepared next segment, before its first sequence number is known.
pub(crate) const PREPARED: &str = "journal/prepared.tmp";

const SUFFIX: &str = ".seg";
const MAGIC: &[u8; 8] = b"UPESISEG";
const VERSION: u32 = 1;
const CRC_AT: usize = SECTOR_BYTES - 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The journal's identity, the same in all its segments.
    pub identity: u64,
    pub first_seq: u64,
    /// The chain value of the last frame of the preceding segment; 0 in the first segment.
    pub previous_chain: u64,
    /// The time of the last record of the preceding segment.
    pub previous_time_ns: i64,
    pub length_bytes: u64,
    /// The first record of the preceding segment; 0 if there is none. It reveals a missing file immediately.
    pub previous_first_seq: u64,
}

impl SegmentHeader {
    /// The header as the first sector of a segment.
    pub fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.previous_chain.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_time_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.length_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.previous_first_seq.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.identity.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SECTOR_BYTES]) -> Result<Self, Damage> {
        if &bytes[0..8] != MAGIC || crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
            return Err(Damage::FileHeader);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(Damage::UnknownVersion(version));
        }
        let first_seq = u64_at(bytes, 16);
        // Records are numbered from 1; 0 means none.
        if first_seq == 0 {
            return Err(Damage::FileHeader);
        }
        Ok(Self {
            first_seq,
            previous_chain: u64_at(bytes, 24),
            previous_time_ns: u64_at(bytes, 32) as i64,
            length_bytes: u64_at(bytes, 40),
            previous_first_seq: u64_at(bytes, 48),
            identity: u64_at(bytes, 56),
        })
    }
}

/// The path of the segment that begins with `first_seq`.
pub(crate) fn path(first_seq: u64) -> String {
    format!("{DIRECTORY}/{first_seq:020}{SUFFIX}")
}

/// The first sequence numbers of the segments, ascending. Files with other names are ignored.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u64>, JournalError> {
    let names = disk.list(DIRECTORY).map_err(|source| JournalError::io("list", DIRECTORY, source))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| number_of(name, SUFFIX)).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// The number in a file name that consists of exactly twenty digits and the suffix.
pub(crate) fn number_of(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Opens a segment and verifies its header against its name and its length.
pub(crate) fn open(
    disk: &dyn Disk,
    first_seq: u64,
    access: Access,
) -> Result<(Arc<dyn DiskFile>, SegmentHeader), JournalError> {
    let path = path(first_seq);
    let file = disk.open(&path, access).map_err(|source| JournalError::io("open", &path, source))?;
    let mut sector = [0; SECTOR_BYTES];
    file.read_at(0, &mut sector).map_err(|source| JournalError::io("read", &path, source))?;
    let header = SegmentHeader::decode(&sector).map_err(|reason| JournalError::damaged(&path, 0, reason))?;
    if header.first_seq != first_seq {
        return Err(JournalError::damaged(&path, 0, Damage::FileHeader));
    }
    let found = file.length().map_err(|source| JournalError::io("stat", &path, source))?;
    if found != header.length_bytes {
        let reason = Damage::Length { expected: header.length_bytes, found };
        return Err(JournalError::damaged(&path, found.min(header.length_bytes), reason));
    }
    Ok((file, header))
}

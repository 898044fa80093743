//! The frame: the form of one batch of records on the disk.
//!
//! A frame is a header of 64 bytes, the body, and padding up to a whole number of sectors. A frame never overwrites
//! another frame, and free space is zeros. A sector whose end is still zero was therefore never written. To guarantee
//! this, the last eight bytes of every sector of a frame have at least [`TAIL_BITS_MIN`] bits set. For this reason the
//! padding is not zero, and a body that would break the rule is stored masked.

use crate::error::Damage;

/// The unit that a disk writes completely or not at all, in bytes. Frames start and end at its multiples.
pub const SECTOR_BYTES: usize = 512;
/// Largest body of a frame, and so of a batch, in bytes.
pub const FRAME_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const RECORD_HEADER_BYTES: usize = 12;

const MAGIC: [u8; 4] = [0xf5, b'U', b'J', 0x00];
const VERSION: u16 = 1;
const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];
const PADDING: u8 = 0x5a;
/// Length of the end of a sector that shows whether the sector was written.
pub(crate) const TAIL_BYTES: usize = 8;
/// Number of bits of one sector that would have to flip before a written sector looks unwritten.
const TAIL_BITS_MIN: u32 = 8;
/// Bytes that are masked and summed in one step. The step fits the innermost cache and is a whole number of sectors.
const CACHED_BYTES: usize = 24 * 1024;
const _: () = assert!(CACHED_BYTES.is_multiple_of(SECTOR_BYTES));
const MASK_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub record_count: u32,
    pub body_bytes: u32,
    pub first_seq: u64,
    pub first_time_ns: i64,
    pub last_time_ns: i64,
    /// The chain value of the preceding frame.
    pub previous_chain: u64,
    /// Value that is combined by exclusive-or with the body, in words of eight bytes; 0 if the body is stored unmasked.
    pub mask: u64,
    /// CRC-32C of everything after the header, as stored, including padding.
    pub body_crc: u32,
    /// CRC-32C of the journal's identity and the header bytes before this field.
    pub header_crc: u32,
}

impl FrameHeader {
    /// Length of the whole frame in bytes, a multiple of the sector size.
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(self.body_bytes as usize) as u64
    }

    /// The chain value that the next frame must carry. It consists of both checksums; the header's checksum covers the
    /// previous chain value.
    pub fn chain(&self) -> u64 {
        u64::from(self.header_crc) << 32 | u64::from(self.body_crc)
    }

    /// The sequence number after this frame's last record.
    pub fn next_seq(&self) -> u64 {
        self.first_seq + u64::from(self.record_count)
    }

    fn encode(&mut self, identity: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.record_count.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_time_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last_time_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous_chain.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.mask.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.body_crc.to_le_bytes());
        self.header_crc = header_crc(&bytes, identity);
        bytes[60..64].copy_from_slice(&self.header_crc.to_le_bytes());
        bytes
    }

    /// Reads a header of the journal with this identity. Magic, version and checksum are verified; the values are not.
    pub fn decode(bytes: &[u8], identity: u64) -> Result<Self, Damage> {
        let header_crc = u32_at(bytes, 60);
        if bytes[0..4] != MAGIC || self::header_crc(bytes, identity) != header_crc {
            return Err(Damage::FrameHeader);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(Damage::UnknownVersion(u32::from(version)));
        }
        Ok(Self {
            record_count: u32_at(bytes, 8),
            body_bytes: u32_at(bytes, 12),
            first_seq: u64_at(bytes, 16),
            first_time_ns: u64_at(bytes, 24) as i64,
            last_time_ns: u64_at(bytes, 32) as i64,
            previous_chain: u64_at(bytes, 40),
            mask: u64_at(bytes, 48),
            body_crc: u32_at(bytes, 56),
            header_crc,
        })
    }
}

/// The checksum of a header covers the journal's identity. The content of a record, or a frame of another journal, is
/// therefore never mistaken for a frame of this journal.
fn header_crc(header: &[u8], identity: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&identity.to_le_bytes()), &header[..60])
}

/// Length of a frame whose body has `body_bytes`, in bytes.
pub(crate) fn frame_bytes(body_bytes: usize) -> usize {
    (HEADER_BYTES + body_bytes).next_multiple_of(SECTOR_BYTES)
}

/// Completes a frame in `buffer`, which holds space for the header and then the body from `start` on. Adds padding,
/// masks if necessary, and writes the header. Returns the header.
pub(crate) fn seal(
    buffer: &mut Vec<u8>,
    start: usize,
    mut header: FrameHeader,
    identity: u64,
) -> FrameHeader {
    let unpadded = buffer.len() - start;
    header.body_bytes = u32::try_from(unpadded - HEADER_BYTES).unwrap_or(u32::MAX);
    assert!(header.body_bytes as usize <= FRAME_BODY_BYTES_MAX, "a batch exceeds the largest frame");
    buffer.resize(start + unpadded.next_multiple_of(SECTOR_BYTES), PADDING);
    let frame = &mut buffer[start..];
    header.mask = choose_mask(frame);
    header.body_crc = mask(&mut frame[HEADER_BYTES..], header.mask);
    frame[..HEADER_BYTES].copy_from_slice(&header.encode(identity));
    header
}

/// Returns the first mask of a fixed sequence that leaves enough bits in the end of every sector. There always is one:
/// each sector excludes fewer than 2³⁰ of the 2⁶⁴ masks.
fn choose_mask(frame: &[u8]) -> u64 {
    let mut mask = 0_u64;
    while !frame.chunks_exact(SECTOR_BYTES).all(|sector| (tail(sector) ^ mask).count_ones() >= TAIL_BITS_MIN)
    {
        mask = mask.wrapping_add(MASK_STEP);
    }
    mask
}

/// Masks a body and its padding. Returns the checksum of the masked body.
///
/// Bodies of large batches do not fit the cache, so each block is masked and then summed immediately.
fn mask(body: &mut [u8], mask: u64) -> u32 {
    let blocks = body.chunks_mut(CACHED_BYTES);
    blocks.fold(0, |crc, block| {
        apply_mask(block, mask);
        crc32c::crc32c_append(crc, block)
    })
}

/// Restores a masked body and its padding. Returns the checksum of the masked body.
pub(crate) fn unmask(body: &mut [u8], mask: u64) -> u32 {
    let blocks = body.chunks_mut(CACHED_BYTES);
    blocks.fold(0, |crc, block| {
        let crc = crc32c::crc32c_append(crc, block);
        apply_mask(block, mask);
        crc
    })
}

/// Combines bytes with the mask. A second call restores them.
fn apply_mask(body: &mut [u8], mask: u64) {
    if mask == 0 {
        return;
    }
    // Header and sector sizes are multiples of eight, so the words align with the ends of the sectors.
    for word in body.chunks_exact_mut(TAIL_BYTES) {
        let masked = u64_at(word, 0) ^ mask;
        word.copy_from_slice(&masked.to_le_bytes());
    }
}

/// Whether a sector was never written, according to its end.
pub(crate) fn is_unwritten(sector: &[u8]) -> bool {
    tail(sector) == 0
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(SECTOR_BYTES).all(|sector| *sector == ZEROS[..sector.len()])
}

fn tail(sector: &[u8]) -> u64 {
    u64_at(sector, SECTOR_BYTES - TAIL_BYTES)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks only affect speed: checksum and mask apply to the whole body.
    #[test]
    fn a_body_of_many_blocks_is_masked_and_summed_as_one() {
        for sectors in [1, CACHED_BYTES / SECTOR_BYTES, 2 * CACHED_BYTES / SECTOR_BYTES + 3] {
            let body: Vec<u8> = (0..sectors * SECTOR_BYTES - HEADER_BYTES).map(|at| (at / 3) as u8).collect();
            for mask_word in [0, MASK_STEP] {
                let mut whole = body.clone();
                apply_mask(&mut whole, mask_word);
                assert_eq!(whole == body, mask_word == 0);
                let mut masked = body.clone();
                assert_eq!(mask(&mut masked, mask_word), crc32c::crc32c(&whole), "{sectors} sectors");
                assert!(masked == whole);
                assert_eq!(unmask(&mut masked, mask_word), crc32c::crc32c(&whole), "{sectors} sectors");
                assert!(masked == body);
            }
        }
    }
}

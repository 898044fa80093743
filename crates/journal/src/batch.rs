//! Batches of records that are about to be written to the disk.

use crate::aligned::{ALIGNMENT_BYTES, aligned_start};
use crate::frame::{
    self, FRAME_BODY_BYTES_MAX, FrameHeader, HEADER_BYTES, RECORD_HEADER_BYTES, SECTOR_BYTES, u32_at, u64_at,
};
use crate::reader::Record;

/// [`Batch::reset`] frees a buffer larger than this, so that one huge batch does not hold memory forever.
const BUFFER_BYTES_KEPT_MAX: usize = 8 * 1024 * 1024;

/// Records that become durable together, encoded in the buffer that is written to the disk.
///
/// A batch is meant to be recycled: fill one batch while another is being written, then [`reset`](Batch::reset) it. In
/// steady state nothing is allocated.
#[derive(Debug)]
pub struct Batch {
    buffer: Vec<u8>,
    /// Offset of the frame in the buffer. It is aligned, so the frame can be written past the page cache.
    start: usize,
    first_seq: u64,
    record_count: u32,
    first_time_ns: i64,
    last_time_ns: i64,
    sealed: Option<FrameHeader>,
}

impl Batch {
    /// An empty batch whose first record will have the sequence number `first_seq`.
    pub fn new(first_seq: u64) -> Self {
        let mut batch = Self {
            buffer: Vec::new(),
            start: 0,
            first_seq,
            record_count: 0,
            first_time_ns: 0,
            last_time_ns: 0,
            sealed: None,
        };
        batch.reset(first_seq);
        batch
    }

    /// Empties the batch for reuse and keeps its memory.
    pub fn reset(&mut self, first_seq: u64) {
        assert!(first_seq > 0, "sequence numbers start at 1");
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT_MAX);
        self.buffer.reserve(2 * ALIGNMENT_BYTES);
        self.start = aligned_start(&self.buffer);
        self.buffer.resize(self.start + HEADER_BYTES, 0);
        self.first_seq = first_seq;
        self.record_count = 0;
        self.sealed = None;
    }

    /// Adds a record and returns its sequence number. `encode` appends the record's bytes to the buffer and must not
    /// change the bytes that the buffer already holds.
    ///
    /// Panics if `time_ns` is not later than the record before, or if the batch was already handed to a writer. Both
    /// are programmer errors.
    pub fn push(&mut self, time_ns: i64, encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
        assert!(self.sealed.is_none(), "a batch that was appended must be reset before it is filled again");
        assert!(self.record_count == 0 || time_ns > self.last_time_ns, "record times must strictly increase");
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&time_ns.to_le_bytes());
        encode(&mut self.buffer);
        let body = start + RECORD_HEADER_BYTES;
        assert!(self.buffer.len() >= body, "the encoder removed existing bytes");
        assert!(
            self.buffer.len() - self.start - HEADER_BYTES <= FRAME_BODY_BYTES_MAX,
            "a batch exceeds the largest frame"
        );
        let length = (self.buffer.len() - body) as u32;
        self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        if self.record_count == 0 {
            self.first_time_ns = time_ns;
        }
        self.last_time_ns = time_ns;
        self.record_count += 1;
        self.next_seq() - 1
    }

    /// Whether the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.record_count as usize
    }

    /// Size of the records as encoded, in bytes.
    pub fn bytes(&self) -> usize {
        self.sealed.map_or(self.buffer.len() - self.start - HEADER_BYTES, |header| header.body_bytes as usize)
    }

    /// The sequence number of the first record.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// The sequence number that the next record will get.
    pub fn next_seq(&self) -> u64 {
        self.first_seq + u64::from(self.record_count)
    }

    /// The records, in order. Call this before the batch is appended to a journal's files.
    ///
    /// Panics after the batch was appended, because its bytes may then be masked.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        assert!(self.sealed.is_none(), "the records of a batch are read before it is appended");
        let mut rest = &self.buffer[self.start + HEADER_BYTES..];
        (self.first_seq..self.next_seq()).map(move |seq| {
            let (header, behind) = rest.split_at(RECORD_HEADER_BYTES);
            let (bytes, after) = behind.split_at(u32_at(header, 0) as usize);
            rest = after;
            Record { seq, time_ns: u64_at(header, 4) as i64, bytes }
        })
    }

    pub(crate) fn first_time_ns(&self) -> i64 {
        self.first_time_ns
    }

    /// Completes the frame once. A repeated attempt writes the same bytes.
    pub(crate) fn seal(&mut self, previous_chain: u64, identity: u64) -> FrameHeader {
        if let Some(header) = self.sealed {
            assert_eq!(header.previous_chain, previous_chain, "the batch was appended already");
            return header;
        }
        let header = FrameHeader {
            record_count: self.record_count,
            body_bytes: 0,
            first_seq: self.first_seq,
            first_time_ns: self.first_time_ns,
            last_time_ns: self.last_time_ns,
            previous_chain,
            mask: 0,
            body_crc: 0,
            header_crc: 0,
        };
        self.align();
        *self.sealed.insert(frame::seal(&mut self.buffer, self.start, header, identity))
    }

    /// Moves the frame to an aligned address if the buffer was reallocated since the frame was started.
    fn align(&mut self) {
        self.buffer.reserve(ALIGNMENT_BYTES + SECTOR_BYTES);
        let (from, to) = (self.start, aligned_start(&self.buffer));
        let end = self.buffer.len();
        if to > from {
            self.buffer.resize(end + (to - from), 0);
        }
        if to != from {
            self.buffer.copy_within(from..end, to);
            self.buffer.truncate(end + to - from);
            self.start = to;
        }
    }

    /// The whole frame. The batch must be sealed.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

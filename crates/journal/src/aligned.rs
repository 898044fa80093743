//! Aligned memory for disk reads and writes that bypass the page cache.

use std::ops::{Deref, DerefMut};

/// Alignment that suits every disk, in bytes.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// The offset of the first aligned byte in a buffer.
pub(crate) fn aligned_start(buffer: &[u8]) -> usize {
    buffer.as_ptr().align_offset(ALIGNMENT_BYTES)
}

/// Bytes that start at an aligned address.
#[derive(Debug, Default)]
pub(crate) struct AlignedBytes {
    buffer: Vec<u8>,
    start: usize,
}

impl AlignedBytes {
    /// Grows the memory to at least `length` bytes and keeps its content.
    pub fn grow(&mut self, length: usize) {
        if length <= self.len() {
            return;
        }
        let mut buffer = vec![0; length + ALIGNMENT_BYTES];
        let start = aligned_start(&buffer);
        buffer[start..start + self.len()].copy_from_slice(self);
        buffer.truncate(start + length);
        *self = Self { buffer, start };
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }
}

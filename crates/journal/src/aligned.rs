//! Memory from which a disk can read, and into which it can write, past the page cache.

use std::ops::{Deref, DerefMut};

/// What begins at a multiple of this, in bytes, suits every disk.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// Where in a buffer the first aligned byte is, counted from its beginning.
pub(crate) fn aligned_start(buffer: &[u8]) -> usize {
    buffer.as_ptr().align_offset(ALIGNMENT_BYTES)
}

/// Bytes that begin at an aligned place.
#[derive(Debug, Default)]
pub(crate) struct AlignedBytes {
    buffer: Vec<u8>,
    start: usize,
}

impl AlignedBytes {
    /// Makes it at least `length` bytes long, keeping its content.
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

//! The event log: a line per event, and one hash over all of them.

use std::fmt::{Arguments, Write as _};

const HASH_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// What happened, in order.
#[derive(Debug)]
pub(crate) struct Log {
    line: String,
    hash: u64,
    lines: u64,
    kept: Option<Vec<String>>,
}

impl Log {
    pub(crate) fn new(keep: bool) -> Self {
        Self { line: String::new(), hash: HASH_OFFSET, lines: 0, kept: keep.then(Vec::new) }
    }

    /// Adds a line: the time in microseconds and what happened.
    pub(crate) fn add(&mut self, now_us: u64, what: Arguments<'_>) {
        self.line.clear();
        let _ = write!(self.line, "{:>4}.{:06} {what}", now_us / 1_000_000, now_us % 1_000_000);
        for byte in self.line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(HASH_PRIME);
        }
        self.lines += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(self.line.clone());
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, where they are kept.
    pub(crate) fn lines(&self) -> &[String] {
        self.kept.as_deref().unwrap_or_default()
    }
}

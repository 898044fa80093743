//! Writes text and JSON strings to a byte buffer.

use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Maximum number of items in an extension list (FSPIOP API v1.1 §7.4.5).
pub(crate) const EXTENSION_ITEMS_MAX: usize = 16;

/// Writes text to a byte buffer; this cannot fail.
pub(crate) struct ByteWriter<'v>(pub(crate) &'v mut Vec<u8>);

impl Write for ByteWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl ByteWriter<'_> {
    /// Writes a JSON string. Quotes, backslashes and control characters are escaped, all other characters are
    /// unchanged.
    pub(crate) fn text(&mut self, text: &str) {
        self.0.push(b'"');
        let bytes = text.as_bytes();
        let mut run = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.0.extend_from_slice(&bytes[run..at]);
            run = at + 1;
            match byte {
                b'"' => self.0.extend_from_slice(b"\\\""),
                b'\\' => self.0.extend_from_slice(b"\\\\"),
                b'\n' => self.0.extend_from_slice(b"\\n"),
                b'\r' => self.0.extend_from_slice(b"\\r"),
                b'\t' => self.0.extend_from_slice(b"\\t"),
                _ => {
                    let _ = write!(self, "\\u{byte:04x}");
                }
            }
        }
        self.0.extend_from_slice(&bytes[run..]);
        self.0.push(b'"');
    }

    /// Writes one item of an extension list.
    pub(crate) fn extension(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(b"{\"key\":");
        self.text(key);
        self.0.extend_from_slice(b",\"value\":");
        self.text(value);
        self.0.push(b'}');
    }
}

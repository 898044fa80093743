//! The stored form of a request's headers.

use alloc::vec::Vec;

use super::HeaderLookup;

/// A header block: repeated `name: value\r\n`, with names in lower case and without hop-by-hop headers.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a>(pub &'a [u8]);

impl<'a> Block<'a> {
    /// Names and values in order. Lines that are not headers are skipped.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            while !rest.is_empty() {
                let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                let (line, after) = rest.split_at(end);
                rest = after;
                if let Some(entry) = split_line(line) {
                    return Some(entry);
                }
            }
            None
        })
    }

    /// The first value of a header, with the lifetime of the block. The name must be in lower case.
    pub fn find(self, lower_case_name: &str) -> Option<&'a [u8]> {
        self.iter().find_map(|(name, value)| (name == lower_case_name.as_bytes()).then_some(value))
    }
}

fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    (!name.is_empty()).then_some((name, value))
}

impl HeaderLookup for Block<'_> {
    fn get_all<'a>(&'a self, lower_case_name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_meant = |(name, _): &(&[u8], &[u8])| *name == lower_case_name.as_bytes();
        self.iter().filter(is_meant).map(|(_, value)| value)
    }
}

/// Appends one header line to a block. The value must not contain line breaks; HTTP parsers reject them.
pub fn push_header(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    push_line(block, name.as_bytes(), value);
}

pub(super) fn push_line(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(memchr::memchr2(b'\r', b'\n', value).is_none(), "a header value holds a line break");
    block.extend_from_slice(name);
    block.extend_from_slice(b": ");
    block.extend_from_slice(value);
    block.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_as_they_were_pushed() {
        let mut block = Vec::new();
        push_header(&mut block, "date", b"Tue, 01 Apr 2031 12:00:00 GMT");
        push_header(&mut block, "x-empty", b"");
        push_header(&mut block, "x-colon", b"a: b");
        assert_eq!(block, b"date: Tue, 01 Apr 2031 12:00:00 GMT\r\nx-empty: \r\nx-colon: a: b\r\n");
        let entries: Vec<_> = Block(&block).iter().collect();
        assert_eq!(entries[0], (&b"date"[..], &b"Tue, 01 Apr 2031 12:00:00 GMT"[..]));
        assert_eq!(entries[1], (&b"x-empty"[..], &b""[..]));
        assert_eq!(Block(&block).get("x-colon"), Some(&b"a: b"[..]));
        assert_eq!(Block(&block).get("x-other"), None);
    }

    #[test]
    fn damaged_blocks_lose_only_the_damaged_lines() {
        let entries: Vec<_> = Block(b"no colon\r\n: no name\r\n\r\na:1\nb: 2").iter().collect();
        assert_eq!(entries, [(&b"a"[..], &b"1"[..]), (&b"b"[..], &b"2"[..])]);
    }
}

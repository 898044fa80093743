//! A JSON text as the flat list of its values, made in one pass, so that schemas look at values and not at bytes again.

use alloc::string::String;
use alloc::vec::Vec;

use super::object::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

/// What a value is, as far as schemas tell values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    /// A text that stands for itself.
    Text,
    /// A text with escapes.
    EscapedText,
    Null,
    /// A number, `true` or `false`.
    Bare,
}

/// A value or a name of a property.
struct Node {
    kind: Kind,
    start: u32,
    end: u32,
    /// The position after this value and all that is in it.
    next: u32,
}

/// A JSON text and its values in the order of the text: a value comes before what is in it, a name before its value.
pub(crate) struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

/// Bytes per value of a message that is mostly names and short texts.
const BYTES_PER_NODE: usize = 8;
/// Values that are made room for at once; more of them make the list grow.
const FIRST_NODES_MAX: usize = 256;

impl<'a> Document<'a> {
    /// The position of the outermost value.
    pub(crate) const ROOT: usize = 0;

    /// A document without any value.
    pub(crate) fn empty() -> Self {
        Self { text: "", nodes: Vec::new() }
    }

    /// Reads a text; `None` for what is no JSON, nested deeper than [`JSON_DEPTH_MAX`], of more than
    /// [`JSON_VALUES_MAX`] values or beyond 4 GiB. Names and texts may have escapes that stand for no character:
    /// whoever decodes them finds out.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let nodes = Vec::with_capacity((text.len() / BYTES_PER_NODE).min(FIRST_NODES_MAX));
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, nodes };
        scanner.skip_blanks();
        scanner.value(0)?;
        scanner.skip_blanks();
        (scanner.at == text.len()).then_some(Self { text, nodes: scanner.nodes })
    }

    /// What the value at a position is.
    #[inline]
    pub(crate) fn kind(&self, position: usize) -> Kind {
        self.nodes[position].kind
    }

    /// The value at a position as it is written.
    #[inline]
    pub(crate) fn json(&self, position: usize) -> &'a str {
        let node = &self.nodes[position];
        &self.text[node.start as usize..node.end as usize]
    }

    /// The positions of an array's items, or of an object's names and values in turn.
    pub(crate) fn children(&self, position: usize) -> impl Iterator<Item = usize> {
        let end = self.nodes[position].next as usize;
        let mut child = position + 1;
        core::iter::from_fn(move || {
            let found = (child < end).then_some(child)?;
            child = self.nodes[found].next as usize;
            Some(found)
        })
    }

    /// The positions of an object's names; a value follows its name at once.
    pub(crate) fn names(&self, object: usize) -> impl Iterator<Item = usize> {
        self.children(object).step_by(2)
    }
}

/// The text that a quoted one without escapes stands for.
pub(crate) fn unquote(json: &str) -> &str {
    json.get(1..json.len() - 1).unwrap_or_default()
}

/// The text that a quoted one with escapes stands for.
pub(crate) fn unescape(json: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str(json)
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips this byte, which has to be there.
    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_there = self.peek()? == byte;
        self.at += 1;
        is_there.then_some(())
    }

    /// Reads the value that begins here, inside of `depth` others.
    #[inline]
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.text(),
            b'{' => self.container(Kind::Object, b'}', depth),
            b'[' => self.container(Kind::Array, b']', depth),
            b'n' => self.literal(b"null", Kind::Null),
            b't' => self.literal(b"true", Kind::Bare),
            b'f' => self.literal(b"false", Kind::Bare),
            _ => self.number(),
        }
    }

    /// Reads an object or array, whose depth bounds the recursion.
    fn container(&mut self, kind: Kind, close: u8, depth: usize) -> Option<()> {
        if depth == JSON_DEPTH_MAX {
            return None;
        }
        let (start, position) = (self.at, self.nodes.len());
        self.push(kind, start);
        self.at += 1;
        self.skip_blanks();
        if self.peek()? != close {
            loop {
                if kind == Kind::Object {
                    self.text()?;
                    self.skip_blanks();
                    self.expect(b':')?;
                    self.skip_blanks();
                }
                self.value(depth + 1)?;
                if self.nodes.len() > JSON_VALUES_MAX {
                    return None;
                }
                self.skip_blanks();
                if self.peek()? == close {
                    break;
                }
                self.expect(b',')?;
                self.skip_blanks();
            }
        }
        self.at += 1;
        let next = self.nodes.len() as u32;
        let node = self.nodes.get_mut(position)?;
        (node.end, node.next) = (self.at as u32, next);
        Some(())
    }

    fn text(&mut self) -> Option<()> {
        let start = self.at;
        self.expect(b'"')?;
        let mut kind = Kind::Text;
        loop {
            self.at = end_of_plain(self.bytes, self.at);
            match self.peek()? {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return None,
            }
            kind = Kind::EscapedText;
        }
        self.at += 1;
        self.push(kind, start);
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        let length = match self.bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => {
                let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
            }
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    fn literal(&mut self, literal: &[u8], kind: Kind) -> Option<()> {
        let start = self.at;
        self.bytes[start..].starts_with(literal).then_some(())?;
        self.at += literal.len();
        self.push(kind, start);
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let leads_with_zero = self.peek()? == b'0';
        let length = self.digits()?;
        if leads_with_zero && length > 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        self.push(Kind::Bare, start);
        Some(())
    }

    /// Skips one digit or more and tells how many.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }

    /// Adds the value from `start` to here. That the text fits in 32 bits was checked before.
    #[inline]
    fn push(&mut self, kind: Kind, start: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: self.at as u32, next });
    }
}

/// The position of the first quote, backslash or control character from `at` on; eight bytes at a time.
fn end_of_plain(bytes: &[u8], at: usize) -> usize {
    let (words, rest) = bytes[at..].as_chunks();
    for (index, word) in words.iter().enumerate() {
        let found = find_special(u64::from_le_bytes(*word));
        if found != 0 {
            return at + index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    let length = rest.iter().position(is_special).unwrap_or(rest.len());
    bytes.len() - rest.len() + length
}

/// Sets the highest bit of the lowest byte that ends plain text; bits above it mean nothing, as a borrow may set them.
fn find_special(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit));
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    // Neither of the two has its highest bit set, so bytes of 0x80 and above are never equal to them.
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & !word & (ONES << 7)
}

#[cfg(test)]
mod tests;

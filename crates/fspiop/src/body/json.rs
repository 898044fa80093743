//! Reads a JSON text in one pass into a flat list of its values, so that schemas need not scan the bytes again.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::object::{JSON_DEPTH_MAX, JSON_VALUES_MAX};
use crate::fingerprint::is_blank;

/// The kind of a value, as far as schemas distinguish values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    /// A text without escapes.
    Text,
    EscapedText,
    Null,
    /// A number, `true` or `false`.
    Bare,
}

/// A value, or the name of a property.
struct Node {
    kind: Kind,
    start: u32,
    end: u32,
    /// The position after this value and everything inside it.
    next: u32,
}

/// A JSON text and its values in the order of the text. A value precedes its contents, and a name precedes its value.
pub(crate) struct Document<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

/// Bytes per value in a message that consists mostly of names and short texts.
const BYTES_PER_NODE: usize = 8;
/// Maximum initial capacity, in values. The list grows for more.
const FIRST_NODES_MAX: usize = 256;

impl<'a> Document<'a> {
    /// The position of the outermost value.
    pub(crate) const ROOT: usize = 0;

    /// A document without any value.
    pub(crate) fn empty() -> Self {
        Self { text: "", nodes: Vec::new() }
    }

    /// Reads a text. Returns `None` for invalid JSON, nesting deeper than [`JSON_DEPTH_MAX`], more than
    /// [`JSON_VALUES_MAX`] values, or more than 4 GiB. Names and texts may contain escapes that are not valid
    /// characters; decoding them reports this.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let nodes = Vec::with_capacity((text.len() / BYTES_PER_NODE).min(FIRST_NODES_MAX));
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, nodes };
        scanner.skip_blanks();
        scanner.value(0)?;
        scanner.skip_blanks();
        (scanner.at == text.len()).then_some(Self { text, nodes: scanner.nodes })
    }

    /// The kind of the value at a position.
    #[inline]
    pub(crate) fn kind(&self, position: usize) -> Kind {
        self.nodes[position].kind
    }

    /// The value at a position as it is written in the text.
    #[inline]
    pub(crate) fn json(&self, position: usize) -> &'a str {
        let node = &self.nodes[position];
        &self.text[node.start as usize..node.end as usize]
    }

    /// The text at a position. `None` for a value of another kind, and for a text that cannot be decoded.
    pub(crate) fn text(&self, position: usize) -> Option<Cow<'a, str>> {
        let json = self.json(position);
        match self.kind(position) {
            Kind::Text => Some(unquote(json).into()),
            Kind::EscapedText => unescape(json).ok().map(Cow::Owned),
            _ => None,
        }
    }

    /// The positions of all objects, in the order of the text.
    pub(crate) fn objects(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|position| self.kind(*position) == Kind::Object)
    }

    /// The positions of an array's items, or of an object's alternating names and values.
    pub(crate) fn children(&self, position: usize) -> impl Iterator<Item = usize> {
        let end = self.nodes[position].next as usize;
        let mut child = position + 1;
        core::iter::from_fn(move || {
            let found = (child < end).then_some(child)?;
            child = self.nodes[found].next as usize;
            Some(found)
        })
    }

    /// The positions of an object's names. Each value directly follows its name.
    pub(crate) fn names(&self, object: usize) -> impl Iterator<Item = usize> {
        self.children(object).step_by(2)
    }
}

/// Returns the content of a quoted text without escapes.
pub(crate) fn unquote(json: &str) -> &str {
    json.get(1..json.len() - 1).unwrap_or_default()
}

/// Decodes a quoted text with escapes.
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
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Skips this byte. Fails if the next byte is another one.
    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_there = self.peek()? == byte;
        self.at += 1;
        is_there.then_some(())
    }

    /// Reads the value that begins here, nested inside `depth` other values.
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

    /// Reads an object or array. The limit on its depth bounds the recursion.
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

    /// Skips one or more digits and returns their number.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }

    /// Adds the value from `start` to the current position. An earlier check ensures that positions fit in 32 bits.
    #[inline]
    fn push(&mut self, kind: Kind, start: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, start: start as u32, end: self.at as u32, next });
    }
}

/// The position of the first quote, backslash or control character from `at` on. Examines eight bytes at a time.
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

/// Sets the highest bit of the lowest byte that ends plain text. Bits above it have no meaning, because a borrow may
/// set them.
fn find_special(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit));
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    // Neither of the two has its highest bit set, so bytes of 0x80 and above never match.
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & !word & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    /// Whether serde_json accepts a text, and whether this reader does. Their limits of depth are counted differently.
    fn verdicts(text: &str) -> (bool, bool) {
        (serde_json::from_str::<IgnoredAny>(text).is_ok(), Document::parse(text).is_some())
    }

    /// Renders a document from its values, so that another reader can read it.
    fn render(document: &Document<'_>, position: usize, out: &mut String) {
        match document.kind(position) {
            Kind::Object => {
                let members = document.names(position).map(|name| {
                    let mut member = format!("{}:", document.json(name));
                    render(document, name + 1, &mut member);
                    member
                });
                out.push_str(&format!("{{{}}}", members.collect::<Vec<_>>().join(",")));
            }
            Kind::Array => {
                let items = document.children(position).map(|item| {
                    let mut text = String::new();
                    render(document, item, &mut text);
                    text
                });
                out.push_str(&format!("[{}]", items.collect::<Vec<_>>().join(",")));
            }
            _ => out.push_str(document.json(position)),
        }
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn parser_accepts_the_same_texts_as_serde_json() {
        for text in [
            "",
            " ",
            "{}",
            "[]",
            " { } ",
            "[ ]",
            "{",
            "}",
            "[",
            "]",
            "[}",
            "{]",
            "[,]",
            "[1,]",
            "[1 2]",
            "[1,,2]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a" 1}"#,
            r#"{a:1}"#,
            r#"{1:1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1}x"#,
            "0",
            "-0",
            "00",
            "01",
            "-",
            "-01",
            "1.",
            ".1",
            "1.0",
            "1.e1",
            "1e",
            "1e+",
            "1e+1",
            "1E-01",
            "+1",
            "1e999",
            "- 1",
            "0x1",
            "1_0",
            "٣",
            "null",
            "nul",
            "nullx",
            "true",
            "tru",
            "false",
            "fals",
            "True",
            "NaN",
            "Infinity",
            "\u{feff}1",
            "\u{b}1",
            "\u{c}1",
            "\u{a0}1",
            "\t\r\n 1 \n",
            "\"",
            "\"a",
            "\"a\"",
            "\"\\\"",
            "\"\\\\\"",
            "\"\\x\"",
            "\"\\u\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\u00e9\"",
            "\"\\uD800\"",
            "\"\\uDFFF\\uD800\"",
            "\"\\/\\b\\f\\n\\r\\t\"",
            "\"\\'\"",
            "\"\u{1f}\"",
            "\"\n\"",
            "\"\u{0}\"",
            "\"\u{7f}\"",
            "\"€\u{85}\"",
            "\"12345678\n\"",
            "\"1234567\\u0041\"",
            "'a'",
        ] {
            let (theirs, ours) = verdicts(text);
            assert_eq!(ours, theirs, "{text:?}");
        }
    }

    #[test]
    fn nesting_above_the_limit_is_rejected() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert!(Document::parse(&nested(JSON_DEPTH_MAX)).is_some());
            assert!(Document::parse(&nested(JSON_DEPTH_MAX + 1)).is_none());
            assert!(Document::parse(&open.repeat(1_000_000)).is_none());
        }
    }

    #[test]
    fn plain_text_ends_only_at_special_bytes() {
        for length in 0..20 {
            for byte in 0..=u8::MAX {
                let mut bytes = [b'\x80'; 40];
                bytes[length] = byte;
                bytes[length + 1] = b'"';
                let special = matches!(byte, b'"' | b'\\' | ..0x20);
                assert_eq!(
                    end_of_plain(&bytes[..length + 2], 0),
                    length + usize::from(!special),
                    "{byte} at {length}"
                );
                assert_eq!(end_of_plain(&bytes, 0), length + usize::from(!special), "{byte} at {length}");
                assert_eq!(end_of_plain(&bytes[..length], 0), length);
            }
        }
    }

    const MESSAGE: &str = r#"{"a": [1, -2.5e+7, true ,null],"b\u0041":{"c":"text\n\\\"","é":{},"d":[[],{"e":false}]} , "condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s"}"#;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn json_like_texts_have_the_verdict_of_serde_json(text in "[\\[\\]{}:,\"\\\\ \n\t0-9.eE+\\-truefalsn\u{1}é]{0,40}") {
            let (theirs, ours) = verdicts(&text);
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn arbitrary_texts_have_the_verdict_of_serde_json(text in any::<String>()) {
            let (theirs, ours) = verdicts(&text);
            prop_assert_eq!(ours, theirs);
            let (theirs, ours) = verdicts(&format!("\"{text}\""));
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn damaged_messages_have_the_verdict_of_serde_json(
            at in 0..MESSAGE.len(),
            length in 0..6_usize,
            patch in "[\\[\\]{}:,\"\\\\ \n0-9.eE+\\-u]{0,4}",
        ) {
            let mut bytes = MESSAGE.as_bytes().to_vec();
            bytes.splice(at..(at + length).min(MESSAGE.len()), patch.bytes());
            if let Ok(text) = String::from_utf8(bytes) {
                let (theirs, ours) = verdicts(&text);
                prop_assert_eq!(ours, theirs, "{}", text);
            }
        }

        #[test]
        fn parsed_document_equals_serde_json(patch in "[0-9a-z ]{0,12}", at in 0..MESSAGE.len()) {
            let mut text = MESSAGE.to_string();
            if text.is_char_boundary(at) {
                text.insert_str(at, &patch);
            }
            // serde_json rejects numbers beyond the range of floats. For schemas they are ordinary texts.
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            if let (Some(document), Ok(theirs)) = (Document::parse(&text), theirs) {
                let mut out = String::new();
                render(&document, Document::ROOT, &mut out);
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), theirs);
            }
        }
    }
}

//! Escapes text from outside for a terminal, a log, a spreadsheet or a URL.
//!
//! An invisible character can hide or reorder the text next to it (ESC, CR, U+202E). A spreadsheet runs a cell that
//! begins like a formula. [`escape`] is the one function for all of these targets. The functions for special forms
//! ([`escape_lines`], [`cell`], [`path`]) build on it or complement it.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::{self, Write as _};

/// Ranges of invisible characters: controls (Cc), format characters (Cf), separators of lines and paragraphs (Zl, Zp),
/// and code points that readers ignore by default (Unicode 16, Default_Ignorable_Code_Point).
const HIDDEN: &[(char, char)] = &[
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// First characters that make a cell a formula, including their full-width forms.
const FORMULA: &[char] = &['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Whether a character is a control or format character, or is otherwise invisible.
pub fn is_hidden(char: char) -> bool {
    // Printable ASCII is the usual case.
    if (' '..='~').contains(&char) {
        return false;
    }
    HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&char))
}

/// Whether a text contains a hidden character.
pub fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// Prints a text with its hidden characters escaped; see [`escape`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` applies the formatter's width.
        f.pad(&escape(self.0))
    }
}

/// Writes hidden characters of a text as JSON escapes, such as `\u202e` and `\n`. A JSON document keeps its meaning,
/// because these characters occur only in its strings. Line breaks between its lines are the exception: use
/// [`escape_lines`] for such documents.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_except(text, |_, _| false)
}

/// Escapes a text of several lines or columns like [`escape`], but keeps line breaks and tabs. A CR is part of a line
/// break if an LF follows it.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_except(text, |char, rest| match char {
        '\n' | '\t' => true,
        '\r' => rest.starts_with('\n'),
        _ => false,
    })
}

/// Escapes all hidden characters that `is_kept` does not accept, given the character and the text after it.
fn escape_except(text: &str, is_kept: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    let is_escaped = |(at, char): (usize, char)| {
        is_hidden(char) && !is_kept(char, text.get(at + char.len_utf8()..).unwrap_or_default())
    };
    if !text.char_indices().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, char) in text.char_indices() {
        match char {
            char if !is_escaped((at, char)) => escaped.push(char),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            char => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(escaped)
}

/// Escapes a text for a spreadsheet cell, and puts an apostrophe before it if it would be a formula.
pub fn cell(text: &str) -> Cow<'_, str> {
    let escaped = escape(text);
    if escaped.trim_start().starts_with(FORMULA) {
        let mut quoted = String::with_capacity(escaped.len() + 1);
        quoted.push('\'');
        quoted.push_str(&escaped);
        return Cow::Owned(quoted);
    }
    escaped
}

/// Joins percent-encoded segments to the path of a URL: `/participants/Green%20Bank/limits`.
pub fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        encode_into(segment, &mut path);
    }
    path
}

/// Percent-encodes a text as part of a URL: a segment of its path or a value of its query (RFC 3986 §2.1).
pub fn url_part(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    encode_into(text, &mut encoded);
    encoded
}

fn encode_into(text: &str, encoded: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_as_json_does() {
        for (text, expected) in [
            ("plain, \"as it is\" \\ é 日本 🙂", "plain, \"as it is\" \\ é 日本 🙂"),
            ("\u{1b}[2K\rfunds", "\\u001b[2K\\rfunds"),
            ("pay \u{202e}001", "pay \\u202e001"),
            ("a\nb\tc\u{7f}\u{9b}", "a\\nb\\tc\\u007f\\u009b"),
            ("\u{feff}x\u{200b}\u{2028}", "\\ufeffx\\u200b\\u2028"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ] {
            assert_eq!(escape(text), expected);
            assert_eq!(alloc::format!("{}", Escaped(text)), expected);
        }
        assert_eq!(escape_lines("a\tb\r\n\u{1b}c\rd\n\r"), "a\tb\r\n\\u001bc\\rd\n\\r");
        assert_eq!(alloc::format!("{:<4}|", Escaped("a\n")), "a\\n |");
    }

    #[test]
    fn ranges_are_sorted_and_disjoint() {
        for pair in HIDDEN.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{pair:?}");
        }
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
    }

    #[test]
    fn spreadsheet_cells_are_never_formulas() {
        for (text, expected) in [
            ("plain", "plain"),
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("  =1", "'  =1"),
            ("\t=1", "\\t=1"),
            ("＝1", "'＝1"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
    }

    #[test]
    fn segments_of_a_path_are_encoded() {
        assert_eq!(path(&["participants", "Green Bank", "limits"]), "/participants/Green%20Bank/limits");
        assert_eq!(path(&["participants", "%61%61"]), "/participants/%2561%2561");
        assert_eq!(path(&["a/../b?c#d", "é"]), "/a%2F..%2Fb%3Fc%23d/%C3%A9");
        assert_eq!(url_part("a b&c=d"), "a%20b%26c%3Dd");
    }
}

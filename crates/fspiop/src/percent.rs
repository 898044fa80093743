//! Percent-encoding of path segments (RFC 3986 §2.1).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Decodes a path segment. Returns `None` if it is not percent-encoded UTF-8. A plus sign is not decoded.
pub fn decode_segment(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    loop {
        match rest {
            [] => return String::from_utf8(decoded).ok().map(Cow::Owned),
            [b'%', high, low, after @ ..] => {
                decoded.push(hex_digit(*high)? << 4 | hex_digit(*low)?);
                rest = after;
            }
            [b'%', ..] => return None,
            [byte, after @ ..] => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Appends a text as one path segment. All characters except letters, digits and `-._~@+:,` are encoded. A dot segment
/// has no encoding that all parsers preserve (RFC 3986 §6.2.2.2), so reject such texts before.
pub fn encode_segment(text: &str, out: &mut String) {
    encode_all_but(b"-._~@+:,", text, out);
}

/// Appends a text that is valid in any part of a URL. All characters except letters, digits and `-._~` are encoded (RFC
/// 3986 §2.3).
pub fn encode_component(text: &str, out: &mut String) {
    encode_all_but(b"-._~", text, out);
}

fn encode_all_but(marks: &[u8], text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || marks.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_decode_or_are_refused() {
        for (segment, text) in [
            ("26097", Some("26097")),
            ("%2B26097", Some("+26097")),
            ("+26097", Some("+26097")),
            ("a%40b.cd", Some("a@b.cd")),
            ("caf%C3%A9", Some("café")),
            ("%61%2f%2F", Some("a//")),
            ("", Some("")),
            ("%", None),
            ("%4", None),
            ("%+4", None),
            ("%zz", None),
            ("%ff", None),
        ] {
            assert_eq!(decode_segment(segment).as_deref(), text, "{segment}");
        }
    }

    #[test]
    fn encoding_round_trips() {
        for text in ["26097", "+26097", "a@b.cd", "123456/78/1", "a b?c#d%", "café {x}", "\r\n"] {
            let mut segment = String::new();
            encode_segment(text, &mut segment);
            assert!(
                segment.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#{}".contains(&byte)),
                "{segment}"
            );
            assert_eq!(decode_segment(&segment).as_deref(), Some(text));
        }
    }

    #[test]
    fn components_keep_only_unreserved_characters() {
        for (text, encoded) in [
            ("green-bank_1.x~", "green-bank_1.x~"),
            ("a b/c?", "a%20b%2Fc%3F"),
            ("+26097@x:,", "%2B26097%40x%3A%2C"),
        ] {
            let mut component = String::new();
            encode_component(text, &mut component);
            assert_eq!(component, encoded);
        }
    }
}

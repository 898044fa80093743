//! The fingerprint that distinguishes a repeated message from a modified one.

use sha2::{Digest, Sha256};

/// The first 16 bytes of SHA-256 over a JSON text without its insignificant white space.
///
/// Two texts with the same members in the same order have the same fingerprint, whatever their layout is. The order of
/// members matters, as in other hubs. The text must be JSON that a parser has accepted; for other bytes the result is
/// still a deterministic digest.
pub fn fingerprint(body: &[u8]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    // `run` is the start of the bytes that are not hashed yet. A compact body is a single run.
    let (mut run, mut at) = (0, 0);
    while let Some(&byte) = body.get(at) {
        match byte {
            b'"' => at = end_of_string(body, at),
            byte if is_blank(byte) => {
                hasher.update(&body[run..at]);
                // A body may consist of megabytes of white space.
                at += body[at..].iter().take_while(|byte| is_blank(**byte)).count();
                run = at;
            }
            _ => at += 1,
        }
    }
    hasher.update(&body[run..]);
    let digest = hasher.finalize();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    first
}

/// Whether JSON ignores this byte between its tokens.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The position after the string that begins with the quote at `start`, or the end of the text if the string is not
/// closed.
pub(crate) fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(rest) = text.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest[found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
            None => break,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(text: &[u8]) -> [u8; 16] {
        Sha256::digest(text)[..16].try_into().unwrap()
    }

    #[test]
    fn fingerprint_ignores_white_space_between_tokens() {
        let compact = br#"{"a":"x y\" z","b":[1,{"c":true}]}"#;
        for laid_out in [
            &br#"{"a":"x y\" z","b":[1,{"c":true}]}"#[..],
            b"{ \"a\" : \"x y\\\" z\" ,\r\n\t\"b\":[ 1, { \"c\": true } ] }\n",
            b"\n\n{\"a\":\"x y\\\" z\",\"b\":[1,{\"c\":true}]}   ",
        ] {
            assert_eq!(fingerprint(laid_out), full(compact));
        }
    }

    #[test]
    fn fingerprint_changes_with_any_other_difference() {
        let fingerprints = [
            r#"{"a":"1","b":"2"}"#,
            r#"{"b":"2","a":"1"}"#,
            r#"{"a":"1","b":"2 "}"#,
            r#"{"a":"1","b":" 2"}"#,
            r#"{"a":"1","b":2}"#,
            r#"{"a":"1","b":"2\\"}"#,
        ]
        .map(|text| fingerprint(text.as_bytes()));
        for (index, fingerprint) in fingerprints.iter().enumerate() {
            assert!(!fingerprints[..index].contains(fingerprint), "{index}");
        }
    }

    #[test]
    fn truncated_texts_have_a_fingerprint() {
        for text in ["", "\"", "\"\\", "\"abc", "{\"a", " \" "] {
            assert_eq!(fingerprint(text.as_bytes()), fingerprint(text.as_bytes()));
        }
    }
}

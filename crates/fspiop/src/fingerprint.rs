//! The fingerprint by which a repeated message is told from a modified one.

use sha2::{Digest, Sha256};

/// The first 16 bytes of SHA-256 over a JSON text without its insignificant white space.
///
/// Two texts with the same members in the same order have the same fingerprint however they are laid out; the order
/// of members counts, as it does in the hubs DFSPs know. The text must be JSON that a parser has accepted; of any
/// other bytes it is still a deterministic digest.
pub fn fingerprint(body: &[u8]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    // `run` is where the bytes not yet hashed begin; a compact body is a single run.
    let (mut run, mut at) = (0, 0);
    while let Some(&byte) = body.get(at) {
        match byte {
            b'"' => at = end_of_string(body, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                hasher.update(&body[run..at]);
                at += 1;
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

/// The position after the string that begins with the quote at `start`; the end of the text when it is not closed.
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
    fn white_space_between_tokens_does_not_count() {
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
    fn everything_else_counts() {
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
    fn texts_cut_short_have_a_fingerprint_too() {
        for text in ["", "\"", "\"\\", "\"abc", "{\"a", " \" "] {
            assert_eq!(fingerprint(text.as_bytes()), fingerprint(text.as_bytes()));
        }
    }
}

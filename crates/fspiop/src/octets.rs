//! Encodes and decodes 32 bytes as base64url text, the form of conditions and fulfilments.

use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::{Engine, alphabet};
use sha2::{Digest, Sha256};

/// Length of the base64url text of 32 bytes, without padding.
pub(crate) const TEXT_BYTES: usize = 43;

/// 43 characters carry 258 bits, two more than 32 bytes. This engine ignores those two bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes the base64url text of 32 bytes. It must have no padding, and its two unused bits must be zero.
pub fn decode_octets(text: &str) -> Option<[u8; 32]> {
    decode_with(&URL_SAFE_NO_PAD, text)
}

/// Decodes the base64url text of 32 bytes and ignores its two unused bits.
pub(crate) fn decode_octets_leniently(text: &str) -> Option<[u8; 32]> {
    decode_with(&LENIENT, text)
}

fn decode_with(engine: &GeneralPurpose, text: &str) -> Option<[u8; 32]> {
    if text.len() != TEXT_BYTES {
        return None;
    }
    let mut octets = [0; 32];
    let length = engine.decode_slice(text, &mut octets).ok()?;
    (length == octets.len()).then_some(octets)
}

/// The base64url text of 32 bytes: 43 ASCII characters.
pub fn encode_octets(octets: &[u8; 32]) -> [u8; TEXT_BYTES] {
    let mut text = [b'A'; TEXT_BYTES];
    // 32 bytes always make 43 characters, so this cannot fail.
    let written = URL_SAFE_NO_PAD.encode_slice(octets, &mut text).unwrap_or_default();
    debug_assert_eq!(written, TEXT_BYTES);
    text
}

// The fingerprint that distinguishes a repeated message from a modified one.

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

    #[test]
    fn octets_round_trip() {
        for text in [
            "UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA",
            "GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "__________________________________________8",
        ] {
            let octets = decode_octets(text).expect(text);
            assert_eq!(encode_octets(&octets), text.as_bytes());
            assert_eq!(decode_octets_leniently(text), Some(octets));
        }
    }

    #[test]
    fn spare_bits_are_refused_or_ignored() {
        let (canonical, spare) =
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB");
        assert_eq!(decode_octets(spare), None);
        assert_eq!(decode_octets_leniently(spare), decode_octets(canonical));
    }

    #[test]
    fn other_texts_are_no_octets() {
        for text in [
            "",
            "AAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+A",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "ÄAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(decode_octets(text), None, "{text}");
            assert_eq!(decode_octets_leniently(text), None, "{text}");
        }
    }

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

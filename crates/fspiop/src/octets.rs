//! Encodes and decodes 32 bytes as base64url text, the form of conditions and fulfilments.

use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::{Engine, alphabet};

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
    fn spare_bits_are_rejected_or_ignored() {
        let (canonical, spare) =
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB");
        assert_eq!(decode_octets(spare), None);
        assert_eq!(decode_octets_leniently(spare), decode_octets(canonical));
    }

    #[test]
    fn invalid_texts_are_rejected() {
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
}

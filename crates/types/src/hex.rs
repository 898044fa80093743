//! Bytes as text.

use alloc::string::String;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Converts bytes to lower-case hexadecimal, two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Reads `N` pairs of lower-case hexadecimal digits. Returns `None` for any other text.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_two_digits() {
        for (bytes, text) in [(&[][..], ""), (&[0], "00"), (&[0x0f, 0xf0, 0xff], "0ff0ff")] {
            assert_eq!(hex(bytes), text);
        }
    }

    #[test]
    fn only_lower_case_digits_of_the_exact_length_are_accepted() {
        assert_eq!(unhex(&hex(&[0x0f, 0xf0, 0xa9])), Some([0x0f, 0xf0, 0xa9]));
        for text in ["", "0f", "0ff0a", "0ff0a9f", "0ff0a9ff", "0FF0A9", "+ff0a9", "0ff0ag", "0ff0é"] {
            assert_eq!(unhex::<3>(text), None, "{text}");
        }
    }
}

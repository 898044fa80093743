//! Bytes as text.

use alloc::string::String;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Hexadecimal digits, lower case, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
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
}

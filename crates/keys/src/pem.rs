//! The text of a PEM file in any encoding of editors and shells.

use std::borrow::Cow;

const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_LITTLE_MARK: &[u8] = &[0xff, 0xfe];
const UTF16_BIG_MARK: &[u8] = &[0xfe, 0xff];

/// The bytes without a byte-order mark, in UTF-8, because PEM readers do not find a first line behind the mark. Windows
/// editors write the mark of UTF-8; older Windows shells write UTF-16.
pub fn without_byte_order_mark(bytes: &[u8]) -> Cow<'_, [u8]> {
    let utf16 = |text: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = text.chunks(2).map(|pair| unit([pair[0], pair.get(1).copied().unwrap_or_default()]));
        let text: String =
            char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Cow::Owned(text.into_bytes())
    };
    if let Some(text) = bytes.strip_prefix(UTF8_MARK) {
        Cow::Borrowed(text)
    } else if let Some(text) = bytes.strip_prefix(UTF16_LITTLE_MARK) {
        utf16(text, u16::from_le_bytes)
    } else if let Some(text) = bytes.strip_prefix(UTF16_BIG_MARK) {
        utf16(text, u16::from_be_bytes)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// The text of a key in PEM, without a byte-order mark. Tools that transfer keys as JSON write line ends as the letters
/// `\r\n` or `\n`; these are converted to line ends.
pub fn pem_text(bytes: &[u8]) -> String {
    let bytes = without_byte_order_mark(bytes);
    String::from_utf8_lossy(&bytes).replace("\\r", "").replace("\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_marks_are_removed_and_other_encodings_rejected() {
        let utf16 = |unit: fn(u16) -> [u8; 2]| "BEGIN\n".encode_utf16().flat_map(unit).collect::<Vec<_>>();
        let (little, big) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
        for (mark, text, expected) in [
            (UTF8_MARK, &b"BEGIN\n"[..], &b"BEGIN\n"[..]),
            (UTF16_LITTLE_MARK, &little, b"BEGIN\n"),
            (UTF16_BIG_MARK, &big, b"BEGIN\n"),
            (&[], b"BEGIN\n", b"BEGIN\n"),
            (&[], b"", b""),
            (UTF8_MARK, b"", b""),
            (UTF16_LITTLE_MARK, &[0x41], b"A"),
        ] {
            let bytes = [mark, text].concat();
            assert_eq!(*without_byte_order_mark(&bytes), *expected, "{bytes:?}");
        }
        assert_eq!(pem_text(b"\xef\xbb\xbfa\\r\\nb\r\n"), "a\nb\r\n");
    }
}

//! Identifiers in the forms of the FSPIOP API.

use core::fmt;

/// Identifies a transfer: a lower-case RFC 4122 UUID or a 26-character Crockford ULID. The CorrelationId type of the
/// FSPIOP API allows both. The id prints exactly as it was read.
///
/// One tag byte states the form (0: UUID; 1–4: ULID, whose 26 characters carry 130 bits). Sixteen bytes carry the
/// value. As a key of the archive, the id may also stand for a [`FxTransferId`] or a [`BulkId`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    tag: u8,
    value: [u8; 16],
}

/// Tag bit of a key that stands for an FX transfer.
const FX_TRANSFER: u8 = 0x80;
/// Tag bit of a key that stands for a bulk transfer.
const BULK: u8 = 0x40;
/// All tag bits that state what a key stands for, in addition to the form of the id.
const KINDS: u8 = FX_TRANSFER | BULK;

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl TransferId {
    /// Length in bytes of the longest text of an id, a UUID.
    pub const TEXT_BYTES_MAX: usize = 36;

    /// Reads either form. Returns `None` if the text has neither.
    pub fn parse(text: &str) -> Option<Self> {
        match text.len() {
            36 => Self::parse_uuid(text.as_bytes()),
            26 => Self::parse_ulid(text.as_bytes()),
            _ => None,
        }
    }

    fn parse_uuid(text: &[u8]) -> Option<Self> {
        let mut value = [0_u8; 16];
        let mut nibbles = 0;
        for (position, &byte) in text.iter().enumerate() {
            if matches!(position, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return None;
                }
                continue;
            }
            let nibble = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            value[nibbles / 2] |= nibble << if nibbles % 2 == 0 { 4 } else { 0 };
            nibbles += 1;
        }
        let (version, variant) = (value[6] >> 4, value[8] >> 4);
        ((1..=7).contains(&version) && (8..=0xb).contains(&variant)).then_some(Self { tag: 0, value })
    }

    fn parse_ulid(text: &[u8]) -> Option<Self> {
        let mut high = 0_u8;
        let mut value = 0_u128;
        for &byte in text {
            let digit = CROCKFORD.iter().position(|&symbol| symbol == byte)? as u8;
            high = (high << 5) | (value >> 123) as u8;
            value = (value << 5) | u128::from(digit);
        }
        Some(Self { tag: 1 + (high & 0b11), value: value.to_be_bytes() })
    }

    /// Makes a random (version 4) UUID of 16 bytes. The version and variant bits are overwritten.
    pub const fn from_random_bytes(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self { tag: 0, value: bytes }
    }

    /// The stored form: the tag byte, then the value.
    pub fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[0] = self.tag;
        bytes[1..].copy_from_slice(&self.value);
        bytes
    }

    /// Reads the stored form. Returns `None` if the tag is unknown.
    pub fn from_bytes(bytes: &[u8; 17]) -> Option<Self> {
        Self::from_key(bytes).filter(|id| id.tag & KINDS == 0)
    }

    /// Reads the stored form of a key of the archive, which stands for a transfer, an FX transfer or a bulk transfer.
    pub fn from_key(bytes: &[u8; 17]) -> Option<Self> {
        let mut value = [0; 16];
        value.copy_from_slice(&bytes[1..]);
        let is_known = bytes[0] & KINDS != KINDS && bytes[0] & !KINDS <= 4;
        is_known.then_some(Self { tag: bytes[0], value })
    }

    /// Whether a key of the archive stands for a transfer.
    pub const fn is_transfer(self) -> bool {
        self.tag & KINDS == 0
    }

    /// The FX transfer that a key of the archive stands for, if any.
    pub fn as_fx_transfer(self) -> Option<FxTransferId> {
        let id = Self { tag: self.tag & !KINDS, ..self };
        (self.tag & FX_TRANSFER != 0).then_some(FxTransferId(id))
    }

    /// The bulk transfer that a key of the archive stands for, if any.
    pub fn as_bulk(self) -> Option<BulkId> {
        let id = Self { tag: self.tag & !KINDS, ..self };
        (self.tag & BULK != 0).then_some(BulkId(id))
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; 36];
        let tag = self.tag & !KINDS;
        let length = if tag == 0 {
            let mut at = 0;
            for (index, byte) in self.value.iter().enumerate() {
                if matches!(index, 4 | 6 | 8 | 10) {
                    text[at] = b'-';
                    at += 1;
                }
                text[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
                text[at + 1] = b"0123456789abcdef"[usize::from(byte & 0xf)];
                at += 2;
            }
            36
        } else {
            let value = u128::from_be_bytes(self.value);
            let first = ((tag - 1) << 3) | (value >> 125) as u8;
            text[0] = CROCKFORD[usize::from(first)];
            for (index, symbol) in text.iter_mut().enumerate().take(26).skip(1) {
                *symbol = CROCKFORD[(value >> (5 * (25 - index))) as usize & 31];
            }
            26
        };
        f.write_str(core::str::from_utf8(&text[..length]).unwrap_or_default())
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Identifies an FX transfer: a `commitRequestId`. It has the same forms as a [`TransferId`]. The id space is separate,
/// so an FX transfer and a transfer may have equal ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FxTransferId(TransferId);

impl FxTransferId {
    /// Wraps an id that was read as a [`TransferId`].
    pub const fn new(id: TransferId) -> Self {
        Self(id)
    }

    /// The id as it was read.
    pub const fn id(self) -> TransferId {
        self.0
    }

    /// The key of the FX transfer in the archive; no transfer has the same key.
    pub const fn archive_key(self) -> TransferId {
        TransferId { tag: self.0.tag | FX_TRANSFER, ..self.0 }
    }
}

impl fmt::Display for FxTransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FxTransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a bulk transfer: a `bulkTransferId`. It has the same forms as a [`TransferId`]. The id space is separate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkId(TransferId);

impl BulkId {
    /// Wraps an id that was read as a [`TransferId`].
    pub const fn new(id: TransferId) -> Self {
        Self(id)
    }

    /// The id as it was read.
    pub const fn id(self) -> TransferId {
        self.0
    }

    /// The key of the bulk transfer in the archive; no transfer has the same key.
    pub const fn archive_key(self) -> TransferId {
        TransferId { tag: self.0.tag | BULK, ..self.0 }
    }
}

impl fmt::Display for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a participant as in `FSPIOP-Source` or `payerFsp`: 1 to 32 printable ASCII characters. It is stored
/// inline, so commands carry names without allocating.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FspId {
    length: u8,
    text: [u8; 32],
}

impl FspId {
    /// Reads a name. Returns `None` if it is empty, longer than 32 characters or not printable ASCII.
    pub fn parse(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > 32 || !bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return None;
        }
        let mut text = [0; 32];
        text[..bytes.len()].copy_from_slice(bytes);
        Some(Self { length: bytes.len() as u8, text })
    }

    /// Reads the name of a participant that is to be created: letters, digits, `-`, `_` and `.`, without a leading dot.
    /// Such a name needs no escaping in a header, a URL path, a file name or a spreadsheet cell. Names that earlier
    /// versions created may have other characters.
    pub fn parse_new(name: &str) -> Option<Self> {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if is_plain && !name.starts_with('.') { Self::parse(name) } else { None }
    }

    /// The rule of [`Self::parse_new`], for error messages.
    pub const NEW_NAME_RULE: &str =
        "must consist of letters, digits, \"-\", \"_\" and \".\", and not begin with a dot";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }

    /// Whether two names are equal, ignoring the case of ASCII letters.
    pub fn eq_ignore_case(&self, other: &Self) -> bool {
        self.as_bytes().eq_ignore_ascii_case(other.as_bytes())
    }
}

impl fmt::Display for FspId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FspId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ids_round_trip_through_text_and_storage() {
        for text in [
            "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d",
            "00000000-0000-1000-8000-000000000000",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "00000000000000000000000000",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "G0000000000000000000000001",
        ] {
            let id = TransferId::parse(text).expect(text);
            assert_eq!(id.to_string(), text);
            assert_eq!(TransferId::from_bytes(&id.to_bytes()), Some(id));
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "5B1C7D0E-2F34-4A6B-9C8D-0E1F2A3B4C5D",
            "5b1c7d0e-2f34-8a6b-9c8d-0e1f2a3b4c5d",
            "5b1c7d0e-2f34-4a6b-7c8d-0e1f2a3b4c5d",
            "5b1c7d0e02f34-4a6b-9c8d-0e1f2a3b4c5d",
            "01ARZ3NDEKTSV4RRFFQ69G5FAI",
            "01arz3ndektsv4rrffq69g5fav",
            "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5",
        ] {
            assert_eq!(TransferId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn uuid_and_ulid_with_equal_bits_differ() {
        let uuid = TransferId::parse("01563e3a-b5d3-4676-8c61-efb99302bd5b").unwrap();
        let ulid = TransferId { tag: 1, value: uuid.value };
        assert_ne!(uuid, ulid);
        assert_eq!(TransferId::parse(&ulid.to_string()), Some(ulid));
    }

    #[test]
    fn fx_transfer_and_transfer_with_the_same_id_have_different_keys() {
        for text in ["01563e3a-b5d3-4676-8c61-efb99302bd5b", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            let id = TransferId::parse(text).unwrap();
            let key = FxTransferId::new(id).archive_key();
            assert_ne!(key, id);
            assert_eq!((key.as_fx_transfer(), id.as_fx_transfer()), (Some(FxTransferId::new(id)), None));
            assert_eq!((key.to_string(), FxTransferId::new(id).to_string()), (text.into(), text.into()));
            assert_eq!(TransferId::from_key(&key.to_bytes()), Some(key));
            assert_eq!(TransferId::from_bytes(&key.to_bytes()), None, "a key is not the id of a transfer");
        }
        assert_eq!(TransferId::from_key(&[0x85; 17]), None);
    }

    #[test]
    fn names_have_1_to_32_printable_characters() {
        assert_eq!(FspId::parse("greenbank").unwrap().as_str(), "greenbank");
        assert!(FspId::parse("GreenBank").unwrap().eq_ignore_case(&FspId::parse("greenbank").unwrap()));
        for name in ["", "a\nb", "bänk", "123456789012345678901234567890123"] {
            assert_eq!(FspId::parse(name), None, "{name}");
        }
    }

    #[test]
    fn new_names_have_restricted_characters() {
        for name in ["greenbank", "Green-Bank_2.ke", "-", "0"] {
            assert_eq!(FspId::parse_new(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
        let long = "123456789012345678901234567890123";
        for name in
            ["", ".", "..", ".hidden", "Green Bank", "%61%61", "a/b", "a\\b", "=cmd", "a\"b", "bänk", long]
        {
            assert_eq!(FspId::parse_new(name), None, "{name}");
        }
    }
}
